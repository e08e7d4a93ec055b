"""The k most probable atoms of each period, against sorting all of them."""

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.evaluation.precision_at_k import CLIP, Budget, PrecisionAtK
from onlinesrl.core.io.restoring import Misfit

HOUR = 3600.0
ATOM = st.tuples(
    st.integers(-3, 12).map(lambda n: n * HOUR / 2),
    st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0]),
    st.sampled_from([True, False, None]),
    st.sampled_from([True, False, None]),  # the label that comes later where there is none
)


def naive(atoms: list[Any], k: int, seconds: float) -> dict[str, Any]:
    """The figures of all periods but the newest; atoms are in order, with the truth known at the end."""
    by: dict[int, list[Any]] = {}
    for time, probability, true in atoms:
        by.setdefault(math.floor(time / seconds), []).append((probability, true))
    chosen, positives = [], 0
    for number in sorted(by)[:-1]:
        chosen += sorted(by[number], key=lambda atom: -atom[0])[
            :k
        ]  # stable: of equal ones the earliest
        positives += sum(true is True for _, true in by[number])
    known = [(p, true) for p, true in chosen if true is not None]
    losses = [-math.log(max(p if true else 1 - p, CLIP)) for p, true in known]
    hits = sum(true for _, true in known)
    return {
        "periods": max(len(by) - 1, 0),
        "alerts": len(chosen),
        "labelled": len(known),
        "precision": hits / len(known) if known else None,
        "recall": hits / positives if positives else None,
        "loss": pytest.approx(math.fsum(losses) / len(known)) if known else None,
    }


@given(st.lists(ATOM, max_size=40), st.integers(1, 4), st.booleans(), st.randoms())
def test_figures_are_those_of_sorting_all(atoms, k, broken, rng):
    top = PrecisionAtK(Budget(k=k, per="1h"))
    waiting: list[Any] = []
    for n, (time, probability, now, later) in enumerate(atoms):
        top.add(time, [str(n)], probability, now)
        if now is None and later is not None:
            waiting.append((time, [str(n)], probability, later))
        if waiting and rng.random() < 0.5:
            top.label(*waiting.pop(rng.randrange(len(waiting))))
        if broken:
            saved = msgspec.json.decode(msgspec.json.encode(top.save()))
            top = PrecisionAtK(top.budget)
            top.restore(saved)
    for label in waiting:
        top.label(*label)
    last = [(t, p, later if now is None else now) for t, p, now, later in atoms]
    figures = top.snapshot()
    figures.pop("last", None)
    assert figures == naive(last, k, HOUR)


@given(st.lists(ATOM, max_size=40), st.integers(1, 3), st.integers(1, 4))
def test_shards_have_the_figures_of_their_atoms_one_after_the_other(atoms, k, shards):
    budget = Budget(k=k, per="1h")
    whole, merged = PrecisionAtK(budget), PrecisionAtK(budget)
    for n in range(shards):
        part = PrecisionAtK(budget, math.inf)
        for time, probability, true, _ in atoms[n::shards]:
            part.add(time, ["x"], probability, true)
            whole.add(time, ["x"], probability, true)
        merged.merge(part)
    assert merged.save() == whole.save()


def test_old_periods_are_sums_and_what_comes_later_for_them_is_counted():
    rng = random.Random(1)
    top, whole = PrecisionAtK(Budget(k=2, per="1h"), 3), PrecisionAtK(Budget(k=2, per="1h"))
    for n in range(60):
        atom = n * HOUR / 5, [str(n)], rng.random(), rng.random() < 0.5
        top.add(*atom)
        whole.add(*atom)
    assert top.snapshot() == whole.snapshot()
    assert len(top.periods) == 3
    top.add(0.0, ["late"], 0.9, True)
    top.add(None, ["untimed"], 0.9, True)
    top.add(1e300, ["far"], 0.9, True)
    assert top.snapshot() == whole.snapshot() | {"late": 1, "untimed": 2}


def test_a_state_with_too_many_atoms_is_refused():
    top = PrecisionAtK(Budget(k=2, per="1h"))
    for n in range(3):
        top.add(0.0, [str(n)], n / 4, True)
    saved = top.save()
    with pytest.raises(Misfit, match="too many"):
        PrecisionAtK(Budget(k=1, per="1h")).restore(saved)
