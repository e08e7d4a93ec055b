"""Reduction keeps the feasible states and, up to a constant, their scores."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.presolve import reduced
from tests.support import plain_clauses
from tests.support.ground_mrfs import Clause, Problem, clause_model, problems


@given(problems(max_atoms=7))
def test_the_states_and_their_scores_stay(problem: Problem):
    model = problem.model
    every = (np.array(x, np.uint8) for x in itertools.product((0, 1), repeat=model.n_atoms))
    expected = {tuple(state.tolist()) for state in every if model.feasible(state)}
    try:
        found = reduced(model, problem.weights, problem.bonus)
    except Infeasible:
        assert not expected
        return
    left = [
        s for s in plain_clauses.states(found.clauses) if plain_clauses.feasible(found.clauses, s)
    ]

    assert {tuple(found.expand(s).tolist()) for s in left} == expected
    assert all(np.array_equal(found.expand(s)[found.kept], s) for s in left)
    shift = [
        model.score(found.expand(s), problem.weights, problem.bonus)
        - plain_clauses.score(found.clauses, s)
        for s in left
    ]
    assert np.ptp(shift or [0.0]) == pytest.approx(0, abs=1e-6)


def chain(n: int) -> list[Clause]:
    """Each atom equal to the next, but the first opposite to the second."""
    ends = [(None, [1, 2]), (None, [-1, -2])]
    return ends + [(None, [s * a, -s * (a + 1)]) for a in range(2, n) for s in (1, -1)]


def test_a_chain_of_equal_atoms_is_one():
    found = reduced(*clause_model(400, [*chain(400), (1.0, [399]), (1.0, [1])]))

    assert found.n_atoms == 1
    assert len(found.clauses.weight) == 0  # w a + w !a
    assert found.expand(np.array([0.25])).tolist() in ([0.75] + [0.25] * 399, [0.25] + [0.75] * 399)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_what_follows_from_either_value_of_an_atom_is_fixed(signs):
    """x v y and x v !y, in either order and sign: x holds, and y is free."""
    first, second = signs
    for a, b in ((1, 2), (2, 1)):
        rows = [[first * a, second * b], [first * a, -second * b]]
        found = reduced(*clause_model(2, [(None, row) for row in rows]))
        assert found.kept.tolist() == [b - 1]
        assert found.expand(np.array([0.25]))[a - 1] == (first > 0)


def test_a_unit_runs_through_implications():
    n = 3000
    implications = [(None, [-a, a + 1]) for a in range(n - 1, 0, -1)]
    found = reduced(*clause_model(n, [*implications, (None, [1])]))

    assert found.n_atoms == 0
    assert found.expand(np.zeros(0)).tolist() == [1.0] * n


def test_groups_propagate():
    """Two of three values excluded: the third holds; it excludes those of the next group."""
    problem = clause_model(
        5,
        [(None, [-1]), (None, [-2]), (None, [-3, 4])],
        [(True, [0, 1, 2]), (False, [3, 4])],
    )
    found = reduced(*problem)

    assert found.expand(np.zeros(0, np.uint8)).tolist() == [0, 0, 1, 1, 0]


def test_atoms_of_two_groups_keep_their_places():
    equal = [(None, [1, -3]), (None, [-1, 3])]
    found = reduced(*clause_model(4, [*equal, (1.0, [1])], [(True, [0, 1]), (False, [2, 3])]))

    assert found.n_atoms == 4
    assert found.clauses.hard == 2


@pytest.mark.parametrize(
    "clauses",
    [
        [(None, [1]), (None, [-1])],
        [(None, [1]), (None, [-1, 2]), (None, [-2])],
        [*chain(5), (None, [1]), (None, [5])],
        [(None, [])],
    ],
)
def test_contradictions_are_found(clauses):
    with pytest.raises(Infeasible):
        reduced(*clause_model(5, clauses))
    with pytest.raises(Infeasible):
        Brute().solve(*clause_model(5, clauses))


def test_numbers_that_are_not_finite_are_refused():
    model, _ = clause_model(1, [(1.0, [1])])
    for weights, bonus in ((np.array([np.inf]), None), (np.ones(1), np.array([np.nan]))):
        with pytest.raises(ValueError, match="must be finite"):
            reduced(model, weights, bonus)
