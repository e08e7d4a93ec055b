"""Compare the tagger's passes with CRFsuite on the data sets of labelled sequences.

usage: python streams/papers/defaults/passes.py DATA PACKAGES

DATA and PACKAGES are those of compare_updates.py, and CRFsuite is called through python-crfsuite, as
sklearn-crfsuite calls it. Prints Markdown: the share of labels that are right on the first fold, and CPU
seconds of learning, the reading of features included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from real_data import Fold, tasks

import onlinesrl as srl

CRFSUITE: dict[str, dict[str, Any]] = {
    "CRFsuite pa, 10 passes": {"algorithm": "pa", "max_iterations": 10},
    "CRFsuite lbfgs, c2 = 1": {"algorithm": "lbfgs", "c2": 1.0},
    "CRFsuite lbfgs, c2 = 0.1": {"algorithm": "lbfgs", "c2": 0.1},
    "CRFsuite lbfgs, c1 = c2 = 0.1, 100 steps": {
        "algorithm": "lbfgs",
        "c1": 0.1,
        "c2": 0.1,
        "max_iterations": 100,
    },
}
TAGGERS: dict[str, dict[str, Any]] = {
    "tagger, 1 pass": {},
    "tagger, 5 passes": {"passes": 5},
    "tagger, 10 passes": {"passes": 10},
    "tagger, ml, 10 passes": {"loss": "ml", "passes": 10},
    "tagger, ml, at most 20, a tenth held out": {"loss": "ml", "passes": 20, "held_out": 0.1},
}
Labels = list[list[str]]
Row = dict[str, tuple[float, float]]
"""By name the share that is right, and CPU seconds of learning."""


class Crfsuite:
    """What sklearn-crfsuite does for a CRF of an algorithm and its parameters."""

    def __init__(self, algorithm: str, **parameters: Any):
        import pycrfsuite

        self.trainer = pycrfsuite.Trainer(algorithm, parameters, verbose=False)
        self.tagger = pycrfsuite.Tagger()

    def fit(self, X: list[Any], y: Labels) -> None:
        """Learn, and open what was learned."""
        for x, labels in zip(X, y, strict=True):
            self.trainer.append(x, labels)
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model.crfsuite")
            self.trainer.train(file)
            self.tagger.open(file)

    def score(self, X: list[Any], y: Labels) -> float:
        """Return the share of labels that are predicted right."""
        hits = sum(
            a == b
            for x, of in zip(X, y, strict=True)
            for a, b in zip(self.tagger.tag(x), of, strict=True)
        )
        return hits / sum(map(len, y))


def rows(fold: Fold) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield what comes of each learner on a fold."""
    (X, y), (unseen, truth) = ([[*of] for of in zip(*part, strict=True)] for part in fold)
    made: dict[str, Callable[[], Any]] = {
        **{name: lambda keys=keys: Crfsuite(**keys) for name, keys in CRFSUITE.items()},
        **{name: lambda keys=keys: srl.SequenceTagger(**keys) for name, keys in TAGGERS.items()},
    }
    for name, make in made.items():
        learner, started = make(), time.process_time()
        learner.fit(X, y)
        used = time.process_time() - started
        yield name, (learner.score(unseen, truth), used)


def main(data: Path, packages: Path) -> None:
    """Print the table."""
    srl.SequenceTagger().fit([[{"a": "b"}]], [["x"]]).predict([[{"a": "b"}]])  # compiles
    found = {
        task.name: dict(rows(task.folds[0])) for task in tasks(data, packages, tagged_only=True)
    }
    if not found:
        sys.exit("no data set is here")
    print(f"| | {' | '.join(found)} |\n|{'---|' * (len(found) + 1)}")
    for name in (*CRFSUITE, *TAGGERS):
        cells = [f"{100 * of[name][0]:.2f}, {of[name][1]:.1f} s" for of in found.values()]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
