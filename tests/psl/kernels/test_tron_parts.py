"""TRON's energy, gradient and Hessian against plain numpy."""

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.psl.ground.hinge_loss_mrf import HINGE
from onlinesrl.psl.kernels import potentials, tron
from tests.support.hinge_models import hinge_problems


@given(hinge_problems(squares_only=True, constraints=False))
def test_energy_gradient_and_hessian(problem):
    model, weights, bonus = problem
    n = model.n_variables
    bonus = np.zeros(n) if bonus is None else bonus
    w, y = model.row_weights(weights), np.linspace(0.1, 0.9, n)
    objective = tron.Objective(model, weights, bonus)
    memory, whole = (
        tron.Memory.zeros(variable=n, row=model.n_rows),
        potentials.Range(0, n, 0, model.n_rows),
    )
    tron.differentiate(objective, memory, whole, y)
    product, x = np.empty(n), np.cos(np.arange(n))
    tron.multiply(objective, memory, whole, x, product)

    q = np.zeros((model.n_rows, n))
    q[model.row, model.variable] = model.coefficient
    form = model.forms(y)
    active = (form > 0) | (model.kind != HINGE)
    gradient = q.T @ (2 * w * form * active) - bonus
    hessian = (q.T * (2 * w * active)) @ q
    expected = model.energy(y, weights) - bonus @ y
    assert tron.energy(objective, whole, y) == pytest.approx(expected)
    np.testing.assert_allclose(memory.gradient, gradient, atol=1e-9)
    np.testing.assert_allclose(product, hessian @ x, atol=1e-9)
