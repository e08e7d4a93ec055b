"""Compare one pass, one pass that learns again from earlier examples, and ten passes, on relational data.

usage: python streams/papers/defaults/replays.py DATA [NAME ...]

DATA is a folder of benchmarks (README.md), of which all data sets are taken, or those of these names. F1 is
that of ``adagrad`` on what is held out, log-loss that of ``log-likelihood``. Prints a Markdown table, with
the CPU seconds of learning.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from probabilities import log_loss, truths
from real_data import Task, tasks

import onlinesrl as srl

MANY = 10
REPLAY = {"examples": MANY, "reservoir": 1000}
WAYS: dict[str, tuple[dict[str, Any], int]] = {
    "one pass": ({}, 1),
    "one pass, replay of ten": ({"replay": REPLAY}, 1),
    "ten passes": ({}, MANY),
}


def learned(task: Task, training: list[Any], update: dict[str, Any], passes: int) -> Any:
    """Return a learner after so many passes, and the CPU seconds they took."""
    learner = srl.OnlineLearner(task.model, task.query, update=update)
    learner.predict_many(training[:1])  # compiles
    began = time.process_time()
    for number in range(passes):
        learner.learn_many(training, again=number > 0)
    return learner, time.process_time() - began


def main() -> None:
    """Print the table."""
    print("| data | | F1 | seconds | log-loss | seconds |\n|---|---|---|---|---|---|")
    names = sys.argv[2:]
    for task in tasks(Path(sys.argv[1]), Path(sys.argv[1])):
        if not task.query or (names and task.name not in names):
            continue
        for name, (keys, passes) in WAYS.items():
            scores, losses, seconds = [], [], np.zeros(2)
            for fold in task.folds:
                learner, took = learned(task, fold.training, {"update": "adagrad", **keys}, passes)
                scores.append(float(learner.evaluate(fold.test)["f1"] or 0.0))
                seconds[0] += took
                update = {"update": "log-likelihood", **keys}
                learner, took = learned(task, fold.training, update, passes)
                losses.append(np.transpose(truths(task, learner, fold.test)))
                seconds[1] += took
            loss = log_loss(*np.concatenate(losses).T)
            cells = (
                f"{100 * np.mean(scores):.1f} | {seconds[0]:.1f} | {loss:.4f} | {seconds[1]:.1f}"
            )
            print(f"| {task.name} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main()
