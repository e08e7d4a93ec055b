"""The search for the least change of evidence: its order, what it leaves out, and how far it goes."""

from itertools import combinations
from math import fsum, inf

from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.explain.counterfactual import Candidate, search

reaches = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, inf]), max_size=7)


@given(reaches=reaches, gap=st.sampled_from([0.0, 0.75, 2.0, 4.5, inf]))
def test_all_sets_that_reach_the_gap_are_tried_by_size_and_reach(reaches, gap):
    candidates = [Candidate(("P", (str(n),)), False, reach) for n, reach in enumerate(reaches)]
    tried = []

    def flipped(sets):
        tried.extend(sets)
        return [None] * len(sets)

    found = search(candidates, gap, flipped, 10_000)
    ranked = sorted(candidates, key=lambda candidate: -candidate.reach)
    assert tried == [
        list(chosen)
        for size in range(1, len(ranked) + 1)
        for chosen in combinations(ranked, size)
        if fsum(candidate.reach for candidate in chosen) >= gap
    ]
    assert (found.tried, found.excluded, found.complete) == (len(tried), len(reaches), True)


def test_many_small_effects():
    candidates = [Candidate(("P", (str(n),)), False, 0.001) for n in range(5000)]
    found = search(candidates, 2.0005, lambda sets: [None] * len(sets), 3)
    assert (found.tried, found.excluded, found.complete) == (3, 2000, False)
