"""ADMM against the quadratic program and its own certificate."""

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.psl.inference.admm import Admm, AdmmState
from tests.support.hinge_models import friendship, hinge_problems, smokers


@given(hinge_problems(constraints=False))
def test_the_optimality_conditions(problem):
    """Each dual is a slope of its potential, and no variable can gain (Karush, Kuhn and Tucker)."""
    model, weights, _ = problem
    found = Admm(tolerance=1e-9).solve(model, weights)
    pull = np.bincount(model.variable, model.coefficient * found.dual[model.row], model.n_variables)

    assert np.all(pull[found.y < 0.99] >= -1e-3)
    assert np.all(pull[found.y > 0.01] <= 1e-3)


def random_friendship(people, blocks, seed):
    rng = np.random.default_rng(seed)
    return friendship(rng.integers(blocks, size=people), rng.random((people, people)))


def random_smokers(people, pairs, power, seed):
    rng = np.random.default_rng(seed)
    friend = np.unique(rng.integers(people, size=(pairs, 2)), axis=0)
    friend = friend[friend[:, 0] != friend[:, 1]]
    observed = np.where(rng.random(people) < 0.5, np.nan, rng.integers(2, size=people))
    return smokers(friend, observed, power)


MODELS = {
    "friendship": random_friendship(50, 12, 0),
    "smokers-squared": random_smokers(200, 3000, 2, 0),
    "smokers-linear": random_smokers(200, 3000, 1, 0),
}


@pytest.mark.parametrize("name", MODELS)
def test_thousands_of_potentials_and_a_warm_start(name):
    model, weights = MODELS[name]
    found = Admm().solve(model, weights)

    assert model.n_rows > 2000
    assert found.certified
    assert found.energy - found.bound <= 1e-6 * max(1.0, found.energy)
    assert found.iterations <= 500
    again = Admm().solve(model, weights, start=found)
    assert again.certified
    assert again.iterations <= min(found.iterations, 20)


def test_what_does_not_end_is_not_certified():
    model, weights = MODELS["friendship"]

    assert not Admm(rounds=10).solve(model, weights).certified


@given(hinge_problems())
def test_values_do_not_depend_on_the_scale_of_weights(problem):
    model, weights, _ = problem
    values = []
    for scale in (1.0, 4.0):
        state = AdmmState(model, weights)
        state.step(7)
        state.reweigh(scale * weights)
        state.step(30)
        values.append(state.y)
    np.testing.assert_allclose(*values, atol=1e-9)
