"""SGD's steps against plain numpy, one row at a time."""

import numpy as np
from hypothesis import given

from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HINGE
from onlinesrl.psl.inference.tron import potential_rows
from onlinesrl.psl.kernels import sgd
from onlinesrl.psl.kernels.potentials import Potentials
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


@given(hinge_problems(constraints=False))
def test_a_round(problem):
    model, weights, _ = problem
    rows = potential_rows(model, weights, None, 0.0)
    order = np.random.default_rng(0).permutation(model.n_rows)
    y = np.linspace(0, 1, model.n_variables)
    expected = y.copy()
    sgd.descend(rows, order, y, RATE)
    for i in order:
        expected = np.clip(expected - RATE * gradient(model, weights, i, expected), 0, 1)

    np.testing.assert_allclose(y, expected, atol=1e-12)


@given(hinge_problems(constraints=False))
def test_a_round_of_adam(problem):
    model, weights, _ = problem
    n = model.n_variables
    rows = potential_rows(model, weights, None, 0.0)
    order = np.random.default_rng(0).permutation(model.n_rows)
    y = np.linspace(0, 1, n)
    expected, m, v, t = y.copy(), np.zeros(n), np.zeros(n), np.zeros(n)
    sgd.descend_adam(
        rows, order, y, RATE, sgd.Moments(np.zeros(n), np.zeros(n), np.zeros(n, np.int64))
    )
    for i in order:
        j = model.variable[model.start[i] : model.start[i + 1]]
        g = gradient(model, weights, i, expected)[j]
        t[j] += 1
        m[j], v[j] = 0.9 * m[j] + 0.1 * g, 0.999 * v[j] + 0.001 * g**2
        step = m[j] / (1 - 0.9 ** t[j]) / (np.sqrt(v[j] / (1 - 0.999 ** t[j])) + 1e-8)
        expected[j] = np.clip(expected[j] - RATE * step, 0, 1)

    np.testing.assert_allclose(y, expected, atol=1e-9)


@given(hinge_problems())
def test_a_round_of_adagrad(problem):
    model, weights, _ = problem
    hard = model.kind >= AT_MOST
    rows = Potentials(
        model.start,
        model.variable,
        model.coefficient,
        model.constant,
        np.where(hard, np.inf, model.row_weights(weights)),
        np.isin(model.kind, [HINGE, AT_MOST]).astype(np.uint8),
        (model.power == 2).astype(np.uint8),
        np.empty(0),
        0.0,
    )
    order = np.random.default_rng(0).permutation(model.n_rows)
    y, squares = np.linspace(0, 1, model.n_variables), np.ones(model.n_variables)
    values, sums, energy = y.copy(), squares.copy(), 0.0
    found = sgd.descend_adagrad(rows, order, y, RATE, squares)
    for i in order:
        if hard[i]:
            q = np.zeros(model.n_variables)
            entries = slice(model.start[i], model.start[i + 1])
            q[model.variable[entries]] = model.coefficient[entries]
            excess = q @ values + model.constant[i]
            if model.kind[i] == EQUAL or excess > 0:
                values = np.clip(values - excess * q / (q @ q + 1e-8), 0, 1)
        else:
            energy += model.potentials(values)[i] * model.row_weights(weights)[i]
            step = gradient(model, weights, i, values)
            sums += step**2
            values = np.clip(values - RATE * step / np.sqrt(sums), 0, 1)

    np.testing.assert_allclose(y, values, atol=1e-7)
    np.testing.assert_allclose(squares, sums, atol=1e-7)
    assert abs(found - energy) <= 1e-6
