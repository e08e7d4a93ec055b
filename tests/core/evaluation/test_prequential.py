"""Metrics are sums of whole numbers: the order and size of batches say nothing."""

import json
from collections import Counter
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.evaluation.prequential import Counts, Metrics, f1
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.learner import Tally

count = st.integers(0, 5)


@st.composite
def tallies(draw: st.DrawFn) -> Tally:
    predicted = draw(st.integers(0, 1))
    labelled = predicted * draw(st.integers(0, 1))
    route = draw(st.sampled_from(["elimination", "ilp"]))
    three = st.lists(count, min_size=3, max_size=3).map(np.array)
    classes = st.dictionaries(st.sampled_from("ab"), three)
    return Tally(
        np.array([labelled * draw(count) for _ in range(7)]),
        labelled,
        predicted,
        predicted * draw(st.integers(0, 1)),
        predicted * draw(st.integers(0, 1)),
        draw(st.integers(0, 1)),
        {"elimination": 0, "ilp": 0, route: predicted},
        draw(classes) if labelled else {},
        {} if predicted else {draw(st.sampled_from(["limit", "decode"])): 1},
        predicates=draw(classes) if labelled else {},
        ranking={name: ranking_of(draw(atoms)) for name in draw(st.sets(st.sampled_from("PQ")))},
        pairs=draw(confused) if labelled else Counter(),
    )


atoms = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=4)
classes_or_none = st.sampled_from(["a", "b", None])
confused = st.none() | st.dictionaries(
    st.tuples(classes_or_none, classes_or_none), st.integers(1, 3)
).map(Counter)


def ranking_of(found: list[tuple[float, bool]]) -> Ranking:
    ranking = Ranking()
    ranking.add(np.array([s for s, _ in found], float), np.array([t for _, t in found], bool))
    return ranking


@given(st.lists(tallies(), min_size=1, max_size=20), st.integers(1, 20), st.integers(0, 20))
def test_batches_and_checkpoints_leave_no_trace(parts: list[Tally], batch: int, saved: int) -> None:
    singly, batched = Metrics(), Metrics()
    for number, part in enumerate(parts):
        if number == saved:
            singly = Metrics.restore(json.loads(json.dumps(singly.save())))
        singly.add(part, 1)
    for first in range(0, len(parts), batch):
        batched.add(reduce(add, parts[first : first + batch]), len(parts[first : first + batch]))
    assert singly.snapshot() == batched.snapshot()
    assert json.loads(json.dumps(singly.save())) == json.loads(json.dumps(batched.save()))


@given(st.lists(tallies(), max_size=20))
def test_a_window_starts_anew(parts: list[Tally]) -> None:
    metrics = Metrics()
    for part in parts:
        metrics.add(part, 1)
    total, window = metrics.total.scores(), metrics.snapshot()["window"]
    assert window == {"examples": metrics.total.labelled, **total}
    metrics.next_window()
    assert metrics.snapshot()["window"] == {"examples": 0, **Counts().scores()}
    assert metrics.total.scores() == total


def test_scores_of_nothing_are_none() -> None:
    assert set(Counts().scores().values()) == {None}
    assert f1(0, 0, 0) is None
    assert f1(0, 1, 0) == f1(0, 0, 1) == 0.0
    assert Metrics().snapshot()["macro_f1"] is None


def test_scores_of_known_counts() -> None:
    metrics = Metrics()
    by = {"author": np.array([4, 1, 1]), "title": np.array([2, 0, 2]), "none": np.array([0, 0, 0])}
    metrics.add(
        Tally(
            np.array([6, 1, 3, 10, 7, 4, 1]),
            2,
            3,
            3,
            1,
            0,
            {"elimination": 3},
            by,
            {"limit": 1},
            predicates={"P": np.array([6, 1, 3])},
            ranking={"P": ranking_of([(0.9, True), (0.4, False), (0.4, True), (0.3, False)])},
            pairs=Counter({("author", "author"): 4, ("author", "title"): 1, (None, "title"): 2}),
        ),
        4,
    )
    logs = np.log([0.9, 0.6, 0.4, 0.7])
    ranked = {
        "auc": 3.5 / 4,
        "auc_error": 0.5 / 4,
        "average_precision": pytest.approx(0.5 + 0.5 * 2 / 3),
        "average_precision_error": pytest.approx(0.5 * (1 - 2 / 3)),
        "best_f1": 0.8,
        "best_threshold": pytest.approx(0.39995),
        "cll": pytest.approx(logs.mean()),
        "cll_se": pytest.approx(logs.std() / 2),
        "brier": pytest.approx(0.62 / 4),
        "calibration_error": pytest.approx(0.15),
    }
    assert metrics.snapshot() == {
        "examples": 4,
        "labelled": 2,
        "bad": 1,
        "errors": {"limit": 1},
        "f1": 12 / 16,
        "precision": 6 / 7,
        "recall": 6 / 9,
        "accuracy": 0.7,
        "exact": 0.5,
        "hamming": 2.0,
        "macro_f1": pytest.approx((8 / 10 + 4 / 6) / 2),
        "by": {
            "author": {"f1": 0.8, "precision": 0.8, "recall": 0.8, "support": 5},
            "none": {"f1": None, "precision": None, "recall": None, "support": 0},
            "title": {"f1": 4 / 6, "precision": 1.0, "recall": 0.5, "support": 4},
        },
        "confusion": {"author": {"author": 4, "title": 1}, "none": {"title": 2}},
        "predicates": {
            "P": {"f1": 12 / 16, "precision": 6 / 7, "recall": 6 / 9, "support": 9, **ranked}
        },
        **ranked,
        "reliability": [
            {"atoms": 1, "probability": 0.3, "true": 0.0},
            {"atoms": 2, "probability": 0.4, "true": 0.5},
            {"atoms": 1, "probability": 0.9, "true": 1.0},
        ],
        "routes": {"elimination": 3},
        "certified": 3,
        "audited": 1,
        "unsolved": 0,
        "window": {
            "examples": 2,
            "f1": 12 / 16,
            "precision": 6 / 7,
            "recall": 6 / 9,
            "accuracy": 0.7,
            "exact": 0.5,
            "hamming": 2.0,
        },
    }
