"""What ADMM prepares, and how it sets its step size, against plain numpy."""

import numpy as np
import pytest
from hypothesis import given, settings

from onlinesrl.ground.hinges import AT_MOST, HINGE, HingeModel
from onlinesrl.ground.model import Floats
from onlinesrl.infer.admm import Admm, AdmmState
from onlinesrl.infer.dual import conjugates
from onlinesrl.infer.engine import Infeasible
from onlinesrl.kernels import admm as rounds
from onlinesrl.kernels import admm_solve as kernel
from tests.infer.hinge_models import hinge_problems


def penalties(model: HingeModel, weights: Floats) -> Floats:
    """Every row's penalty before ``eta``, ``m`` float64[n_rows]."""
    weight = np.abs(model.row_weights(weights))
    pulls = np.bincount(model.variable, weight[model.row], model.n_variables)
    length = np.maximum(np.diff(model.start), 1)
    mean = np.bincount(model.row, pulls[model.variable], model.n_rows) / length
    return np.where(model.kind >= AT_MOST, np.where(mean > 0, mean, 1.0), weight)


def ceiling(model: HingeModel, weights: Floats, bonus: Floats | None = None) -> float:
    """What no energy is above on [0, 1]^n."""
    weight = model.row_weights(weights)
    positive = np.maximum(model.coefficient, 0.0)
    top = model.constant + np.bincount(model.row, positive, model.n_rows)
    bottom = model.constant + np.bincount(model.row, model.coefficient - positive, model.n_rows)
    bottom = np.where(model.kind == HINGE, np.maximum(bottom, 0.0), bottom)
    top = np.where(model.kind == HINGE, np.maximum(top, 0.0), top)
    highest = np.maximum(weight * top**model.power, weight * bottom**model.power)
    loss = 0.0 if bonus is None else float(np.maximum(-bonus, 0.0).sum())
    return float(highest.sum()) + loss


@settings(derandomize=True, deadline=None, max_examples=200)
@given(hinge_problems())
def test_what_is_prepared_is_the_models(problem):
    model, weights, bonus = problem
    n, m = model.n_variables, model.n_rows
    given_bonus = np.zeros(n) if bonus is None else bonus
    none, nothing = np.full(m, np.nan), np.full(n, np.nan)
    rows = rounds.Rows(
        model.start,
        model.variable,
        model.coefficient,
        model.constant,
        *(none.copy() for _ in range(4)),
        nothing,
        given_bonus,
        np.zeros(n),
    )
    highest, excess = kernel.prepare(rows, model.kind, model.power, model.weight_index, weights)
    conjugate, penalty = conjugates(model, weights), penalties(model, weights)
    for name in ("low", "high", "curvature"):
        np.testing.assert_allclose(getattr(rows, name), getattr(conjugate, name), rtol=1e-12)
    norms = np.bincount(model.row, model.coefficient**2, m)
    steps = np.divide(penalty, norms, np.zeros(m), where=norms > 0)
    np.testing.assert_allclose(rows.row_step, steps, rtol=1e-12)
    degree = np.bincount(model.variable, penalty[model.row], n)
    np.testing.assert_allclose(rows.degree, np.where(degree > 0, degree, 1), rtol=1e-12)
    assert highest == pytest.approx(ceiling(model, weights, bonus), rel=1e-12, abs=1e-12)
    assert excess == 0.0 or np.any(np.diff(model.start) == 0)

    now = rounds.Iterate(np.full(n, 0.5), np.empty(m), np.empty(n), np.empty(n))
    kernel.begin(rows, now, False)
    np.testing.assert_allclose(now.dual, conjugate.slope(model.forms(now.y)), atol=1e-12)
    pull = np.bincount(model.variable, model.coefficient * now.dual[model.row], n) - given_bonus
    np.testing.assert_allclose(now.pull, pull, atol=1e-9)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(hinge_problems())
def test_the_step_size_balances_the_last_movement(problem):
    state = AdmmState(*problem)
    eta, due = 1.0, kernel.PERIOD
    for _ in range(6):
        y, dual = state.now.y.copy(), state.now.dual.copy()
        state.step(kernel.PERIOD)
        if state.n_rounds >= due:
            due = int(kernel.GROWTH * state.n_rounds)
            dy, du = state.now.y - y, state.now.dual - dual
            moving = du != 0
            primal = np.sqrt(np.sum(dy**2 * state.rows.degree))
            moved = np.sqrt(np.sum(du[moving] ** 2 / state.rows.row_step[moving]))
            if primal > 0 and moved > 0:
                eta = np.clip(moved / primal, eta / kernel.CHANGE, eta * kernel.CHANGE)
        assert state.eta == pytest.approx(eta, rel=1e-6)


@settings(derandomize=True, deadline=None, max_examples=50)
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
    model = HingeModel(
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

    @settings(derandomize=True, deadline=None, max_examples=50)
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
