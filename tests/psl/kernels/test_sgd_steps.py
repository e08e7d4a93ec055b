"""SGD's steps against plain numpy, one row at a time."""

import numpy as np
from hypothesis import given

from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL
from onlinesrl.psl.kernels import sgd
from tests.support.hinge_models import hinge_problems

RATE = 0.05


def gradient(model, weights, i, y):
    """Of row i's weighted potential, float64[n_variables]."""
    q = np.zeros(model.n_variables)
    entries = slice(model.start[i], model.start[i + 1])
    q[model.variable[entries]] = model.coefficient[entries]
    form = q @ y + model.constant[i]
    slope = 1.0 if model.power[i] == 1 else 2 * form
    on = form > 0 or model.kind[i] == 1
    return model.row_weights(weights)[i] * slope * on * q


def projected(model, i, y):
    """The nearest values to these for which row i, a constraint, is true; then clipped."""
    q = np.zeros(model.n_variables)
    entries = slice(model.start[i], model.start[i + 1])
    q[model.variable[entries]] = model.coefficient[entries]
    excess = q @ y + model.constant[i]
    if model.kind[i] == EQUAL or excess > 0:
        return np.clip(y - excess * q / (q @ q + 1e-8), 0, 1)
    return y


def descended(model, weights, order, y, step):
    """Values after a pass, and the energies before each step; ``step`` is from row and gradient."""
    energy = 0.0
    for i in order:
        if model.kind[i] >= AT_MOST:
            y = projected(model, i, y)
        else:
            energy += model.potentials(y)[i] * model.row_weights(weights)[i]
            y = np.clip(y - step(i, gradient(model, weights, i, y)), 0, 1)
    return y, energy


@given(hinge_problems())
def test_a_round(problem):
    model, weights, _ = problem
    order = np.random.default_rng(0).permutation(model.n_rows)
    y, squares = np.linspace(0, 1, model.n_variables), np.ones(model.n_variables)
    sums = squares.copy()

    def step(i, g):
        sums[:] += g**2
        return RATE * g / np.sqrt(sums)

    expected, energy = descended(model, weights, order, y.copy(), step)
    found = sgd.descend(model, weights, order, y, RATE, squares)

    np.testing.assert_allclose(y, expected, atol=1e-7)
    np.testing.assert_allclose(squares, sums, atol=1e-7)
    assert abs(found - energy) <= 1e-6
