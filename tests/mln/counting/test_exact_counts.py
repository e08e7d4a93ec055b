"""Counts, estimates and changes by flips equal what trying every grounding gives."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onlinesrl.logic.ast import Not, free_variables
from onlinesrl.mln.counting.exact import counter
from onlinesrl.mln.counting.flip_effects import EstimatedFlips, flips
from onlinesrl.mln.counting.ijgp import Estimator
from tests.support import counting_by_definition

MANY = settings(max_examples=max(25, settings.default.max_examples))


@MANY
@given(
    counting_by_definition.CLAUSES | counting_by_definition.formulas(),
    counting_by_definition.worlds(),
    st.data(),
)
def test_counts_for_each_constant_and_of_negations(formula, world, data):
    names = free_variables(formula) or ["x"]
    keep = tuple(data.draw(st.lists(st.sampled_from(names), unique=True, max_size=2)))
    keep = tuple(v for v in keep if v in free_variables(formula))
    types = counting_by_definition.typed(formula)
    count, other = counter(formula, types, keep), counter(Not(formula), types, keep)
    assert np.array_equal(count.count(world), counting_by_definition.brute(formula, world, keep))
    assert np.all(count.count(world) + other.count(world) == count.groundings(world))


def dense(found, predicate, world):
    """Changes at all atoms of a predicate."""
    changes = np.zeros([*map(world.size, counting_by_definition.PLACES[predicate])])
    for row, value in zip(found.of.rows.tolist(), found.of.values, strict=True):
        changes[(*row,)] += value
    return changes


@MANY
@given(
    counting_by_definition.CLAUSES,
    counting_by_definition.worlds(),
    st.sampled_from(sorted(counting_by_definition.PLACES)),
)
def test_flips(clause, world, predicate):
    count = counter(clause, counting_by_definition.TYPES)
    changes = dense(
        flips(count, predicate, counting_by_definition.PLACES[predicate]).change(world),
        predicate,
        world,
    )
    before, true = count.count(world), {*map(tuple, world.tables[predicate].rows.tolist())}
    for atom in np.ndindex(changes.shape):
        rows = [*(true - {atom}), *([] if atom in true else [atom])]
        after = world.changed({predicate: np.array(rows, np.int64).reshape(len(rows), len(atom))})
        assert count.count(after) - before == changes[atom]


@MANY
@given(
    counting_by_definition.formulas(),
    counting_by_definition.worlds(),
    st.sampled_from(sorted(counting_by_definition.PLACES)),
    st.data(),
)
def test_estimated_flips_are_exact_where_clusters_may_be_as_wide(formula, world, predicate, data):
    names, types = free_variables(formula), counting_by_definition.PLACES[predicate]
    keep = tuple(data.draw(st.lists(st.sampled_from(names or ["x"]), max_size=len(names[:1]))))
    count = counter(formula, counting_by_definition.typed(formula), keep)
    assume(predicate not in repr(count.existentials))
    bound = EstimatedFlips(Estimator(count, 1), predicate, types).width() + 1
    found = EstimatedFlips(Estimator(count, bound), predicate, types).change(world)
    exact = flips(count, predicate, types).change(world)
    assert found.scope == exact.scope

    def at(factor):  # what is not listed is 0, and may be listed
        return {(*r,): v for r, v in zip(factor.of.rows.tolist(), factor.of.values, strict=True)}

    zero = dict.fromkeys([*at(found), *at(exact)], 0.0)
    assert zero | at(found) == pytest.approx(zero | at(exact), rel=1e-9, abs=1e-9)


@MANY
@given(counting_by_definition.CLAUSES, counting_by_definition.worlds(), st.integers(1, 4))
def test_estimates_are_possible_numbers_and_exact_where_clusters_are_wide(clause, world, bound):
    count = counter(clause, counting_by_definition.TYPES)
    assert 0 <= Estimator(count, bound).count(world) <= count.groundings(world)
    wide = Estimator(count, Estimator(count, 1).width() + 1)
    expected = counting_by_definition.brute(clause, world)
    assert wide.count(world) == pytest.approx(expected, rel=1e-9, abs=1e-9)
