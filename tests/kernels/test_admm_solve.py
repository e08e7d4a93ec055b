"""ADMM in two calls against its plain version: the same bounds, steps and rounds."""

import numpy as np
import pytest
from hypothesis import given, settings

from onlinesrl.infer.admm import PERIOD, Admm, AdmmState
from onlinesrl.infer.dual import ceiling, conjugates
from onlinesrl.infer.engine import Infeasible
from onlinesrl.kernels import admm, admm_solve
from tests.infer.hinge_models import hinge_problems


def prepared(model, weights, bonus):
    n, m = model.n_variables, model.n_rows
    rows = admm.Rows(
        model.start,
        model.variable,
        model.coefficient,
        model.constant,
        *(np.full(m, np.nan) for _ in range(4)),
        np.full(n, np.nan),
        np.zeros(n) if bonus is None else bonus,
    )
    degree = np.full(n, np.nan)
    found = admm_solve.prepare(rows, model.kind, model.power, model.weight_index, weights, degree)
    return rows, degree, found


@settings(derandomize=True, deadline=None, max_examples=200)
@given(hinge_problems())
def test_what_is_prepared_is_the_models(problem):
    model, weights, bonus = problem
    rows, degree, (highest, excess) = prepared(model, weights, bonus)
    state = AdmmState(model, weights, bonus)
    for name in ("low", "high", "curvature", "row_step"):
        np.testing.assert_allclose(getattr(rows, name), getattr(state.rows, name), rtol=1e-12)
    steps = 1 / np.where(degree > 0, degree, 1.0)
    np.testing.assert_allclose(steps, state.rows.variable_step, rtol=1e-12)
    assert highest == pytest.approx(ceiling(model, weights, bonus), rel=1e-12, abs=1e-12)
    now = admm.Iterate(
        state.now.y.copy(), np.empty(model.n_rows), *(np.empty(model.n_variables) for _ in range(2))
    )
    admm_solve.begin(rows, now, False)
    np.testing.assert_allclose(now.dual, state.now.dual, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(now.pull, state.now.pull, rtol=1e-9, atol=1e-9)
    assert excess == 0.0 or np.any(np.diff(model.start) == 0)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(hinge_problems())
def test_the_rounds_are_those_of_the_state(problem):
    """For a hundred rounds, at the end of which the engine stops whatever it has found."""
    model, weights, bonus = problem
    state = AdmmState(model, weights, bonus)
    try:
        found = Admm(tolerance=1e-30, violation=0.0, rounds=100).solve(model, weights, bonus=bonus)
    except Infeasible:
        return
    for _ in range(found.iterations // PERIOD):
        state.step(PERIOD)
    np.testing.assert_allclose(found.y, state.y, atol=1e-7)
    energy, bound, violation, _ = state.certificate()
    assert found.energy == pytest.approx(energy, rel=1e-6, abs=1e-6)
    assert found.violation == pytest.approx(violation, abs=1e-6)
    assert found.bound == pytest.approx(bound, rel=1e-6, abs=1e-6)


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
