"""Compare what is stored of taggers on real data: accuracy, and size and CPU of models as files and as text.

usage: python streams/papers/defaults/tagger_sizes.py DATA PACKAGES

DATA and PACKAGES are those of compare_updates.py. A tagger's file is its pickle, its text that of
``weights_text``. CRFsuite, which is needed, tells how long it stored its model; its text is its dump. Each
tagger is stored as it is, and pruned. Prints a Markdown table of the first fold of each data set.
"""

from __future__ import annotations

import copy
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from real_data import Fold, tasks

import onlinesrl as srl

PAIRS: tuple[tuple[str, dict[str, Any], str, tuple[float | None, ...]], ...] = (
    ("pa", {"max_iterations": 1}, "adagrad", (None, 0.0, 0.01, 0.03)),
    ("lbfgs", {}, "log-likelihood", (None, 0.0, 0.01, 0.1)),
)
"""An algorithm of CRFsuite and its parameters, the update of a tagger, and thresholds of pruning."""
ROUNDS = 3


class Stored(NamedTuple):
    """Right labels in percent; sizes in MB, and CPU milliseconds of writing and reading."""

    accuracy: float
    file: float
    write: float
    read: float
    text: float
    text_write: float


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and the least CPU milliseconds of some rounds."""
    least = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        result = work()
        least = min(least, time.process_time() - started)
    return result, 1e3 * least


def accuracy(fold: Fold, predicted: list[list[str]]) -> float:
    """Return the right labels of the test set in percent."""
    pairs = [
        pair
        for (_, y), labels in zip(fold.test, predicted, strict=True)
        for pair in zip(y, labels, strict=True)
    ]
    return 100 * sum(a == b for a, b in pairs) / len(pairs)


def crfsuite(fold: Fold, algorithm: str, parameters: dict[str, Any]) -> Stored:
    """Return what CRFsuite stores."""
    import pycrfsuite

    class Trainer(pycrfsuite.Trainer):
        """A trainer that keeps its log."""

        log = ""

        def message(self, message: str) -> None:
            """Take a part of the log."""
            self.log += message

    trainer, tagger = Trainer(algorithm, parameters), pycrfsuite.Tagger()
    for x, labels in fold.training:
        trainer.append(x, labels)
    with tempfile.TemporaryDirectory() as folder:
        model, text = Path(folder) / "model", Path(folder) / "text"
        trainer.train(str(model))
        seconds = re.search(
            r"Storing the model.*?Seconds required: ([\d.]+)", trainer.log, re.DOTALL
        )
        assert seconds is not None
        _, read = timed(lambda: tagger.open(str(model)))
        _, dumped = timed(lambda: tagger.dump(str(text)))
        right = accuracy(fold, [tagger.tag(x) for x, _ in fold.test])
        sizes = [path.stat().st_size / 1e6 for path in (model, text)]
    return Stored(right, sizes[0], 1e3 * float(seconds[1]), read, sizes[1], dumped)


def stored(fold: Fold, tagger: srl.SequenceTagger) -> Stored:
    """Return what a tagger stores."""
    data, write = timed(lambda: pickle.dumps(tagger))
    _, read = timed(lambda: pickle.loads(data))
    text, text_write = timed(tagger.weights_text)
    right = accuracy(fold, tagger.predict([x for x, _ in fold.test]))
    return Stored(right, len(data) / 1e6, write, read, len(text) / 1e6, text_write)


def ways(fold: Fold) -> Iterator[tuple[str, Stored]]:
    """Yield the name of each learner, and what it stores."""
    for algorithm, parameters, update, thresholds in PAIRS:
        yield f"CRFsuite {algorithm}", crfsuite(fold, algorithm, parameters)
        tagger = srl.SequenceTagger(update).fit(*zip(*fold.training, strict=True))
        for threshold in thresholds:
            name, one = update, copy.deepcopy(tagger)
            if threshold is not None:
                name, one = f"{update}, pruned, {threshold:g}", one.prune(threshold)
            yield name, stored(fold, one)


def main() -> None:
    """Print the table."""
    columns = "accuracy", "file, MB", "write, ms", "read, ms", "text, MB", "write, ms"
    print(f"| data | learner | {' | '.join(columns)} |\n|{'---|' * (2 + len(columns))}")
    for task in tasks(Path(sys.argv[1]), Path(sys.argv[2]), tagged_only=True):
        for name, row in ways(task.folds[0]):
            cells = [f"{x:.2f}" if n in {0, 1, 4} else f"{x:.1f}" for n, x in enumerate(row)]
            print(f"| {task.name} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main()
