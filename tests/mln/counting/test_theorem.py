"""Theorem 1 of Sarkhel et al. (2016): what is lost where learning counts with errors of at most epsilon."""

import itertools

import numpy as np
import pytest

from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import Table, World
from onlinesrl.mln.lang import reader

MODELS = {
    "cycle": "!F(x, y) v !F(y, z) v !F(z, x)\nF(x, y)",
    "transitive": "F(x, y) ^ F(y, z) => F(x, z)\n!F(x, y)",
    "square": "F(x, y) ^ F(y, z) ^ F(z, w) ^ F(w, x) => x = z\nF(x, x)",
}


def worlds():
    """All worlds of two people and one relation."""
    for bits in itertools.product([0, 1], repeat=4):
        table = Table(np.argwhere(np.reshape(bits, (2, 2))), ("person", "person"))
        yield World({"person": ("A", "B")}, {"F": table})


def counts(counters):
    return np.array([[float(n) for n in counters.counts(world)] for world in worlds()])


def likelihood(weights, features, world):
    scores = features @ weights
    return scores[world] - np.logaddexp.reduce(scores)


def optimum(features, world):
    """The likeliest weights, from 0 to 3: the theorem is stated for weights that are not negative."""
    start, bounds = np.ones(features.shape[1]), [(0, 3)] * features.shape[1]
    minimize = pytest.importorskip("scipy.optimize").minimize
    return minimize(lambda w: -likelihood(w, features, world), start, bounds=bounds).x


@pytest.mark.parametrize("model", MODELS)
def test_the_bound_of_theorem_1(model):
    program = reader.parse("F(person, person)\n" + MODELS[model])
    exact, estimated = counts(Counters(program)), counts(Counters(program, "ijgp", 1))
    epsilon = np.abs(exact - estimated).max()
    assert epsilon > 0.01
    for world in range(len(exact)):
        alpha, beta = optimum(exact, world), optimum(estimated, world)
        for weights in (alpha, beta):  # lemma 1
            gap = likelihood(weights, exact, world) - likelihood(weights, estimated, world)
            assert abs(gap) <= 2 * epsilon * weights.sum() + 1e-6
        lost = likelihood(alpha, exact, world) - likelihood(beta, exact, world)
        assert lost <= 2 * epsilon * (alpha + beta).sum() + 1e-6
