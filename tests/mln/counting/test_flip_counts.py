"""The changes of counts by flips of single atoms, against counting again by trying every grounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinesrl.core.errors import UsageError
from onlinesrl.mln.counting.flip_counts import FlipCounts
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import Table, World
from onlinesrl.mln.lang import reader
from tests.support import counting_by_definition as definition

FORMULAS = """
1 F(x, y) ^ F(y, z) => F(x, z)
1 F(x, y) => (P(x) <=> P(y))
1 F(x, x) v P(x) v Q()
1 F(x, y) ^ L(y, +s) => P(x)
1 P(x) v L(y, +s)
1 L(x, s) ^ L(y, s) ^ F(x, y) => x = y
1 F(A, x) ^ F(x, B) v P(C)
1 P(x) ^ P(y) ^ H(z, t, w)
1 (EXIST s L(x, s)) => P(x)
F(x, y) ^ P(x) => P(y).
"""
COUNTERS = Counters(reader.parse(definition.DECLARED + FORMULAS))
QUERY = ("P", "F")


def features(world):
    """The counts of all clauses, by their weights; the last is that of the hard ones."""
    places, n = COUNTERS.places(world)
    total = np.zeros(n + 1)
    for clause, counts, place in zip(COUNTERS.clauses, COUNTERS.counts(world), places, strict=True):
        first = n if clause.hard else place.first
        values = np.ravel(np.asarray(counts, np.float64))
        total[first : first + len(values)] += values / (1 if clause.hard else place.share)
    return total


@given(definition.worlds(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_change_is_the_difference_of_two_counts(world, data):
    flips = FlipCounts(COUNTERS, world, QUERY)
    name = data.draw(st.sampled_from(QUERY))
    atom = tuple(data.draw(st.integers(0, 2)) for _ in world.tables[name].types)
    rows = {*map(tuple, world.tables[name].rows.tolist())} ^ {atom}
    flipped = world.changed({name: np.array(sorted(rows), np.int64).reshape(-1, len(atom))})
    assert flips.change(name, atom) == pytest.approx(features(flipped) - features(world))
    flips.set({name: flipped.tables[name].rows})
    assert {*map(tuple, flips.rows(name).tolist())} == rows
    assert flips.change(name, atom) == pytest.approx(features(world) - features(flipped))


def test_more_atoms_than_64_bits_number_are_refused():
    counters = Counters(reader.parse("R(t, t, t, t, t)\n1 R(a, b, c, d, e)"))
    domains = {"t": tuple(map(str, range(10_000)))}
    world = World(domains, {"R": Table(np.zeros((1, 5), np.int64), ("t",) * 5)})
    with pytest.raises(UsageError, match="R has 1e"):
        FlipCounts(counters, world, ("R",))
