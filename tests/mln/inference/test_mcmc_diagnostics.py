"""R-hat, effective sample size and standard error: against the formulas on all draws, and what they tell."""

import numpy as np
import pytest

from onlinesrl.mln.inference.mcmc_diagnostics import (
    BATCHES,
    LEAST_VARIANCE,
    BatchMeans,
    Diagnostics,
    combine,
)

CHAINS = 4


def tallied(draws: np.ndarray, halvings: int = 0) -> BatchMeans:
    """Tally draws [chain, draw, atom], first a part of them and then as many again so many times."""
    chains, n, atoms = draws.shape
    tally = BatchMeans(chains, atoms, n // BATCHES >> halvings)
    rest = [iter(chain) for chain in draws]
    for step in range(halvings + 1):
        if step:
            tally.halve()
        tally.fill(take, [np.array([c], np.uint8) for c in range(chains)], rest)
    assert all(next(chain, None) is None for chain in rest)
    return tally


def take(_state, n, rest, total, square):
    for _ in range(n):
        draw = next(rest)
        total += draw
        square += draw**2


def two_states(rng: np.random.Generator, n: int, stay: float, start: int = 0) -> np.ndarray:
    """A chain of 0 and 1 that stays where it is with this probability; its autocorrelation is 2 stay - 1."""
    moves = rng.random(n) > stay
    return (np.cumsum(moves) + start) % 2.0


def chains(stay: float, n: int = 10_000, atoms: int = 20) -> np.ndarray:
    rng = np.random.default_rng(1)
    columns = [[two_states(rng, n, stay) for _ in range(atoms)] for _ in range(CHAINS)]
    return np.array(columns).transpose(0, 2, 1)


@pytest.mark.parametrize("halvings", [0, 1, 3])
def test_the_formulas_on_all_draws(halvings):
    """Split R-hat as in Vehtari et al. (2021), equations 1 to 4; batch means."""
    draws = np.random.default_rng(0).random((CHAINS, 400, 7)) ** 3
    draws[0, :, 3] += 0.4
    draws[:, 200:, 4] *= 0.9
    found = tallied(draws, halvings).diagnostics()

    halves = draws.reshape(2 * CHAINS, 200, 7)
    within = halves.var(1, ddof=1).mean(0)
    between = 200 * halves.mean(1).var(0, ddof=1)
    r_hat = np.sqrt((199 / 200 * within + between / 200) / within)
    assert found.r_hat == pytest.approx(np.maximum(r_hat, 1.0))
    assert r_hat[3] > 1.05
    assert r_hat[4] > 1.0
    batches = draws.reshape(-1, 40, 7).mean(1)
    by_batch = batches.std(0, ddof=1) / np.sqrt(len(batches))
    by_chain = draws.mean(1).std(0, ddof=1) / np.sqrt(CHAINS)
    assert found.error == pytest.approx(np.maximum(by_batch, by_chain))
    p = draws.mean((0, 1))
    assert found.ess == pytest.approx(np.minimum(p * (1 - p) / found.error**2, draws.size / 7))
    assert tallied(draws, halvings).mean() == pytest.approx(p)


@pytest.mark.parametrize("stay", [0.5, 0.75, 0.95])
def test_the_error_of_chains_whose_autocorrelation_is_known(stay):
    """The variance of a mean is p (1 - p) / worth, where the worth is n (1 - r) / (1 + r) draws."""
    correlation = 2 * stay - 1
    found = tallied(chains(stay)).diagnostics()
    n = CHAINS * 10_000
    worth = n * (1 - correlation) / (1 + correlation)

    assert np.median(found.error) == pytest.approx(0.5 / np.sqrt(worth), rel=0.25)
    assert np.median(found.ess) == pytest.approx(min(worth, n), rel=0.4)
    assert found.agree
    assert found.largest_r_hat < 1.02


def test_chains_in_different_modes_disagree():
    draws = chains(0.5, 1_000) * 1e-9
    draws[2] = 1 - draws[2]
    found = tallied(draws).diagnostics()

    assert not found.agree
    assert found.r_hat.min() > 100
    assert found.ess.max() < 5
    assert found.error == pytest.approx(0.25, abs=1e-6)


def test_a_chain_that_drifts_disagrees_with_itself():
    drift = np.linspace(0.1, 0.9, 1_000)[None, :, None] + 0.05 * chains(0.5, 1_000, 1)
    assert not tallied(drift).diagnostics().agree


def test_differences_that_do_not_matter_are_no_disagreement():
    """Two chains, each constant, a ten-thousandth apart; and atoms that never change."""
    draws = np.zeros((2, 100, 2))
    draws[1, :, 0] = np.sqrt(LEAST_VARIANCE) / 10
    found = tallied(draws).diagnostics()

    assert found.agree
    assert found.r_hat.tolist() == pytest.approx([1.0, 1.0], abs=0.01)
    assert found.error[1] == 0
    assert found.ess[1] == 200


def test_wanted_errors_are_reached_where_the_chains_agree_too():
    one = np.ones(1)
    assert Diagnostics(4, 1.04 * one, 100 * one, 0.01 * one).reach(0.01)
    assert not Diagnostics(4, 1.04 * one, 100 * one, 0.02 * one).reach(0.01)
    assert not Diagnostics(4, 1.06 * one, 100 * one, 0.01 * one).reach(0.01)


def test_those_of_parts_stand_where_their_atoms_are():
    part = Diagnostics(4, np.array([1.2, 1.0]), np.array([50.0, 60.0]), np.array([0.1, 0.2]))
    places = [np.array([0, 2]), np.array([3, 1])]
    found = combine(4, 1_000, places, [None, part])

    assert found is not None
    assert found.r_hat.tolist() == [1.0, 1.0, 1.0, 1.2]
    assert found.ess.tolist() == [1_000, 60, 1_000, 50]
    assert found.error.tolist() == [0.0, 0.2, 0.0, 0.1]
    assert combine(4, 0, places, [None, None]) is None


def test_those_of_a_models_atoms():
    """Two remaining atoms; the model's are the second, the first's complement, one false and one true."""
    of = Diagnostics(4, np.array([1.5, 1.1]), np.array([5.0, 9.0]), np.array([0.2, 0.1]))
    found = of.of(np.array([1, 2, 4, 5]), 1_000)

    assert found.r_hat.tolist() == [1.1, 1.5, 1.0, 1.0]
    assert found.ess.tolist() == [9, 5, 1_000, 1_000]
    assert found.error.tolist() == [0.1, 0.2, 0.0, 0.0]
