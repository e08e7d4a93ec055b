"""What ADMM prepares, and how it sets its step size, against plain numpy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HINGE, PLAIN, HingeLossMRF
from onlinesrl.psl.inference.admm import Admm, AdmmState
from onlinesrl.psl.inference.dual import Conjugates, conjugates
from onlinesrl.psl.kernels import admm_rows
from onlinesrl.psl.kernels import admm_solve as kernel
from tests.support.hinge_models import hinge_problems


def penalties(model: HingeLossMRF, weights: Floats, ridge: Any = False) -> Floats:
    """The penalty of every entry before ``eta``, ``m |q|`` float64[entries]."""
    row, q = model.row, np.abs(model.coefficient)
    weight = np.where(ridge, 0.0, np.abs(model.row_weights(weights)))
    pulls = np.bincount(model.variable, weight[row] * q, model.n_variables)
    total, size = (np.bincount(row, x, model.n_rows) for x in (pulls[model.variable], q))
    of_constraint = np.divide(total, size, np.ones(model.n_rows), where=total > 0)
    return np.where(model.kind >= AT_MOST, of_constraint, weight)[row] * q


def ridges(model):
    """Which rows are w q^2 y^2 on [0, 1], bool[n_rows]."""
    alone = np.flatnonzero(np.diff(model.start) == 1)
    found = np.zeros(model.n_rows, bool)
    q = model.coefficient[model.start[:-1][alone]]
    plain = (model.kind == PLAIN)[alone] | ((model.kind == HINGE)[alone] & (q > 0))
    found[alone] = plain & (model.power == 2)[alone] & (model.constant == 0)[alone]
    return found


def slope(rows: Conjugates, form: Floats) -> Floats:
    """``f'(l)``; 0 for a constraint, and where a hinge of power 1 has its kink."""
    with np.errstate(divide="ignore", invalid="ignore"):
        kinked = np.where(form > 0, rows.high, rows.low)
        slope = np.where(rows.curvature > 0, form / rows.curvature, kinked)
    slope = np.clip(slope, rows.low, rows.high)
    return np.where(np.isfinite(slope), slope, 0.0)


@given(hinge_problems())
def test_what_is_prepared_is_the_models(problem):
    model, weights, bonus = problem
    state, rows, ridge = AdmmState(*problem), AdmmState(*problem).problem, ridges(model)
    n, m = model.n_variables, model.n_rows
    weight = model.row_weights(weights)
    of_ridge = np.where(ridge, weight, 0.0)[model.row] * model.coefficient**2
    np.testing.assert_allclose(rows.ridge, np.bincount(model.variable, of_ridge, n), atol=1e-12)

    conjugate = conjugates(model, weights)
    for name in ("low", "high", "curvature"):
        expected = np.where(ridge, 0.0, getattr(conjugate, name))
        np.testing.assert_allclose(getattr(rows, name), expected, rtol=1e-12)
    penalty = np.where(ridge[model.row], 0.0, penalties(model, weights, ridge))
    moving = penalty > 0
    norms = np.bincount(model.row[moving], model.coefficient[moving] ** 2 / penalty[moving], m)
    steps = np.divide(1.0, norms, np.zeros(m), where=norms > 0)
    np.testing.assert_allclose(rows.row_step, steps, rtol=1e-12)
    degree = np.bincount(model.variable, penalty, n)
    moves = (degree > 0) | (rows.ridge > 0)
    np.testing.assert_allclose(rows.degree, np.where(moves, degree, 1), rtol=1e-12)

    dual = np.where(ridge, 0.0, slope(conjugate, model.forms(state.iterate.y)))
    np.testing.assert_allclose(state.iterate.dual, dual, atol=1e-12)
    pull = np.bincount(model.variable, model.coefficient * dual[model.row], n)
    pull = pull - (0.0 if bonus is None else bonus)
    np.testing.assert_allclose(state.iterate.gradient, pull, atol=1e-9)


@given(hinge_problems(), st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_no_energy_is_above_the_ceiling(problem, y):
    model, weights, _ = problem
    pulls, ridge = np.zeros(model.n_variables), np.zeros(model.n_variables)
    ceiling = admm_rows.weigh(model, weights, pulls, ridge)
    assert model.energy(np.array(y[: model.n_variables]), weights) <= ceiling + 1e-9


@given(hinge_problems())
def test_the_step_size_balances_the_last_movement(problem):
    state = AdmmState(*problem)
    eta, due = 1.0, kernel.PERIOD
    for _ in range(6):
        y, dual = state.iterate.y.copy(), state.iterate.dual.copy()
        state.step(kernel.PERIOD)
        if state.n_rounds >= due:
            due = int(kernel.GROWTH * state.n_rounds)
            dy, du = state.iterate.y - y, state.iterate.dual - dual
            moving = du != 0
            primal = np.sqrt(np.sum(dy**2 * state.problem.degree))
            moved = np.sqrt(np.sum(du[moving] ** 2 / state.problem.row_step[moving]))
            if primal > 0 or moved > 0:
                ratio = moved / primal if primal > 0 else np.inf
                eta = np.clip(ratio, eta / kernel.CHANGE, eta * kernel.CHANGE)
        assert state.eta == pytest.approx(eta, rel=1e-6)


@given(hinge_problems())
def test_being_watched_makes_no_difference(problem):
    model, weights, bonus = problem
    seen = []
    try:
        found = Admm(tolerance=1e-9).solve(model, weights, bonus=bonus)
    except Infeasible:
        return
    watched = Admm(tolerance=1e-9, watch=seen.append).solve(model, weights, bonus=bonus)
    assert np.array_equal(found.y, watched.y)
    assert (found.energy, found.certified) == (watched.energy, watched.certified)
    assert [each.number for each in seen] == list(range(10, found.iterations + 1, 10))


@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0])
def test_a_weight_that_is_not_allowed_is_refused(weight):
    model = HingeLossMRF(
        1,
        np.array([0, 1]),
        np.zeros(1, np.int32),
        np.ones(1),
        np.zeros(1),
        np.zeros(1, np.int64),
        np.full(1, 2, np.uint8),
        np.zeros(1, np.uint8),
    )
    with pytest.raises(ValueError, match="a weight"):
        Admm().solve(model, np.array([weight]))


def test_given_duals_are_brought_within_their_ends():
    """A rule that has come to weight 0 pulls no more, whatever it pulled when it had one."""
    collected = []

    @given(hinge_problems())
    def collect(problem):
        model, weights, bonus = problem
        zero = np.zeros_like(weights)
        try:
            start = Admm().solve(model, np.abs(weights) + 1.0, bonus=bonus)
            found = Admm().solve(model, zero, bonus=bonus, start=start)
        except Infeasible:
            return
        rows = conjugates(model, zero)
        assert np.all((found.dual >= rows.low) & (found.dual <= rows.high))
        assert np.all(np.isfinite(found.y))
        collected.append(found.certified)

    collect()
    assert np.mean(collected) > 0.9
