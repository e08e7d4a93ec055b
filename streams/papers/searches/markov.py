"""Learners of Markov logic by what they predict: CiteSeer's rows of table 6.2 of Srinivasan (2020).

usage: python streams/papers/searches/markov.py FOLDER [--folds N] [--configurations N]

FOLDER is the folder that holds citeseer/, as for compare.py. An eighth of the documents is asked for beside
the others, in learning and when tested. Prints a table of the categorical accuracy of the most probable
states, and of CPU seconds of the whole command.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
from eighths import Asked, Documents, asked_and_seen  # noqa: E402

METRIC = "categorical_accuracy"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--configurations", type=int, default=50)
    given = parser.parse_args()
    documents = Documents.read(given.folder / "citeseer", "citeseer")
    folds = [
        (documents.ask(learn, beside_learn), documents.ask(test, beside_test))
        for learn, beside_learn, test, beside_test in islice(
            asked_and_seen([*documents.labels]), given.folds
        )
    ]
    search = {"metric": METRIC, "configurations": given.configurations}
    learners: dict[str, dict[str, Any]] = {
        "equal weights": {"kind": "random", "metric": METRIC, "configurations": 1},
        "contrastive-divergence": {"kind": "contrastive-divergence", "prior_sd": 2},
        "random-grid": {"kind": "random-grid"} | search,
        "random": {"kind": "random"} | search,
        "hyperband": {"kind": "hyperband", "metric": METRIC},
        "bayesian": {"kind": "bayesian"} | search,
    }
    print(f"| {METRIC} | held out | CPU s |\n|---|---|---|")
    for name, learner in learners.items():
        print(line(name, [tested(learner, *fold) for fold in folds]), flush=True)


def line(name: str, results: Sequence[tuple[float, float]]) -> str:
    """Return mean and standard deviation over the folds, and CPU seconds of all."""
    scores, seconds = zip(*results, strict=True)
    deviation = f" ({stdev(scores):.4f})" if len(scores) > 1 else ""
    return f"| `{name}` | {fmean(scores):.4f}{deviation} | {fmean(seconds):.1f} |"


def example(asked: Asked, name: str) -> dict[str, Any]:
    """Return a fold as an example; of the words is seen the category that naive Bayes finds likeliest."""
    text: dict[str, tuple[float, str]] = {}
    for (document, category), value in asked.seen["Text"].items():
        text[document] = max(text.get(document, (0.0, "")), (value, category))
    known = {document: category for (document, category), v in asked.seen["HasCat"].items() if v}
    links = [*asked.seen["Link"]]
    return {
        "id": name,
        "evidence": {
            "Link": [[a, b] for a, b in links if a in text and b in text],
            "Words": [[document, category] for document, (_, category) in text.items()],
            "Seen": [
                [a, b, known[b]]
                for pair in links
                for a, b in (pair, pair[::-1])
                if a in text and b in known
            ],
        },
        "truth": {"HasCat": [[*atom] for atom, value in asked.truth.items() if value]},
    }


def tested(learner: dict[str, Any], learn: Asked, test: Asked) -> tuple[float, float]:
    """Learn from a fold in a process of its own; return the score of the other, and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, fold in (("learn", learn), ("test", test)):
            (place / f"{name}.jsonl").write_text(json.dumps(example(fold, name)) + "\n")
        config = {
            "model": str(HERE / "markov.mln"),
            "query": "HasCat",
            "source": {"path": "learn.jsonl"},
            "test": {"path": "test.jsonl"},
            "output": str(place / "out"),
            "learner": learner,
        }
        (place / "config.yaml").write_text(json.dumps(config))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [str(Path(sys.executable).with_name("onlinesrl")), "learn", "config.yaml"]
        subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        scores = json.loads((place / "out" / "learned.json").read_text())["scores"]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(scores["HasCat"][METRIC]), spent


if __name__ == "__main__":
    main()
