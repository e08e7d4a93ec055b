"""The integer program: its rows, ties, and searches that end early."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.ilp import CompactProgram, Ilp, Merged, Unsolved
from tests.support.ground_mrfs import Problem, check, clause_model, problems

SOLVERS = ("highs", "cbc")


@given(problems())
def test_an_answer_does_not_depend_on_the_solves_before_it(problem):
    """Plain, with bonus, with other signs, plain again: each as a new engine answers, ties too."""
    engine, model = Ilp(), problem.model
    signs = np.where(np.arange(len(problem.weights)) % 2, -1.0, 1.0)
    questions = [
        (problem.weights, None),
        (problem.weights, np.ones(model.n_atoms)),
        (problem.weights * signs, None),
        (problem.weights * 0, problem.bonus),
        (problem.weights, None),
    ]
    for weights, bonus in questions:
        try:
            alone = Ilp().solve(replace(model), weights, bonus=bonus)
        except Infeasible:
            return
        again = engine.solve(model, weights, bonus=bonus)
        assert again.state.tolist() == alone.state.tolist()
        assert (again.score, again.bound) == (alone.score, alone.bound)


def frustrated(n_atoms: int) -> Problem:
    """Every two atoms want to be equal or different, at random: a gap that takes branching."""
    pairs = [(a, b) for a in range(1, n_atoms + 1) for b in range(1, a)]
    weights = np.random.default_rng(0).normal(size=len(pairs))
    clauses = [
        (weight, literals)
        for weight, (a, b) in zip(weights, pairs, strict=True)
        for literals in ([a, b], [-a, -b])
    ]
    return Problem(*clause_model(n_atoms, clauses))


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_search_that_ends_early_is_not_certified_but_its_bound_holds(solver):
    problem = frustrated(10)
    best = Brute().solve(problem.model, problem.weights)

    early = Ilp(solver, max_nodes=1).solve(problem.model, problem.weights)
    full = Ilp(solver, max_work=10**9).solve(problem.model, problem.weights)

    assert not early.certified
    assert early.score <= best.score + 1e-6
    assert early.bound >= best.score
    check(full, problem, "ilp")
    assert full.score == pytest.approx(best.score, abs=1e-6)


def test_a_search_ends_after_the_same_work_whatever_the_clock_says():
    problem = frustrated(30)
    question = (problem.model, problem.weights)
    first, again = (Ilp(max_work=10_000).solve(*question) for _ in range(2))

    assert not first.certified
    assert first.score <= first.bound
    assert np.array_equal(first.state, again.state)
    assert (first.score, first.bound) == (again.score, again.bound)


def test_a_search_without_any_state_says_what_to_do():
    problem = frustrated(8)
    with pytest.raises(Unsolved, match="raise max_nodes"):
        Ilp("highs", max_nodes=0).solve(problem.model, problem.weights)


def test_the_program_is_compact():
    """Merged clauses share a column; units, zeros and what cancels have none; a group is a row."""
    model, weights = clause_model(
        4,
        [
            (1.0, [1, 2]),
            (0.5, [2, 1]),
            (1.0, [-3, 4]),
            (-1.0, [4, -3]),
            (-2.0, [-1, -2, -4]),
            (0.5, [3]),
            (0.0, [2, 3]),
            (None, [3, 1]),
            (None, [1, 3]),
        ],
        [(True, [0, 1]), (False, [2, 3])],
    )
    problem = CompactProgram(Merged.of(model), weights).problem
    columns = [variable.name for variable in problem.variables()]

    assert columns == ["y0000000", "y0000001", "y0000002", "y0000003", "z0000000", "z0000002"]
    assert problem.numConstraints() == 1 + 2 + 1 + 3
