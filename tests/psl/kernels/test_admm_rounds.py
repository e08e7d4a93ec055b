"""ADMM's kernel against the textbook's: copies, multipliers, averages, one row at a time."""

import numpy as np
import pytest
from hypothesis import assume, given

from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HINGE
from onlinesrl.psl.inference.admm import AdmmState
from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.kernels import admm as kernel
from onlinesrl.psl.kernels import admm_rows
from tests.psl.kernels.test_admm_solve import penalties
from tests.support.hinge_models import hinge_problems

ETA = 0.7


def local_step(row, q, c, u):
    """The minimiser of ``f(q . v + c) + 1/2 |v - u|^2`` (Bach et al. 2015, section 2)."""
    kind, power, w = row
    s, norm = q @ u + c, q @ q
    onto = u - s / norm * q
    if kind == EQUAL:
        return onto
    if kind == AT_MOST:
        return onto if s > 0 else u
    if kind == HINGE and s <= 0:
        return u
    if power == 2:
        return u - 2 * w * s / (1 + 2 * w * norm) * q
    v = u - w * q
    return onto if kind == HINGE and q @ v + c < 0 else v


def textbook(problem, y, alpha, rounds):
    """Consensus ADMM; ``alpha`` is a list with an array a row. Its average minimises -bonus . y too."""
    model, weights, bonus = problem
    kinds = list(zip(model.kind, model.power, model.row_weights(weights), strict=True))
    rows = [slice(a, b) for a, b in zip(model.start[:-1], model.start[1:], strict=True)]
    eta = ETA * penalties(model, weights)
    degree = np.bincount(model.variable, eta, model.n_variables).astype(float)
    absent = degree == 0
    degree[absent] = ETA
    for _ in range(rounds):
        total = np.zeros(model.n_variables)
        copies = []
        for i, r in enumerate(rows):
            j, q = model.variable[r], model.coefficient[r]
            v, root = y[j], np.sqrt(eta[r])
            if len(j) and np.all(root > 0):  # in units in which all penalties are 1
                u = root * y[j] - alpha[i] / root
                v = local_step(kinds[i], q / root, model.constant[i], u) / root
            total[j] += eta[r] * v + alpha[i]
            copies.append(v)
        total[absent] = ETA * y[absent]
        y = np.clip((total + bonus) / degree, 0, 1)
        for i, r in enumerate(rows):
            alpha[i] = alpha[i] + eta[r] * (copies[i] - y[model.variable[r]])
    return y


@given(hinge_problems())
def test_the_same_values_as_with_copies(problem):
    """From duals 0: the textbook's local step comes first, so its alpha starts at 0."""
    model, weights, bonus = problem
    bonus = np.zeros(model.n_variables) if bonus is None else bonus
    state = AdmmState(model, weights, bonus)
    assume(not np.any(state.problem.ridge))
    y = state.iterate.y.copy()
    rows = [slice(a, b) for a, b in zip(model.start[:-1], model.start[1:], strict=True)]
    empty = np.diff(model.start) == 0
    state.iterate.dual[~empty] = 0.0
    # One half round: the textbook's local step sees y itself where the kernel sees 2 y' - y.
    sigma = ETA * state.problem.row_step
    dual = (state.iterate.dual + sigma * model.forms(y)) / (1 + sigma * state.problem.curvature)
    state.iterate.dual[:] = np.where(
        empty, state.iterate.dual, np.clip(dual, state.problem.low, state.problem.high)
    )
    pull = np.bincount(
        model.variable, model.coefficient * state.iterate.dual[model.row], model.n_variables
    )
    state.iterate.gradient[:] = pull - bonus
    alpha = [np.zeros(r.stop - r.start) for r in rows]

    for rounds in (1, 2, 7):
        kernel.rounds(state.problem, state.iterate, ETA, 1.0, rounds)
        y = textbook((model, weights, bonus), y, alpha, rounds)
        np.testing.assert_allclose(state.iterate.y, y, atol=1e-10)


@given(hinge_problems())
def test_the_certificate_is_the_models(problem):
    model, weights, bonus = problem
    state = AdmmState(model, weights, bonus)
    state.step(3)
    energy, bound, violation, price = state.certificate()
    dual = np.empty(model.n_rows)
    admm_rows.duals(state.problem, state.iterate, dual)
    linear = 0.0 if bonus is None else bonus @ state.y
    hard = model.kind >= AT_MOST

    assert energy == pytest.approx(model.energy(state.y, weights) - linear, abs=1e-9)
    assert bound == pytest.approx(lower_bound(model, weights, dual, bonus), abs=1e-9)
    assert violation == pytest.approx(model.violation(state.y), abs=1e-9)
    assert price == pytest.approx(np.abs(dual * model.forms(state.y))[hard].sum(), abs=1e-9)
    assert energy + price >= bound - 1e-9
