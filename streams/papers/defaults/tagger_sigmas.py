"""Compare sigma, averaging and temperature of taggers that learn the log-likelihood, on real data.

usage: python streams/papers/defaults/tagger_sigmas.py DATA PACKAGES

DATA and PACKAGES are those of compare_updates.py; figures are those of tagger_probabilities.py, over all
held-out folds together. The last column is the calibration error to expect where each probability is right
and positions are independent: so many positions cannot tell smaller ones. Prints a Markdown table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from real_data import Task, tasks
from tagger_probabilities import BINS, Answer, figures

import onlinesrl as srl

CURRENT = "current"
WAYS: tuple[tuple[int, float, str, bool], ...] = (
    (1, 1.0, "averaged", False),
    (1, 2.0, "averaged", False),
    (1, 1.0, "averaged", True),
    (1, 2.0, CURRENT, False),
    (1, 3.0, CURRENT, True),
    (5, 1.0, "averaged", False),
    (5, 2.0, "averaged", False),
    (5, 3.0, "averaged", False),
    (5, 5.0, "averaged", False),
)
"""Passes, sigma, which weights predict, and whether a temperature is fitted."""


def least(answer: Answer) -> float:
    """Return the calibration error to expect where each confidence is exactly right."""
    random = np.random.default_rng(0)
    predicted, probability = answer
    confidence = np.array(
        [
            of[z]
            for labels, row in zip(predicted, probability, strict=True)
            for z, of in zip(labels, row, strict=True)
        ]
    )
    number = np.minimum((confidence * BINS).astype(int), BINS - 1)
    errors = []
    for _ in range(50):
        gap = confidence - (random.random(len(confidence)) < confidence)
        errors.append(np.abs(np.bincount(number, gap, BINS)).sum() / len(gap))
    return float(np.mean(errors))


def measured(task: Task, passes: int, update: dict[str, Any], calibrated: bool) -> list[float]:
    """Return accuracy in percent, log-loss, calibration error and the least one."""
    truth: list[list[str]] = []
    answer: Answer = ([], [])
    for fold in task.folds:
        tagger = srl.SequenceTagger(update, passes=passes, calibrated=calibrated)
        tagger.fit(*zip(*fold.training, strict=True))
        unseen, labels = zip(*fold.test, strict=True)
        truth += labels
        answer[0].extend(tagger.predict(unseen))
        answer[1].extend(tagger.predict_marginals(unseen))
    accuracy, loss, error = figures(truth, answer)
    return [100 * accuracy, loss, error, least(answer)]


def main() -> None:
    """Print the table."""
    columns = "accuracy", "log-loss", "calibration error", "least"
    print(
        f"| data | passes | sigma | weights | {' | '.join(columns)} |\n|{'---|' * (4 + len(columns))}"
    )
    for task in tasks(Path(sys.argv[1]), Path(sys.argv[2]), tagged_only=True):
        for passes, sigma, predict, calibrated in WAYS:
            update = {"update": "log-likelihood", "sigma": sigma, "predict": predict}
            accuracy, loss, error, low = measured(task, passes, update, calibrated)
            how = f"{task.name} | {passes} | {sigma:g} | {predict}{', calibrated' if calibrated else ''}"
            print(f"| {how} | {accuracy:.2f} | {loss:.3f} | {error:.4f} | {low:.4f} |", flush=True)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main()
