"""MC-SAT: the contract, small models to within sampling error, other systems' exact answers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.kernels.random import generator
from onlinesrl.library.testing import check_marginal_engine
from onlinesrl.mln.inference.mcmc import NO_BLOCKS, blocks
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.kernels import gibbs_mcsat, maxwalksat, unit_propagation
from tests.support import plain_clauses, recorded_networks
from tests.support.ground_mrfs import Problem, clause_model, problems

LONG = McSat(samples=40_000)


@given(problems())
def test_the_contract(problem: Problem):
    check_marginal_engine(McSat(samples=20, burn_in=5, flips=200), problem.model, problem.weights)


PARITY = [(None, x) for x in ([1, 2, 3], [1, -2, -3], [-1, 2, -3], [-1, -2, 3])]
"""An odd number of three: no two of the four states differ in one atom."""
CYCLE = [(None, [-1, 2]), (None, [-2, 3]), (None, [-3, 1])]

MODELS = {
    "a unit": (1, [(1.2, [1])], []),
    "a unit below 0": (1, [(-1.2, [1])], []),
    "an implication": (2, [(0.7, [1]), (1.5, [-1, 2]), (1.0, [-2])], []),
    "equivalence": (2, [(0.7, [1]), (1.5, [-1, 2]), (1.5, [1, -2])], []),
    "below 0": (3, [(-1.3, [1, 2]), (0.8, [-2, 3]), (-0.8, [1, 3])], []),
    "nearly hard": (2, [(9.0, [1, 2]), (9.0, [-1, -2]), (0.5, [1])], []),
    "parity": (3, [*PARITY, (0.5, [1]), (-0.8, [2, 3])], []),
    "cycle": (3, [*CYCLE, (0.4, [1]), (0.4, [2])], []),
    "exactly one": (4, [(0.9, [1]), (1.4, [-2, 4]), (0.9, [2, 3])], [(True, [0, 1, 2])]),
    "at most one": (4, [(0.9, [1]), (1.4, [-2, 4]), (-0.9, [3, 4])], [(False, [0, 1, 2])]),
    "two groups": (6, [(1.5, [-1, 4]), (1.5, [-2, 5]), (None, [-3, -6]), (0.7, [3])],
                   [(True, [0, 1, 2]), (False, [3, 4, 5])]),
    "a group of one": (2, [(1.1, [-1, 2])], [(True, [0])]),
    "a chain": (8, [(None, [-a, a + 1]) for a in range(1, 8)] + [(1.0, [1]), (-1.5, [8])], []),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_small_models_to_within_sampling_error(name):
    check_marginal_engine(LONG, *clause_model(*MODELS[name]), within=0.012)


def test_a_search_from_random_states_is_fair():
    """SampleSAT alone: of two solutions that mirror each other neither is found more often."""
    engine = McSat(samples=100_000, jump=1.0, sweeps=1)
    check_marginal_engine(engine, *clause_model(*MODELS["equivalence"]), 0.005)


@pytest.mark.parametrize("n", [10, 50, 100])
@pytest.mark.parametrize("seed", range(3))
def test_friends_and_smokers(n, seed):
    world = recorded_networks.friends_smokers(n)
    _, exact = recorded_networks.answer(recorded_networks.WORLDS / f"fs{n}.marg.exact")

    found = McSat(samples=1_000, seed=seed).marginals(world.model, world.weights)

    assert np.abs(found.probability - world.by_name(exact)).mean() <= 0.02
    assert (found.route, found.samples, found.log_z) == ("mcsat", 1_000, None)


@pytest.mark.parametrize(
    ("fold", "pair"),
    [
        (1, "27-Fight_OneManDown2.id2_id6"),
        (2, "24-Meet_Split.id0_id1"),
        (3, "19-Meet_WalkTogether1.id1_id2"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_caviar(fold, pair, seed):
    case = recorded_networks.caviar("DN_HI", fold, pair)
    _, exact = recorded_networks.exact("DN_HI", fold, pair, "marg")

    found = McSat(samples=1_000, seed=seed).marginals(case.model, case.weights)

    assert np.abs(found.probability - case.by_name(exact)).mean() <= 0.003


def test_records_have_samples_of_their_own():
    world = clause_model(9, [(1.0, [a, a + 1]) for a in range(1, 9)])
    engine = McSat(samples=50)
    found = {replace(engine, record=r).marginals(*world).probability.tobytes() for r in range(10)}

    assert len(found) == 10


@given(plain_clauses.layouts())
def test_every_sample_is_feasible(problem):
    """And the slice holds no clause that the state does not satisfy: propagation never fails."""
    cl, n = problem.clauses, problem.n_atoms
    every = [s for s in plain_clauses.states(cl) if plain_clauses.feasible(cl, s)]
    if not every or not n:
        return
    s, t = maxwalksat.search(cl), unit_propagation.trail(n, len(cl.weight))
    s.state[:] = every[0]
    between = blocks(problem, every)
    for _ in range(5):
        gibbs_mcsat.mcsat(
            cl, s, t, between, 1, 100, 2, 0.5, generator(_), *np.zeros((4, n)),
            np.zeros(n, np.uint8), np.zeros(len(cl.exactly), np.int32),
        )  # fmt: skip
        assert plain_clauses.feasible(cl, s.state)
        plain_clauses.check_true(cl, s)


def test_sampling_without_moves_keeps_the_last_state():
    """SampleSAT that is given no time fails, and the chain goes on where it was."""
    problem = reduced(*clause_model(*MODELS["parity"]))
    cl, n = problem.clauses, problem.n_atoms
    s, t = maxwalksat.search(cl), unit_propagation.trail(n, len(cl.weight))
    s.state[:] = [1, 1, 1]
    failures = gibbs_mcsat.mcsat(
        cl, s, t, NO_BLOCKS, 200, 0, 0, 1.0, generator(0), *np.zeros((4, n)),
        np.zeros(n, np.uint8), np.zeros(n, np.int32),
    )  # fmt: skip

    assert failures > 0
    assert plain_clauses.feasible(cl, s.state)
