"""ADMM in two calls against its plain version: the same bounds, steps and rounds."""

import numpy as np
import pytest
from hypothesis import given, settings

from onlinesrl.ground.hinges import HingeModel
from onlinesrl.infer.admm import Admm, AdmmState
from onlinesrl.infer.dual import ceiling, conjugates, lower_bound
from onlinesrl.infer.engine import Infeasible
from onlinesrl.infer.small import SmallAdmm
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
        np.zeros(n),
    )
    found = admm_solve.prepare(rows, model.kind, model.power, model.weight_index, weights)
    return rows, found


@settings(derandomize=True, deadline=None, max_examples=200)
@given(hinge_problems())
def test_what_is_prepared_is_the_models(problem):
    model, weights, bonus = problem
    rows, (highest, excess) = prepared(model, weights, bonus)
    state = AdmmState(model, weights, bonus)
    for name in ("low", "high", "curvature", "row_step", "degree"):
        np.testing.assert_allclose(getattr(rows, name), getattr(state.rows, name), rtol=1e-12)
    assert highest == pytest.approx(ceiling(model, weights, bonus), rel=1e-12, abs=1e-12)
    now = admm.Iterate(
        state.now.y.copy(), np.empty(model.n_rows), *(np.empty(model.n_variables) for _ in range(2))
    )
    admm_solve.begin(rows, now, False)
    np.testing.assert_allclose(now.dual, state.now.dual, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(now.pull, state.now.pull, rtol=1e-9, atol=1e-9)
    assert excess == 0.0 or np.any(np.diff(model.start) == 0)


def solved(engine, model, weights, bonus):
    try:
        return engine(tolerance=1e-30, violation=0.0, rounds=100).solve(model, weights, bonus=bonus)
    except Infeasible:
        return None


@settings(derandomize=True, deadline=None, max_examples=200)
@given(hinge_problems())
def test_the_rounds_are_the_same(problem):
    """For a hundred rounds, at the end of which the engines stop whatever they have found."""
    found, expected = (solved(engine, *problem) for engine in (SmallAdmm, Admm))
    if found is None or expected is None:
        assert found is expected
        return
    np.testing.assert_allclose(found.y, expected.y, atol=1e-7)
    assert found.energy == pytest.approx(expected.energy, rel=1e-6, abs=1e-6)
    assert found.violation == pytest.approx(expected.violation, abs=1e-6)
    assert found.bound == pytest.approx(expected.bound, rel=1e-6, abs=1e-6)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(hinge_problems())
def test_the_answer_is_certified_alike(problem):
    model, weights, bonus = problem
    answers = []
    for engine in (SmallAdmm(), Admm()):
        try:
            answers.append(engine.solve(model, weights, bonus=bonus))
        except Infeasible:
            answers.append(None)
    found, expected = answers
    if found is None or expected is None:
        assert found is expected
        return
    assert found.certified == expected.certified
    assert found.energy == pytest.approx(expected.energy, rel=1e-5, abs=1e-5)
    if found.certified:
        assert lower_bound(model, weights, found.dual, bonus) == pytest.approx(
            found.bound, rel=1e-9, abs=1e-9
        )


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
        SmallAdmm().solve(model, np.array([weight]))


def test_given_duals_are_brought_within_their_ends():
    """A rule that has come to weight 0 pulls no more, whatever it pulled when it had one."""
    collected = []

    @settings(derandomize=True, deadline=None, max_examples=50)
    @given(hinge_problems())
    def collect(problem):
        model, weights, bonus = problem
        zero = np.zeros_like(weights)
        try:
            start = SmallAdmm().solve(model, np.abs(weights) + 1.0, bonus=bonus)
            found = SmallAdmm().solve(model, zero, bonus=bonus, start=start)
        except Infeasible:
            return
        rows = conjugates(model, zero)
        assert np.all((found.dual >= rows.low) & (found.dual <= rows.high))
        assert np.all(np.isfinite(found.y))
        collected.append(found.certified)

    collect()
    assert np.mean(collected) > 0.9
