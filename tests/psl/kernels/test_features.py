"""The features and the worst violation are the model's."""

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST
from onlinesrl.psl.kernels.features import add, measure
from tests.support.hinge_models import hinge_problems


@given(hinge_problems())
def test_features_and_violation(problem):
    model, weights, _ = problem
    y = np.random.default_rng(model.n_rows).uniform(size=model.n_variables)
    features, of_forms = np.zeros((2, len(weights)))
    violation, row = measure(model, y, features)
    expected = model.totals(y, len(weights))
    np.testing.assert_allclose(features, expected, rtol=1e-12, atol=1e-12)
    add(model, model.forms(y), of_forms)
    np.testing.assert_allclose(of_forms, expected, rtol=1e-12, atol=1e-12)
    assert violation == pytest.approx(model.violation(y), abs=1e-12)
    if row >= 0:
        assert model.kind[row] >= AT_MOST
        assert abs(model.forms(y)[row]) == pytest.approx(violation)
    else:
        assert violation == 0.0
