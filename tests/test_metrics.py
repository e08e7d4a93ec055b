"""Metrics are sums of whole numbers: the order and size of batches say nothing."""

import json
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinesrl.metrics import Counts, Metrics, f1

count = st.integers(0, 5)


@dataclass
class Tally:
    """What a learner counts of one example."""

    counts: list[int]
    labelled: int
    predicted: int
    certified: int = 0
    audited: int = 0
    unsolved: int = 0
    routes: dict[str, int] = field(default_factory=dict)
    by_class: dict[str, list[int]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    l1: int | None = None


@st.composite
def tallies(draw: st.DrawFn) -> Tally:
    predicted = draw(st.integers(0, 1))
    labelled = predicted * draw(st.integers(0, 1))
    route = draw(st.sampled_from(["elimination", "ilp"]))
    classes = st.dictionaries(st.sampled_from("ab"), st.lists(count, min_size=3, max_size=3))
    return Tally(
        [labelled * draw(count) for _ in range(7)],
        labelled,
        predicted,
        predicted * draw(st.integers(0, 1)),
        predicted * draw(st.integers(0, 1)),
        draw(st.integers(0, 1)),
        {"elimination": 0, "ilp": 0, route: predicted},
        draw(classes) if labelled else {},
        {} if predicted else {draw(st.sampled_from(["limit", "decode"])): 1},
    )


def together(parts: list[Tally]) -> Tally:
    """The tally of a batch."""
    classes: dict[str, np.ndarray] = {}
    routes: dict[str, int] = {"elimination": 0, "ilp": 0}
    for part in parts:
        for name, n in part.routes.items():
            routes[name] += n
        for name, row in part.by_class.items():
            classes[name] = classes.get(name, 0) + np.array(row)
    return Tally(
        np.sum([p.counts for p in parts], axis=0),
        *(sum(getattr(p, name) for p in parts) for name in ("labelled", "predicted", "certified")),
        sum(p.audited for p in parts),
        sum(p.unsolved for p in parts),
        routes,
        classes,
        sum((Counter(p.errors) for p in parts), Counter()),
    )


@settings(derandomize=True, deadline=None)
@given(st.lists(tallies(), min_size=1, max_size=20), st.integers(1, 20), st.integers(0, 20))
def test_batches_and_checkpoints_leave_no_trace(parts: list[Tally], batch: int, saved: int) -> None:
    singly, batched = Metrics(), Metrics()
    for number, part in enumerate(parts):
        if number == saved:
            singly = Metrics.restore(json.loads(json.dumps(singly.save())))
        singly.add(part, 1)
    for first in range(0, len(parts), batch):
        batched.add(together(parts[first : first + batch]), len(parts[first : first + batch]))
    assert singly.snapshot() == batched.snapshot()
    assert json.loads(json.dumps(singly.save())) == json.loads(json.dumps(batched.save()))


@settings(derandomize=True, deadline=None)
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
        Tally([6, 1, 3, 10, 7, 4, 1], 2, 3, 3, 1, 0, {"elimination": 3}, by, {"limit": 1}), 4
    )
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
