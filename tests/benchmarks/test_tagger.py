"""The tagger beside CRFsuite's passive-aggressive learner, one pass over the same features: F1 and CPU.

CRFsuite is called through python-crfsuite as sklearn-crfsuite calls it, reading the features included. Only
the tagger can go on learning on the second day; CRFsuite learns both days anew.
"""

import time
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import onlinesrl as srl
from tests.benchmarks.entities import Day, f1, features
from tests.benchmarks.measure import show

pytestmark = pytest.mark.benchmark
SEEDS = range(1, 6)
LEARNED, TESTED, SECOND = 3000, 1000, 1000
"""Sentences learned from and tested on on the first day, and learned from on the second."""

Data = tuple[list[Any], list[list[str]]]


def sentences(day: Day, count: int) -> Data:
    pairs = [*day.sentences(count)]
    return [features(words) for words, _ in pairs], [labels for _, labels in pairs]


class Crfsuite:
    """What sklearn-crfsuite does for CRF(algorithm="pa", max_iterations=1)."""

    def __init__(self, folder: Path):
        self.file = str(folder / "model.crfsuite")

    def fit(self, X: list[Any], y: list[list[str]]) -> None:
        import pycrfsuite

        trainer = pycrfsuite.Trainer("pa", {"max_iterations": 1}, verbose=False)
        for each, labels in zip(X, y, strict=True):
            trainer.append(each, labels)
        trainer.train(self.file)
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(self.file)

    def predict(self, X: list[Any]) -> list[list[str]]:
        return [self.tagger.tag(each) for each in X]


def timed(work: Any, *arguments: Any) -> tuple[Any, float]:
    """Return what a call returns, and its CPU seconds."""
    started = time.process_time()
    return work(*arguments), time.process_time() - started


def measured(seed: int, folder: Path) -> tuple[list[float], list[float]]:
    """CPU seconds of learning and tagging and F1, then F1 on the second day before and after it."""
    day, next_day = Day(seed), Day(seed, 1)
    (X, y), (unseen, truth) = sentences(day, LEARNED), sentences(day, TESTED)
    (X2, y2), (unseen2, truth2) = sentences(next_day, SECOND), sentences(next_day, TESTED)
    rows = []
    for made in (Crfsuite(folder), srl.SequenceTagger()):
        _, learning = timed(made.fit, X, y)
        found, tagging = timed(made.predict, unseen)
        before = f1(truth2, made.predict(unseen2))
        if isinstance(made, Crfsuite):
            _, second = timed(made.fit, X + X2, y + y2)
        else:
            _, second = timed(made.partial_fit, X2, y2)
        after = f1(truth2, made.predict(unseen2))
        rows.append([learning, tagging, f1(truth, found), before, second, after])
    return rows[0], rows[1]


def test_tagger_beside_crfsuite(tmp_path: Path) -> None:
    pytest.importorskip("pycrfsuite")
    srl.SequenceTagger().fit([[{"a": "b"}]], [["x"]]).predict([[{"a": "b"}]])  # compiles
    pairs = [measured(seed, tmp_path) for seed in SEEDS]
    crf, tagger = (
        [mean(column) for column in zip(*rows, strict=True)] for rows in zip(*pairs, strict=True)
    )
    names = [
        "learn, CPU s",
        "tag, CPU s",
        "F1",
        "F1, day 2",
        "learn day 2, CPU s",
        "F1, day 2, then",
    ]
    rows = [
        [name, one, other, other / one] for name, one, other in zip(names, crf, tagger, strict=True)
    ]
    show(
        f"{LEARNED} sentences, means of {len(SEEDS)} streams",
        ["", "CRFsuite pa", "SequenceTagger", "ratio"],
        rows,
    )
    assert tagger[2] >= crf[2]
    assert tagger[5] >= tagger[3]
