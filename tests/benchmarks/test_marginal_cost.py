"""What predictions by marginals cost beside those of the most probable state, on the same examples."""

import random
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import pytest

import onlinesrl as srl
from tests.benchmarks.measure import in_turns, ratio, show, sizes
from tests.support.paths import REPO

Case = tuple[Callable[[], Any], Callable[[], Any]]


def citations(count: int) -> Case:
    """Lines of JSON, and a learner that has learned from others."""
    lines = (REPO / "streams" / "citations" / "citations.jsonl").read_bytes().splitlines(True)
    data = srl.datasets.citations()
    learner = srl.OnlineLearner(data.model, data.query)
    learner.learn_many([*data.examples][:150])
    learned, lines = learner.learned, lines[150 : 150 + count]
    either = (
        partial(lambda of: learned.predict(learned.decode_all(lines), of), of)
        for of in (False, True)
    )
    return tuple(either)  # type: ignore[return-value]


def things(count: int) -> tuple[list[Any], list[list[str]]]:
    """Rows of twelve things, each of one of 200 words, and of one of six labels by its word."""
    rng = random.Random(0)
    numbers = [[rng.randrange(200) for _ in range(12)] for _ in range(count)]
    rows = [[{"word": f"w{n}"} for n in row] for row in numbers]
    return rows, [[f"label {n % 6}" for n in row] for row in numbers]


def linked(count: int) -> Case:
    rows, y = things(count)
    X = [(row, [(n, n + 1) for n in range(11)]) for row in rows]
    made = srl.LinkedClassifier().fit(X, y)
    return lambda: made.predict(X), lambda: made.predict_marginals(X)


def sequences(count: int) -> Case:
    X, y = things(count)
    made = srl.SequenceTagger().fit(X, y)
    return lambda: made.predict(X), lambda: made.predict_marginals(X)


@pytest.mark.parametrize("case", [citations, linked, sequences])
@sizes("count, pairs, most", (5, 1, float("inf")), (300, 15, 3.0))
def test_marginals_cost_at_most_three_times_the_predictions(
    case: Callable[[int], Case], count: int, pairs: int, most: float
) -> None:
    state, marginals = in_turns(pairs, *case(count))
    times = ratio(marginals, state)
    row = (case.__name__, 1e3 * median(state), 1e3 * median(marginals), times)
    show("CPU of predictions and of marginals", ("", "ms", "marginals", "x"), [row])
    assert times <= most
