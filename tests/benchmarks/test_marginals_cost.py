"""Predictions by marginals cost at most three times what those of the most probable state cost, in CPU.

In pairs, on citations, on chains of linked things and with a tagger. Both sides read the same examples.
"""

import gc
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
from conftest import REPO

import onlinesrl as srl
from tests.benchmarks.measure import show

pytestmark = pytest.mark.benchmark
PAIRS = 15
WORDS = [f"w{n}" for n in range(200)]
Case = tuple[str, Callable[[], Any], Callable[[], Any]]


def citations() -> Case:
    """A learner's own step, on lines of JSON."""
    data = srl.datasets.citations()
    learner = srl.OnlineLearner(data.model, data.query)
    learner.learn_many([*data.examples][:150])
    lines = (REPO / "streams" / "citations" / "citations.jsonl").read_bytes().splitlines(True)[150:]
    learned = learner.learned

    def predict(marginals: bool) -> Any:
        return learned.predict(learned.decode_all(lines), marginals)

    return "citations", lambda: predict(False), lambda: predict(True)


def estimator(made: Any, X: list[Any], y: list[list[str]]) -> Case:
    made.fit(X, y)
    return type(made).__name__, lambda: made.predict(X), lambda: made.predict_marginals(X)


def cases() -> list[Case]:
    rng = random.Random(0)
    things = [[{"word": rng.choice(WORDS)} for _ in range(12)] for _ in range(300)]
    y = [[f"label {hash_of(thing['word']) % 6}" for thing in part] for part in things]
    linked = [(part, [(n, n + 1) for n in range(11)]) for part in things]
    return [
        citations(),
        estimator(srl.LinkedClassifier(), linked, y),
        estimator(srl.SequenceTagger(), things, y),
    ]


def hash_of(word: str) -> int:
    return int(word[1:])


def seconds(work: Callable[[], Any]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def test_marginals_cost_at_most_three_times_the_predictions() -> None:
    rows: list[list[str | float]] = []
    for name, predict, marginals in cases():
        predict(), marginals()
        pairs = [(seconds(predict), seconds(marginals)) for _ in range(PAIRS)]
        ratio = median(two / one for one, two in pairs)
        rows.append([name, *(1e3 * median(column) for column in zip(*pairs, strict=True)), ratio])
    show("CPU of predictions and of marginals, median of pairs", ["", "ms", "marginals", "x"], rows)
    assert all(row[-1] <= 3.0 for row in rows)
