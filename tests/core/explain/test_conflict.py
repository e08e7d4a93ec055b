"""Smallest conflicts."""

import math

from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.explain.conflict import SHOWN, impossible, smallest_conflict

SETS = st.lists(st.frozensets(st.integers(0, 60), min_size=1, max_size=4), max_size=3)


@given(SETS, st.permutations(range(61)))
def test_a_conflict_has_no_part_that_is_one(conflicts, constraints):
    calls = []

    def can_hold(chosen):
        calls.append(chosen)
        return not any(conflict <= {*chosen} for conflict in conflicts)

    found = smallest_conflict(constraints, can_hold)
    if not conflicts:
        assert found is None
        return
    assert not can_hold(found)
    assert all(can_hold([x for x in found if x != one]) for one in found)
    k = len(found)
    assert len(calls) <= 8 + 2 * k * math.log2(61 / k) + 4 * k + k + 1


def test_what_comes_first_is_tried_first():
    tried = []
    numbers = iter(range(10**9))
    assert smallest_conflict(numbers, lambda x: tried.append(len(x)) or 5 not in x) == [5]
    assert max(tried) <= 8


def test_long_conflicts_are_cut():
    text = str(impossible(["P(a)."], [f"Q({n})" for n in range(SHOWN + 1_500)]))
    assert "the hard rule P(a)., and the facts Q(0); Q(1); " in text
    assert text.endswith("Q(11); 1,500 more")
