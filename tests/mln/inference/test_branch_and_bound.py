"""What is too wide for elimination: pure literals, branch and bound, and both searches in turns."""

import numpy as np
import pytest
from conftest import long
from hypothesis import given

from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import validate
from onlinesrl.mln.inference.alternation import CELLS, Alternation
from onlinesrl.mln.inference.branch_and_bound import Search
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.protocols import Wide
from onlinesrl.mln.inference.pure_literals import impure
from onlinesrl.mln.inference.registry import exact_engine
from onlinesrl.mln.inference.router import Router, eliminated
from onlinesrl.mln.kernels.elimination_order import MAX_CELLS, WIDEST
from tests.support.ground_mrfs import (
    Clause,
    Problem,
    Refuses,
    check,
    clause_model,
    clique,
    listed,
    problems,
    spins,
    transitive,
)


def test_a_search_in_turns_is_the_same_search():
    problem = clique(25)
    whole = Search(problem.model, problem.weights).go_on(10**9)
    search, work, answer = Search(problem.model, problem.weights), 1, None
    while answer is None or not answer.certified:
        last, answer = answer, search.go_on(work)
        assert answer.score <= whole.score <= answer.bound
        assert last is None or (last.score <= answer.score and answer.bound <= last.bound)
        work *= 2

    assert (answer.state.tolist(), answer.bound) == (whole.state.tolist(), whole.bound)


def test_a_state_that_is_offered_is_exceeded_or_proven():
    """Also beside a component that is eliminated before the search."""
    clauses, _ = listed(clique(20))
    clauses += [(5.0, [21, 22]), (-3.0, [-21, 22])]
    problem = Problem(*clause_model(22, clauses))
    best = Ilp().solve(problem.model, problem.weights).score
    for less in (0.0, 0.01):
        search = Search(problem.model, problem.weights)
        search.offer(best - less)
        answer = search.go_on(10**9)
        assert answer.bound == pytest.approx(best, abs=1e-6)
        assert less == 0 or (answer.certified and answer.score == pytest.approx(best, abs=1e-6))


def test_no_state_is_lost_where_weights_are_large():
    """All clauses of negative weight hold in the worst state, which is among all eight."""
    problem = Problem(*clause_model(3, [(-1e9, [-3, -1, 2]), (-1e9, [-3, -2, -1])]))
    search = Search(problem.model, problem.weights, n=9, visible=np.arange(3))
    assert search.go_on(10**9).certified
    scores = [solution.score for solution in search.solutions()]
    assert scores == [-1e9] * 2 + [-2e9] * 6


def pigeons(holes: int) -> Problem:
    """One pigeon more than holes: no state is feasible, which one node does not prove."""
    pigeons = range(holes + 1)
    rows = [(None, [holes * p + h + 1 for h in range(holes)]) for p in pigeons]
    rows += [
        (None, [-(holes * p + h + 1), -(holes * q + h + 1)])
        for h in range(holes)
        for p in pigeons
        for q in range(p)
    ]
    return Problem(*clause_model(holes * (holes + 1), rows))


def test_what_has_no_state_is_unsolved_at_the_limit_and_infeasible_without():
    problem = pigeons(9)
    with pytest.raises(Unsolved, match="max_work 1"):
        Alternation(Ilp(), max_work=1).solve(problem.model, problem.weights)
    with pytest.raises(Infeasible):
        Alternation(Ilp()).solve(problem.model, problem.weights)


@pytest.mark.parametrize(
    ("problem", "program"),
    [
        (transitive(9, 0), Ilp()),
        (transitive(10, 1, hard=False), Ilp()),
        (clique(18), Ilp()),
        long(transitive(7, 0), Ilp("cbc")),
        long(transitive(7, 0), Ilp(max_nodes=100_000)),
    ],
)
def test_both_in_turns_prove_what_either_does(problem, program):
    found = Alternation(program).solve(problem.model, problem.weights)

    check(found, problem, found.route)
    assert found.score == pytest.approx(Ilp().solve(problem.model, problem.weights).score, abs=1e-6)


def test_at_its_limit_an_answer_is_at_least_that_of_local_search():
    problem = transitive(14, 2, hard=False)
    local = WalkSat().solve(problem.model, problem.weights)
    best = Alternation(Ilp()).solve(problem.model, problem.weights)

    for max_work in (1, 20_000):
        found = exact_engine(Ilp(), max_work).solve(problem.model, problem.weights)
        assert local.score <= found.score <= best.score + 1e-9 <= found.bound + 2e-9
        assert found.score == problem.model.score(found.state, problem.weights)


@pytest.mark.parametrize("program", [Ilp(), Ilp(max_nodes=1)])
def test_no_turn_of_branch_and_bound_goes_beyond_the_limit(program, monkeypatch):
    most, go_on = [], Search.go_on
    monkeypatch.setattr(Search, "go_on", lambda *of: most.append(of[1]) or go_on(*of))
    problem = clique(25)

    Alternation(program, max_work=20).solve(problem.model, problem.weights)

    assert len(most) > 1
    assert max(most) <= 20 * CELLS


def best_of_spins(n: int, problem: Problem) -> float:
    """The best score of a grid, cell by cell: of each state of the last ``n`` cells, that of all so far."""
    model, best = problem.model, np.zeros(1 << n)
    best[1:] = -np.inf  # above the first row there is nothing
    gain, agree = model.gains(problem.weights), dict[tuple[int, int], float]()
    for k, weight in enumerate(problem.weights.tolist()):
        atoms = np.abs(model.literals[model.start[k] : model.start[k + 1]]) - 1
        if len(atoms) == 2:
            agree[min(atoms), max(atoms)] = weight
    assert gain[1] == 0.0
    for a in range(n * n):
        column = a % n
        before = best.reshape(-1, 2, 1 << column)  # the cell above
        left = np.arange(1 << column) >> max(0, column - 1)
        rows = []
        for x in (0, 1):
            of_pairs = [agree.get((a - n, a), 0.0) * (1 + (y == x)) for y in (0, 1)]
            found = np.maximum(before[:, 0] + of_pairs[0], before[:, 1] + of_pairs[1])
            beside = agree.get((a - 1, a), 0.0) if column else 0.0
            rows.append(found + beside * (1 + (left == x)) + x * gain[0][a])
        best = np.stack(rows, axis=1).reshape(-1)
    return float(best.max())


@pytest.mark.parametrize("seed", [0, 1])
def test_a_grid_that_neither_proves_soon_is_eliminated_within_the_work(seed):
    problem = spins(12, seed)

    found = exact_engine(Ilp(), 1_000_000).solve(problem.model, problem.weights)
    ended = exact_engine(Ilp(), 20).solve(problem.model, problem.weights)

    check(found, problem, "elimination")
    assert found.score == pytest.approx(best_of_spins(12, problem), abs=1e-6)
    assert not ended.certified


@pytest.mark.parametrize("problem", [clique(18), transitive(5, 0), transitive(5, 1, hard=False)])
def test_wider_elimination_agrees_with_brute_force(problem):
    question, bonus = (problem.model, problem.weights), np.linspace(-1, 1, problem.model.n_atoms)
    with pytest.raises(Wide):
        eliminated(*question, bonus, MAX_CELLS)

    found = eliminated(*question, bonus, MAX_CELLS, WIDEST)

    check(found, Problem(*question, bonus), "elimination")
    assert found.score == pytest.approx(Brute().solve(*question, bonus=bonus).score, abs=1e-9)


def test_a_program_that_ended_at_its_limit_solves_the_next_one():
    problem, program = transitive(8, 3), Ilp()
    with pytest.raises(Unsolved):
        program.solve(problem.model, problem.weights, max_work=1)

    assert program.solve(problem.model, problem.weights).certified


def test_pure_literals_leave_nothing_to_search():
    """Every atom is asked to be true only, or false only, once the clauses of the first are true."""
    rng = np.random.default_rng(0)
    rows: list[Clause] = [
        (1.0, sorted({int(a) for a in rng.integers(1, 300, 3)})) for _ in range(4_000)
    ]
    rows += [(-1.0, [300, -301]), (2.0, [-300, -1])]
    model, weights = clause_model(301, rows)

    found = Router(Refuses(), growth=1).solve(model, weights)

    assert found.certified
    assert found.score == found.bound == sum(w for w, _ in rows if w > 0)


@given(problem=problems())
def test_some_best_state_has_the_values_of_pure_literals(problem: Problem):
    bonus = np.zeros(problem.model.n_atoms) if problem.bonus is None else problem.bonus
    try:
        best = Brute().solve(problem.model, problem.weights, bonus=problem.bonus)
    except Infeasible:
        return

    rest = impure(problem.model, problem.weights, bonus)

    validate(rest.model)
    of_rest = Brute().solve(rest.model, problem.weights[rest.clauses], bonus=bonus[rest.atoms])
    rest.state[rest.atoms] = of_rest.state
    assert problem.model.feasible(rest.state)
    score = problem.model.score(rest.state, problem.weights, problem.bonus)
    assert score == pytest.approx(best.score, abs=1e-9)
