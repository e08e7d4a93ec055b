"""MaxWalkSAT, completion and propagation: the kernels against plain numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.kernels.random import generator, uniform
from onlinesrl.mln.inference.maxwalksat import WalkSat, feasible_state
from onlinesrl.mln.inference.presolve import Reduced, reduced
from onlinesrl.mln.kernels import maxwalksat as kernel
from onlinesrl.mln.kernels import unit_propagation
from onlinesrl.mln.kernels.ground_network import FALSE, OPEN, TRUE
from tests.support import plain_clauses
from tests.support.ground_mrfs import clause_model

SIGNS = [(s, t, u) for s in (1, -1) for t in (1, -1) for u in (1, -1)]
"""No state satisfies all eight, and nothing follows before two atoms are decided."""


def test_what_search_cannot_satisfy_is_said():
    """Pigeons without room: beyond propagation, so backtracking shows it."""
    holes = 4
    atom = [[p * holes + h + 1 for h in range(holes)] for p in range(holes + 1)]
    apart = [
        (None, [-atom[p][h], -atom[q][h]])
        for h in range(holes)
        for p in range(holes + 1)
        for q in range(p)
    ]
    problem = clause_model(holes * (holes + 1), [(None, row) for row in atom] + apart)
    with pytest.raises(Infeasible):
        WalkSat().solve(*problem)


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    monkeypatch.setattr("onlinesrl.mln.inference.maxwalksat.BACKTRACKS", 0)
    problem = clause_model(3, [(None, [s, 2 * t, 3 * u]) for s, t, u in SIGNS])
    with pytest.raises(Unsolved, match="raise flips"):
        WalkSat(flips=0).solve(*problem)


def test_a_first_state_comes_by_search_where_completion_gives_up(monkeypatch):
    monkeypatch.setattr("onlinesrl.mln.inference.maxwalksat.BACKTRACKS", 0)
    clauses = [(None, [s, 2 * t, 3 * u]) for s, t, u in SIGNS if (s, t, u) != (1, 1, 1)]
    problem = model_of(4, [*clauses, (None, [2, 3, 4]), (-1.0, [1]), (-1.0, [2])])
    greedy, order = np.full(problem.n_atoms, unit_propagation.BY_GAIN), np.arange(problem.n_atoms)
    state = feasible_state(
        problem, 1_000, generator(0), greedy.astype(np.uint8), order.astype(np.int32)
    )

    assert plain_clauses.feasible(problem.clauses, state)
    assert problem.expand(state)[:3].tolist() == [0, 0, 0]


def test_the_greedy_preference_takes_the_heavier_side():
    """ROUNDUP's rule: of the clauses not satisfied yet, the side with more weight."""
    problem = clause_model(3, [(1.0, [3]), (2.0, [-2, -3]), (3.0, [2, 1]), (0.5, [-1])])
    found = WalkSat(flips=0, tries=1).solve(*problem)

    assert found.state.tolist() == [1, 0, 1]  # 3 > 0.5; then 2 is free of (2 v 1): false; 1 > 0


# the random numbers ------------------------------------------------------------------------------


def test_the_generator_is_splitmix64():
    mask, rng = (1 << 64) - 1, generator(3, 4)
    state = int(rng[0])
    for _ in range(200):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        assert uniform(rng) == ((z ^ (z >> 31)) >> 11) * 2.0**-53


# completion --------------------------------------------------------------------------------------


def memory(problem: Reduced) -> unit_propagation.Trail:
    return unit_propagation.trail(problem.n_atoms, len(problem.clauses.weight))


def required(problem: Reduced) -> np.ndarray:
    return (np.arange(len(problem.clauses.weight)) < problem.clauses.hard).astype(np.float64)


@given(plain_clauses.layouts(), st.lists(st.integers(0, 2), min_size=7, max_size=7), st.randoms())
def test_completion_finds_a_state_where_there_is_one(problem, preferred, shuffle):
    cl, t = problem.clauses, memory(problem)
    order = np.arange(problem.n_atoms, dtype=np.int32)
    shuffle.shuffle(order)
    wanted = np.array(preferred[: problem.n_atoms], np.uint8)

    status = unit_propagation.complete(cl, t, required(problem), order, wanted, 1_000)

    possible = [s for s in plain_clauses.states(cl) if plain_clauses.feasible(cl, s)]
    assert status == (unit_propagation.COMPLETE if possible else unit_propagation.CONTRADICTION)
    if possible:
        state = (t.fixed == TRUE).astype(np.uint8)
        assert OPEN not in t.fixed
        assert plain_clauses.feasible(cl, state)
        assert t.n_true.tolist() == plain_clauses.true_counts(cl, state).tolist()
        assert (t.n_true + t.n_false).tolist() == np.diff(cl.start).tolist()
        if any(np.array_equal(wanted, s) for s in possible):
            assert np.array_equal(state, wanted)


@given(plain_clauses.layouts(), st.data())
def test_propagation_is_sound(problem, data):
    """What it fixes is so in every state with the chosen atom; a contradiction means there is none."""
    cl, t = problem.clauses, memory(problem)
    if not problem.n_atoms:
        return
    atom = data.draw(st.integers(0, problem.n_atoms - 1))
    true = data.draw(st.booleans())
    unit_propagation.fix(t, atom, TRUE if true else FALSE)
    consistent = unit_propagation.propagate(cl, t, required(problem))

    left = [
        s for s in plain_clauses.states(cl) if plain_clauses.feasible(cl, s) and s[atom] == true
    ]
    assert consistent or not left
    if consistent:
        for state in left:
            assert np.all((t.fixed == OPEN) | ((t.fixed == TRUE) == state))
        literal_open = t.fixed[cl.literal >> 1] == OPEN
        literal_true = (t.fixed[cl.literal >> 1] == TRUE) == (cl.literal & 1 == 0)
        for c in range(cl.hard):
            part = slice(cl.start[c], cl.start[c + 1])
            satisfied = np.any(literal_true[part] & ~literal_open[part])
            assert satisfied or len(literal_open[part]) == 1 or literal_open[part].sum() > 1


# the walk ----------------------------------------------------------------------------------------


@given(plain_clauses.layouts(), st.data())
def test_moves_keep_the_counts(problem, data):
    cl = problem.clauses
    every = plain_clauses.states(cl)
    if not every or not problem.n_atoms:
        return
    s = kernel.search(cl)
    s.state[:] = data.draw(st.sampled_from(every))
    kernel.count(cl, s)
    plain_clauses.check_counts(cl, s)
    for target in data.draw(st.lists(st.sampled_from(every), max_size=5)):
        for v in range(cl.drawn):
            atoms = range(cl.var_start[v], cl.var_start[v + 1])
            off = next((a for a in atoms if s.state[a]), -1)
            on = next((a for a in atoms if target[a]), -1)
            if off == on:
                continue
            before = plain_clauses.score(cl, s.state)
            gained = kernel.move_gain(cl, s, off, on)
            plain_clauses.check_counts(cl, s)
            kernel.apply(cl, s, off, on)
            plain_clauses.check_counts(cl, s)
            assert gained == pytest.approx(plain_clauses.score(cl, s.state) - before, abs=1e-8)
        assert np.array_equal(s.state, target)


@given(plain_clauses.layouts(), st.data())
def test_a_chosen_move_is_the_best_of_its_clause(problem, data):
    cl, rng = problem.clauses, generator(1)
    every = plain_clauses.states(cl)
    if not every or not problem.n_atoms:
        return
    s = kernel.search(cl)
    s.state[:] = data.draw(st.sampled_from(every))
    kernel.count(cl, s)
    for c in plain_clauses.broken(cl, s.state):
        gained = kernel.choose(cl, s, c, 0.0, np.inf, 1, rng)
        moves = [x for x in every if mends(cl, c, s.state, x)]
        best = max(
            (plain_clauses.score(cl, x) - plain_clauses.score(cl, s.state) for x in moves),
            default=-np.inf,
        )
        assert gained == pytest.approx(best, abs=1e-8)


def mends(cl, c, state, other) -> bool:
    """Tell whether a move changes one variable and what the clause hangs on for the better."""
    changed = np.flatnonzero(state != other)
    changed = changed[cl.var_of[changed] < cl.drawn]
    literals = cl.aim[cl.aim_start[c] : cl.aim_start[c + 1]]
    wanted = cl.weight[c] > 0
    mended = [
        x for x in literals if (other[x >> 1] != (x & 1)) == wanted != (state[x >> 1] != (x & 1))
    ]
    return len(set(cl.var_of[changed])) == 1 and bool(mended)


def test_tabu_keeps_a_variable_still():
    problem = model_of(2, [(1.0, [1, 2])])
    cl, s = problem.clauses, kernel.search(problem.clauses)
    kernel.count(cl, s)
    s.moved[:] = [7, 3]
    for _ in range(20):
        assert kernel.choose(cl, s, 0, 0.0, np.inf, 5, generator(_)) == 1.0
        assert s.move.tolist() == [-1, 1]
    assert kernel.choose(cl, s, 0, 0.0, np.inf, 3, generator(0)) == -np.inf
    assert kernel.choose(cl, s, 0, 0.0, 0.5, 3, generator(0)) == 1.0  # better than the best so far


def model_of(n_atoms, clauses, groups=()) -> Reduced:
    return reduced(*clause_model(n_atoms, clauses, groups))


@given(plain_clauses.layouts())
def test_the_walk_reports_the_cost_of_its_best_state(problem):
    cl = problem.clauses
    if not problem.n_atoms:
        return
    every = plain_clauses.states(cl)
    s, best = kernel.search(cl), np.zeros(problem.n_atoms, np.uint8)
    s.state[:] = every[0]
    cost = kernel.maxwalksat(cl, s, 500, 0.1, 2, generator(5), best)
    costs = [sum(abs(cl.weight[c]) for c in plain_clauses.broken(cl, x)) for x in every]

    plain_clauses.check_counts(cl, s)
    assert plain_clauses.in_groups(cl, best)
    assert cost == pytest.approx(
        sum(abs(cl.weight[c]) for c in plain_clauses.broken(cl, best)), abs=1e-6
    )
    assert cost <= costs[0] + 1e-6
    assert cost >= min(costs) - 1e-6
