"""Markov chains: single draws against numpy, starts and blocks, and what chains in several modes tell."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import soaked
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.core.kernels.random import generator
from onlinesrl.mln.inference import mcmc
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.mcmc import NO_BLOCKS, STARTS, Chains, blocks, starts
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.kernels import gibbs_mcsat, maxwalksat, unit_propagation
from onlinesrl.testing import marginals_by_enumeration
from tests.support import multimodal_models, plain_clauses
from tests.support.ground_mrfs import clause_model

PARITY = [(None, x) for x in ([1, 2, 3], [1, -2, -3], [-1, 2, -3], [-1, -2, 3])]


# draws -------------------------------------------------------------------------------------------


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
    problem = reduced(*clause_model(3, [*PARITY, (0.5, [1]), (-0.8, [2, 3])]))
    cl, n = problem.clauses, problem.n_atoms
    s, t = maxwalksat.search(cl), unit_propagation.trail(n, len(cl.weight))
    s.state[:] = [1, 1, 1]
    failures = gibbs_mcsat.mcsat(
        cl, s, t, NO_BLOCKS, 200, 0, 0, 1.0, generator(0), *np.zeros((4, n)),
        np.zeros(n, np.uint8), np.zeros(n, np.int32),
    )  # fmt: skip

    assert failures > 0
    assert plain_clauses.feasible(cl, s.state)


def test_records_have_samples_of_their_own():
    world = clause_model(9, [(1.0, [a, a + 1]) for a in range(1, 9)])
    engine = McSat(samples=50)
    found = {replace(engine, record=r).marginals(*world).probability.tobytes() for r in range(10)}

    assert len(found) == 10


# starts and blocks -------------------------------------------------------------------------------


@given(plain_clauses.layouts())
def test_starts_are_feasible_and_blocks_lead_between_them(problem):
    cl = problem.clauses
    if not any(plain_clauses.feasible(cl, s) for s in plain_clauses.states(cl)):
        return
    found = starts(problem, 3, 5)
    again = starts(problem, 3, 5)
    for states, others in zip(found, again, strict=True):
        assert len(states) == STARTS
        assert all(plain_clauses.feasible(cl, s) for s in states)
        assert np.array_equal(states, others)
    between = blocks(problem, found.annealed)
    rows = {(*between.atom[i:j].tolist(),) for i, j in pairwise(between.start)}
    assert rows == components(cl, found.annealed)


def components(cl, states) -> set[tuple[int, ...]]:
    """What states differ in, by connected component, of several variables that are not computed."""
    drawn = cl.var_start[cl.drawn]
    rows = [set((cl.literal[i:j] >> 1).tolist()) for i, j in pairwise(cl.start)]
    rows += [set(range(i, j)) for i, j in pairwise(cl.var_start)]
    found = set()
    for one in states:
        for other in states:
            left = set(np.flatnonzero(one != other).tolist())
            while left:
                block, grown = set(), {left.pop()}
                while grown != block:
                    block = grown
                    near = [row for row in rows if row & block]
                    grown = block | {a for row in near for a in row if one[a] != other[a]}
                left -= block
                kept = tuple(sorted(a for a in block if a < drawn))
                if len({cl.var_of[a] for a in kept}) > 1:
                    found.add(kept)
    return found


@given(plain_clauses.layouts())
def test_flipping_a_block_gains_what_the_states_differ_by(problem):
    """And flipping it again leads back: what Metropolis needs to keep the distribution."""
    cl = problem.clauses
    every = [s for s in plain_clauses.states(cl) if plain_clauses.feasible(cl, s)]
    between = blocks(problem, every[:4])

    def flip(s, k):
        atoms = between.atom[between.start[k] : between.start[k + 1]]
        return sum(maxwalksat.turn_gain(cl, s, int(atom)) for atom in atoms)

    for state in every[:6]:
        for k in range(len(between.start) - 1):
            s = maxwalksat.search(cl)
            s.state[:] = state
            maxwalksat.count(cl, s)
            gained = flip(s, k)
            allowed = gibbs_mcsat._in_groups(cl, s, between, k)
            plain_clauses.check_true(cl, s)
            assert allowed == plain_clauses.in_groups(cl, s.state)
            difference = plain_clauses.score(cl, s.state) - plain_clauses.score(cl, state)
            assert gained == pytest.approx(difference, abs=1e-6)
            assert flip(s, k) == pytest.approx(-gained, abs=1e-6)
            assert np.array_equal(s.state, state)


# several modes -----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=multimodal_models.MODELS)
def network(request, tmp_path_factory):
    """A model with its name and exact marginals."""
    model, weights = multimodal_models.network(tmp_path_factory.mktemp("modes"), request.param)
    return request.param, model, weights, Exact().marginals(model, weights).probability


def errors(engine: type[Chains], network, seeds: int, **options) -> list[float]:
    _, model, weights, exact = network
    found = [engine(seed=seed, **options).marginals(model, weights) for seed in range(seeds)]
    assert all(f.diagnostics is not None and f.diagnostics.agree for f in found)
    return [multimodal_models.error(f.probability, exact) for f in found]


MOST = {
    "Ising, weight 2.5": 0.02,
    "Ising, weight 8": 0.02,
    "spin glass": 0.03,
    "parity chain": 0.016,
}
"""Mean errors over atoms and seeds at 1,000 samples by MC-SAT."""


def test_samplers_find_the_modes(network):
    assert np.mean(errors(McSat, network, 3)) <= MOST[network[0]]
    by_gibbs = errors(Gibbs, network, 2)
    assert np.mean(by_gibbs) <= 0.015
    assert max(by_gibbs) <= 0.05


def test_a_wanted_error_is_met(network):
    """The largest error of 15 or 16 atoms is within three standard errors."""
    _, model, weights, exact = network
    found = McSat(error=0.0075).marginals(model, weights)

    assert found.samples > 1_000
    assert found.diagnostics is not None
    assert found.diagnostics.reach(0.0075)
    assert np.abs(found.probability - exact).max() <= 0.0225


@pytest.mark.parametrize("network", ["Ising, weight 8", "parity chain"], indirect=True)
def test_chains_that_nothing_leads_between_are_told(network, monkeypatch):
    """Without blocks each Gibbs chain stays in its mode; four in the same one of two cannot know."""
    monkeypatch.setattr(mcmc, "blocks", lambda *_: NO_BLOCKS)
    _, model, weights, exact = network
    far = told = 0
    for seed in range(10):
        found = Gibbs(samples=1_000, seed=seed).marginals(model, weights)
        assert found.diagnostics is not None
        far += multimodal_models.error(found.probability, exact) > 0.05
        told += not found.diagnostics.agree
    assert far >= 5
    assert told >= 7


def test_sampling_for_an_error_ends_at_its_limit(monkeypatch):
    monkeypatch.setattr(mcmc, "MOST", 5_000)
    found = McSat(error=1e-9).marginals(*clause_model(3, [(1.0, [1, -2]), (1.0, [2, -3])]))

    assert found.samples == 4_000
    assert found.diagnostics is not None
    assert not found.diagnostics.reach(1e-9)


def random_model(rng: np.random.Generator):
    """Ten atoms, thirty clauses of one to three of them, two in five hard."""
    rows = []
    for _ in range(30):
        size = int(rng.integers(1, 4))
        hard = size > 1 and rng.random() < 0.4
        literals = [int(x) for x in (rng.permutation(10)[:size] + 1) * rng.choice([-1, 1], size)]
        rows.append((hard, literals))
    drawn = rng.normal(0, 2, 30)
    clauses = [(None if hard else w, x) for w, (hard, x) in zip(drawn, rows, strict=True)]
    return clause_model(10, clauses)


def verdicts(engine: type[Chains], models: int) -> dict[str, int]:
    """Count runs that are right or wrong (an atom 0.1 or more off), by whether their chains agree."""
    rng = np.random.default_rng(11)
    count = dict.fromkeys(("right", "right, warned", "wrong, warned", "wrong"), 0)
    for seed in range(models):
        model, weights = random_model(rng)
        sampler = engine(samples=1_000, burn_in=100, seed=seed)
        try:
            exact = marginals_by_enumeration(model, weights).probability
        except Infeasible:
            with pytest.raises(Infeasible):
                sampler.marginals(model, weights)
            continue
        found = sampler.marginals(model, weights)
        assert found.diagnostics is not None
        right = "right" if np.abs(found.probability - exact).max() < 0.1 else "wrong"
        count[right + ("" if found.diagnostics.agree else ", warned")] += 1
    return count


@pytest.mark.parametrize("engine", [McSat, Gibbs])
@pytest.mark.parametrize("models", [12, soaked(1_000)])
def test_warnings_go_with_wrong_answers(engine, models):
    count = verdicts(engine, models)
    print(f"\n{engine.route}: {count}")
    assert count["right, warned"] <= 1 + 0.03 * models
    assert count["wrong"] <= 1 + 0.03 * models
