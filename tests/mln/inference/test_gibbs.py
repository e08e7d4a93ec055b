"""Gibbs sampling: one draw against numpy, the contract, small models, other systems' exact answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.kernels.random import generator
from onlinesrl.library.testing import check_marginal_engine
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.kernels import gibbs_mcsat, maxwalksat
from tests.mln.inference.test_mcsat import MODELS, PARITY
from tests.support import plain_clauses, recorded_networks
from tests.support.ground_mrfs import Problem, clause_model, problems

HARD_TO_CROSS = {"parity", "cycle", "nearly hard"}


@given(problems())
def test_the_contract(problem: Problem):
    check_marginal_engine(Gibbs(samples=20, burn_in=5), problem.model, problem.weights)


@pytest.mark.parametrize("name", sorted(set(MODELS) - HARD_TO_CROSS))
def test_small_models_to_within_sampling_error(name):
    engine = Gibbs(samples=100_000)
    check_marginal_engine(engine, *clause_model(*MODELS[name]), within=0.012)


def test_blocks_lead_across_what_hard_clauses_separate():
    """Four states with no path of single atoms between them."""
    model, weights = clause_model(3, [*PARITY, (0.5, [1])])
    check_marginal_engine(Gibbs(), model, weights, within=0.012)


@pytest.mark.parametrize("n", [10, 50, 100])
def test_friends_and_smokers(n):
    world = recorded_networks.friends_smokers(n)
    _, exact = recorded_networks.answer(recorded_networks.WORLDS / f"fs{n}.marg.exact")

    found = Gibbs(samples=20_000).marginals(world.model, world.weights)

    assert np.abs(found.probability - world.by_name(exact)).mean() <= 0.005
    assert (found.route, found.samples, found.log_z) == ("gibbs", 20_000, None)


def test_friends_and_smokers_with_a_biconditional():
    world = recorded_networks.friends_smokers(50, "fs-infer-iff")
    exact = Exact().marginals(world.model, world.weights).probability
    found = Gibbs(samples=20_000).marginals(world.model, world.weights)

    assert np.abs(found.probability - exact).mean() <= 0.005


@given(plain_clauses.layouts(), st.data())
def test_a_draw_has_the_conditional_distribution(problem, data):
    cl, n = problem.clauses, problem.n_atoms
    every = [s for s in plain_clauses.states(cl) if plain_clauses.feasible(cl, s)]
    if not every or not n:
        return
    state = data.draw(st.sampled_from(every))
    v = data.draw(st.integers(0, cl.drawn - 1))
    atoms = np.arange(cl.var_start[v], cl.var_start[v + 1])
    others = np.setdiff1d(np.arange(cl.var_start[cl.drawn]), atoms)
    options = [s for s in every if np.array_equal(s[others], state[others])]
    score = np.array([plain_clauses.score(cl, s) for s in options])
    mass = np.exp(score - score.max())
    expected = sum(m * s for m, s in zip(mass / mass.sum(), options, strict=True))

    drawn = set()
    for seed in range(20):
        s, probability = maxwalksat.search(cl), np.zeros(n)
        s.state[:] = state
        maxwalksat.count(cl, s)
        gibbs_mcsat.resample(cl, s, v, 0.5, probability, np.zeros(n), generator(seed))
        plain_clauses.check_true(cl, s)
        assert probability[atoms] == pytest.approx(0.5 * expected[atoms], abs=1e-9)
        assert np.delete(probability, atoms).tolist() == [0.0] * (n - len(atoms))
        drawn.add(s.state.tobytes())
    assert drawn <= {s.tobytes() for s, m in zip(options, mass, strict=True) if m > 0}


def test_draws_come_as_often_as_they_should():
    model, weights = clause_model(3, [(1.0, [1]), (-0.5, [2])], [(False, [0, 1, 2])])
    cl = reduced(model, weights).clauses
    s, rng = maxwalksat.search(cl), generator(2)
    maxwalksat.count(cl, s)
    counts = np.zeros(3)
    for _ in range(20_000):
        gibbs_mcsat.resample(cl, s, 0, 1.0, np.zeros(3), np.zeros(3), rng)
        counts += s.state
    mass = np.exp([1.0, -0.5, 0.0])

    assert counts / 20_000 == pytest.approx(mass / (1 + mass.sum()), abs=0.01)
