"""Estimated changes by flips: exact where the pinned formula is a tree, else close; messages are reused."""

import numpy as np
import pytest

from onlinesrl.mln.counting.flip_counts import FlipCounts
from onlinesrl.mln.counting.flip_estimates import DenseWorld, FlipEstimates
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import Table, World
from onlinesrl.mln.lang import reader

PEOPLE, KINDS = 12, 3
DECLARED = "F(person, person)\nP(person)\nL(person, kind)\n"
TREES = [
    "F(x, y) ^ F(y, z) => F(x, z)",
    "F(x, y) ^ P(y) => P(x)",
    "F(x, y) ^ F(y, z) ^ F(z, w) ^ L(w, +k) => P(x)",
    "F(x, y) ^ F(y, x) => x = y",
    "F(x, x) v !F(x, y) v !F(y, P0)",
    "P(x) v L(x, +k)",
]
TRIANGLE = "P(x) ^ F(x, y) ^ F(y, z) ^ F(z, w) ^ F(y, w) => L(w, K0)"


def world(seed, chance=0.4):
    rng = np.random.default_rng(seed)
    domains = {
        "person": tuple(f"P{n}" for n in range(PEOPLE)),
        "kind": tuple(f"K{n}" for n in range(KINDS)),
    }
    places = {"F": ("person", "person"), "P": ("person",), "L": ("person", "kind")}
    tables = {
        name: Table(np.argwhere(rng.random([len(domains[t]) for t in types]) < chance), types)
        for name, types in places.items()
    }
    return World(domains, tables)


def both(formula, bound, name, seed=0):
    """The exact and the estimated changes of all atoms of a predicate."""
    counters = Counters(reader.parse(DECLARED + formula))
    of, (counter,) = world(seed), counters.compiled
    exact, dense = FlipCounts(counters, of, (name,)), DenseWorld(of)
    estimates = FlipEstimates(counter, name, of.tables[name].types, bound)
    rows = [*np.ndindex(*map(of.size, of.tables[name].types))]
    return (
        np.array([exact.change(name, row)[:-1] for row in rows]),
        np.array([np.ravel(estimates.change(dense, row)) for row in rows]),
        estimates,
    )


@pytest.mark.parametrize("formula", TREES)
@pytest.mark.parametrize("name", ["F", "P"])
def test_estimates_are_exact_where_the_pinned_formula_is_a_tree(formula, name):
    if f"{name}(" in formula:
        exact, estimated, of = both(formula, 1 + (name == "P"), name)
        np.testing.assert_allclose(estimated - exact, 0.0, atol=1e-6)
        assert of.width() <= 1


def test_estimates_are_close_where_it_is_not_a_tree_and_exact_with_a_wide_bound():
    exact, estimated, of = both(TRIANGLE, 2, "P")
    error = np.abs(estimated - exact).max()
    assert of.width() == 2
    assert 1e-6 < error < 0.25 * np.abs(exact).max()
    exact, estimated, _ = both(TRIANGLE, 3, "P")
    np.testing.assert_allclose(estimated, exact, atol=1e-6)


def test_messages_of_the_last_flip_are_gone_on_from():
    of, counters = world(1), Counters(reader.parse(DECLARED + TRIANGLE))
    estimates, dense = FlipEstimates(counters.compiled[0], "P", ("person",), 2), DenseWorld(of)
    ((_, _, pinned),) = estimates.parts
    estimates.change(dense, (3,))
    first = pinned.messages.sent
    estimates.change(dense, (3,))
    assert pinned.messages.sent == first  # nothing changed
    for row in np.argwhere(np.ones((PEOPLE, PEOPLE)))[:20]:
        before = pinned.messages.sent
        dense.flip("F", row)
        found = estimates.change(dense, (3,))
        fresh = FlipEstimates(counters.compiled[0], "P", ("person",), 2)
        assert found == pytest.approx(fresh.change(dense, (3,)), rel=1e-3)
        ((_, _, own),) = fresh.parts
        assert pinned.messages.sent - before <= own.messages.sent
