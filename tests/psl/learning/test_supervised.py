"""Losses of most probable values: their smoothed form, its gradient, and planted weights."""

import numpy as np
import pytest

from onlinesrl.core.learning.batch import LearningError
from onlinesrl.psl.learning.supervised import CrossEntropy, Smoothed, SquaredError
from tests.psl.learning.test_psl_batch import PLANTED, numeric, problem, quiet

LOSSES = [SquaredError(penalty=10.0, ridge=0.05), CrossEntropy(penalty=10.0, ridge=0.05)]
W = np.array([0.4, 0.2, 0.25, 0.15])


def some(known=60, **options):
    """A network where some truth is known."""
    truth = np.random.default_rng(0).random(60)
    of = problem(PLANTED, truth, **options)
    of.truth[known:] = np.nan
    return of


@pytest.mark.parametrize("learner", LOSSES)
def test_slopes_of_losses(learner):
    y, truth = np.array([0.1, 0.5, 0.8, 0.3]), np.array([0.0, 1.0, 0.7, 1.0])
    first, second = learner.slope(y, truth)
    np.testing.assert_allclose(first, numeric(lambda y: learner.loss(y, truth).sum(), y), rtol=1e-6)
    np.testing.assert_allclose(
        second, numeric(lambda y: learner.slope(y, truth)[0].sum(), y), rtol=1e-6
    )


@pytest.mark.parametrize("learner", LOSSES)
def test_the_smoothed_loss_is_below_the_loss_and_grows_to_it(learner):
    of = some()
    values = [
        Smoothed(learner.model_copy(update={"penalty": p}), of).value(W)[0]
        for p in (1.0, 10.0, 100.0, 1e4)
    ]
    state = Smoothed(learner, of)
    state.value(W)
    loss = learner.loss(state.free.y, of.truth).sum()
    assert values == sorted(values)
    assert values[-1] == pytest.approx(loss, rel=0.01)
    assert values[-1] <= loss + 1e-3


def test_losses_need_some_truth_only():
    with pytest.raises(LearningError, match="no target has a truth"):
        SquaredError().learn(some(known=0), quiet)
    learned = SquaredError().learn(some(known=30), quiet)
    assert learned.weights.sum() == pytest.approx(1.0)
