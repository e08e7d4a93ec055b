"""Compare the probabilities that updates learn on real data: log-loss, Brier score and calibration error.

usage: python streams/papers/defaults/probabilities.py DATA

DATA is a folder of benchmarks (README.md). Each learner makes one pass. The weights that predict (averaged,
current ones by second-order) give a probability to each open atom that is held out. Prints a Markdown table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from real_data import Task, tasks

import onlinesrl as srl

UPDATES: tuple[dict[str, Any], ...] = (
    {"update": "adagrad"},
    {"update": "adagrad", "calibrated": True},
    {"update": "adagrad", "loss": "ml"},
    {"update": "adagrad", "loss": "ml", "calibrated": True},
    {"update": "log-likelihood"},
    {"update": "second-order"},
)
BINS = 10


def probabilities(task: Task, update: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return probability and truth of each open atom that is held out, over all folds."""
    probability, truth = [], []
    for fold in task.folds:
        learner = srl.OnlineLearner(task.model, task.query, update=update)
        learner.learn_many(fold.training)
        part = truths(task, learner, fold.test)
        probability.append(part[0])
        truth.append(part[1])
    return np.concatenate(probability), np.concatenate(truth)


def truths(
    task: Task, learner: srl.OnlineLearner, test: list[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return probability and truth of each open atom of the examples of a test."""
    probability, truth = [], []
    for prediction in learner.predict_many(test, marginals=True):
        rows = (prediction.example.whole().truth or {}).get(task.query, [])
        true = {tuple(map(str, row)) for row in rows if isinstance(row, list)}
        for atom, p in (prediction.values or {})[task.query].items():
            probability.append(p)
            truth.append(tuple(map(str, atom)) in true)
    return np.array(probability), np.array(truth, np.float64)


def log_loss(p: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean of -log of the probability of what is true."""
    q = np.clip(p, 1e-6, 1 - 1e-6)
    return float(-np.mean(truth * np.log(q) + (1 - truth) * np.log1p(-q)))


def figures(p: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Return log-loss, Brier score and expected calibration error in bins of equal width."""
    number = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [abs(np.sum((p - truth)[number == n])) for n in range(BINS)]
    return log_loss(p, truth), float(np.mean((p - truth) ** 2)), sum(gaps) / len(p)


def main() -> None:
    """Print the table, a line for each data set and update."""
    print("| data | update | log-loss | Brier score | calibration error |\n|---|---|---|---|---|")
    for task in tasks(Path(sys.argv[1]), Path(sys.argv[1])):
        for update in UPDATES if task.query else ():
            loss, brier, error = figures(*probabilities(task, update))
            name = ", ".join("calibrated" if key == "calibrated" else update[key] for key in update)
            print(f"| {task.name} | {name} | {loss:.4f} | {brier:.4f} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main()
