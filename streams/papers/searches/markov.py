"""Learners of Markov logic by what they predict: two data sets of table 6.2 of Srinivasan (2020).

usage: python streams/papers/searches/markov.py FOLDER DATASET [--folds N] [--configurations N]

FOLDER is the folder that holds citeseer/ and epinions/, as for compare.py. An eighth of the documents, or of
the opinions, is asked for beside the others, in learning and when tested. Prints a table of a metric on what
is held out, and of CPU seconds of the whole command: the categorical accuracy of the most probable states,
or AUROC and F1 of probabilities by MC-SAT.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
from eighths import Asked, Documents, ask_opinions, asked_and_seen  # noqa: E402
from published import rows  # noqa: E402

SAMPLES = 200
Pair = tuple[str, str]
Evidence = dict[str, list[Any]]


class Task(NamedTuple):
    """What is predicted by which rules, the metrics of the searches, and how folds become examples."""

    model: str
    query: str
    metrics: tuple[str, ...]
    prediction: dict[str, Any]
    folds: Callable[[Path], Iterator[tuple[Asked, Asked]]]
    evidence: Callable[[Asked], Evidence]
    atom: Callable[[tuple[str, ...]], list[str]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("dataset", choices=TASKS)
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--configurations", type=int, default=50)
    given = parser.parse_args()
    task = TASKS[given.dataset]
    folds = [*islice(task.folds(given.folder), given.folds)]
    for metric in task.metrics:
        search = {"metric": metric, "configurations": given.configurations}
        learners: dict[str, dict[str, Any]] = {
            "equal weights": {"kind": "random", "metric": metric, "configurations": 1},
            "contrastive-divergence": {"kind": "contrastive-divergence", "prior_sd": 2},
            "random-grid": {"kind": "random-grid"} | search,
            "random": {"kind": "random"} | search,
            "hyperband": {"kind": "hyperband", "metric": metric},
            "bayesian": {"kind": "bayesian"} | search,
        }
        print(f"| {metric} | held out | CPU s |\n|---|---|---|")
        for name, learner in learners.items():
            results = [tested(task, metric, learner, *fold) for fold in folds]
            print(line(name, results), flush=True)


def line(name: str, results: Sequence[tuple[float, float]]) -> str:
    """Return mean and standard deviation over the folds, and CPU seconds of all."""
    scores, seconds = zip(*results, strict=True)
    deviation = f" ({stdev(scores):.4f})" if len(scores) > 1 else ""
    return f"| `{name}` | {fmean(scores):.4f}{deviation} | {fmean(seconds):.1f} |"


def documents(folder: Path) -> Iterator[tuple[Asked, Asked]]:
    """Yield what is asked of CiteSeer's documents in each fold: to learn, and when tested."""
    of = Documents.read(folder / "citeseer", "citeseer")
    for learn, beside_learn, test, beside_test in asked_and_seen([*of.labels]):
        yield of.ask(learn, beside_learn), of.ask(test, beside_test)


def words_and_links(asked: Asked) -> Evidence:
    """Return a fold's evidence; of the words is seen the category that naive Bayes finds likeliest."""
    text: dict[str, tuple[float, str]] = {}
    for (document, category), value in asked.seen["Text"].items():
        text[document] = max(text.get(document, (0.0, "")), (value, category))
    known = {document: category for (document, category), v in asked.seen["HasCat"].items() if v}
    links = [*asked.seen["Link"]]
    return {
        "Link": [[a, b] for a, b in links if a in text and b in text],
        "Words": [[document, category] for document, (_, category) in text.items()],
        "Seen": [
            [a, b, known[b]]
            for pair in links
            for a, b in (pair, pair[::-1])
            if a in text and b in known
        ],
    }


def opinions(folder: Path) -> Iterator[tuple[Asked, Asked]]:
    """Yield what opinions of Epinions are asked for in each fold: to learn, and when tested."""
    trusts = rows(folder / "epinions" / "trusts.txt", "who, whom and a value", str, str, float)
    values = {(a, b): value for _, (a, b, value) in trusts}
    for learn, beside_learn, test, beside_test in asked_and_seen([*values]):
        yield ask_opinions(values, learn, beside_learn), ask_opinions(values, test, beside_test)


def joined_opinions(asked: Asked) -> Evidence:
    """Return a fold's evidence: which opinions share people, and what is seen of them.

    An opinion is the text `a b`. Only what an opinion asked for is part of is returned.
    """
    about: dict[str, list[str]] = {}
    by: dict[str, list[str]] = {}
    pairs = [*asked.seen["Knows"]]
    known = {*pairs}
    for a, b in pairs:
        about.setdefault(a, []).append(b)
        by.setdefault(b, []).append(a)
    joined: dict[str, list[tuple[Pair, ...]]] = {
        "Triangle": [((a, b), (b, c), (a, c)) for a, b in pairs for c in about.get(b, ())],
        "Circle": [((a, b), (b, c), (c, a)) for a, b in pairs for c in about.get(b, ())],
        "Returned": [((a, b), (b, a)) for a, b in pairs],
        "SameTarget": [((a, c), (b, c)) for a, c in pairs for b in by[c] if a != b],
        "SameSource": [((a, b), (a, c)) for a, b in pairs for c in about[a] if b != c],
    }
    evidence: Evidence = {
        name: [
            [*map(" ".join, row)]
            for row in rows_of
            if known.issuperset(row) and not asked.truth.keys().isdisjoint(row)
        ]
        for name, rows_of in joined.items()
    }
    evidence["Opinion"] = [[" ".join(pair)] for pair in pairs]
    seen = asked.seen["Trusts"].items()
    evidence["Trusts"] = [{"args": [" ".join(pair)], "value": value} for pair, value in seen]
    return evidence


def example(task: Task, asked: Asked, name: str) -> dict[str, Any]:
    """Return a fold as an example."""
    return {
        "id": name,
        "evidence": task.evidence(asked),
        "truth": {task.query: [task.atom(row) for row, value in asked.truth.items() if value]},
    }


def tested(
    task: Task, metric: str, learner: dict[str, Any], learn: Asked, test: Asked
) -> tuple[float, float]:
    """Learn from a fold in a process of its own; return the score of the other, and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, fold in (("learn", learn), ("test", test)):
            (place / f"{name}.jsonl").write_text(json.dumps(example(task, fold, name)) + "\n")
        config = {
            "model": str(HERE / task.model),
            "query": task.query,
            "source": {"path": "learn.jsonl"},
            "test": {"path": "test.jsonl"},
            "output": str(place / "out"),
            "learner": learner,
            **task.prediction,
        }
        (place / "config.yaml").write_text(json.dumps(config))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [str(Path(sys.executable).with_name("onlinesrl")), "learn", "config.yaml"]
        subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        scores = json.loads((place / "out" / "learned.json").read_text())["scores"]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(scores[task.query][metric]), spent


TASKS = {
    "citeseer": Task(
        "markov.mln", "HasCat", ("categorical_accuracy",), {}, documents, words_and_links, list
    ),
    "epinions": Task(
        "trust.mln",
        "Trusts",
        ("auroc", "f1"),
        {"method": "mcsat", "samples": SAMPLES},
        opinions,
        joined_opinions,
        lambda pair: [" ".join(pair)],
    ),
}

if __name__ == "__main__":
    main()
