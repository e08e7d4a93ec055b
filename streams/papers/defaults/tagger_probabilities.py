"""Compare the probabilities of taggers on real data: accuracy, log-loss, calibration error and CPU.

usage: python streams/papers/defaults/tagger_probabilities.py DATA PACKAGES

DATA and PACKAGES are those of compare_updates.py. The confidence in a predicted label is its marginal; its
expected calibration error is that of 15 bins of equal width. CPU is that of learning, with reading the
features. CRFsuite, where python-crfsuite is installed, has its defaults: the likelihood with an L2 prior, by
L-BFGS. Prints a Markdown table of the first fold of each data set.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from real_data import Fold, tasks

import onlinesrl as srl

LEARNERS: tuple[tuple[str, str, bool], ...] = (
    ("adagrad", "adagrad", False),
    ("adagrad, calibrated", "adagrad", True),
    ("log-likelihood", "log-likelihood", False),
    ("second-order", "second-order", False),
)
"""Name, update and whether a temperature is fitted."""
PASSES = (1, 5)
BINS = 15
Answer = tuple[list[list[str]], list[list[dict[str, float]]]]
"""Labels of sequences, and the probabilities of all labels."""


def tagger(fold: Fold, update: str, calibrated: bool, passes: int) -> tuple[Answer, float]:
    """Return what a tagger answers, and the CPU seconds of learning."""
    X, y = zip(*fold.training, strict=True)
    unseen = [x for x, _ in fold.test]
    learner = srl.SequenceTagger(update, passes=passes, calibrated=calibrated)
    learner.fit(X[:2], y[:2])  # compiles
    started = time.process_time()
    learner.fit(X, y)
    seconds = time.process_time() - started
    return (learner.predict(unseen), learner.predict_marginals(unseen)), seconds


def crfsuite(fold: Fold) -> tuple[Answer, float]:
    """Return what CRFsuite answers, and the CPU seconds of learning."""
    import pycrfsuite

    started = time.process_time()
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    for x, labels in fold.training:
        trainer.append(x, labels)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        seconds = time.process_time() - started
        crf = pycrfsuite.Tagger()
        crf.open(f"{folder}/model")
        predicted, probability = [], []
        for x, _ in fold.test:
            predicted.append(crf.tag(x))
            labels = crf.labels()
            probability.append([{z: crf.marginal(z, t) for z in labels} for t in range(len(x))])
    return (predicted, probability), seconds


def figures(truth: Sequence[Sequence[str]], answer: Answer) -> tuple[float, float, float]:
    """Return accuracy, log-loss of the true labels and expected calibration error."""
    rows = [
        (y == z, of.get(y, 0.0), of[z])
        for labels, predicted, probability in zip(truth, *answer, strict=True)
        for y, z, of in zip(labels, predicted, probability, strict=True)
    ]
    right, of_truth, confidence = np.array(rows, np.float64).T
    number = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(np.sum((confidence - right)[number == n])) for n in range(BINS)]
    loss = -np.mean(np.log(np.maximum(of_truth, 1e-6)))
    return float(right.mean()), float(loss), sum(gaps) / len(right)


def ways(fold: Fold) -> Iterator[tuple[str, tuple[Answer, float]]]:
    """Yield the name of each learner, what it answers, and its CPU seconds."""
    for passes in PASSES:
        for learner, update, calibrated in LEARNERS:
            if passes == 1 or update != "second-order":  # which makes one pass
                name = f"{learner}, {passes} {'pass' if passes == 1 else 'passes'}"
                yield name, tagger(fold, update, calibrated, passes)
    try:
        yield "CRFsuite", crfsuite(fold)
    except ImportError:
        print("CRFsuite: left out, no python-crfsuite", file=sys.stderr)


def main() -> None:
    """Print the table."""
    columns = ("data", "learner", "accuracy", "log-loss", "calibration error", "CPU s")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for task in tasks(Path(sys.argv[1]), Path(sys.argv[2]), tagged_only=True):
        fold: Any = task.folds[0]
        for name, (answer, seconds) in ways(fold):
            accuracy, loss, error = figures([y for _, y in fold.test], answer)
            figure = f"{100 * accuracy:.2f} | {loss:.3f} | {error:.4f} | {seconds:.2f}"
            print(f"| {task.name} | {name} | {figure} |", flush=True)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main()
