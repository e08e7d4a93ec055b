"""The ground model of a hinge-loss MRF."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE, PLAIN, validate
from tests.support.hinge_models import hinge_problems, model_of

Y = np.array([0.25, 1.0])


POTENTIALS = model_of(
    2,
    (0, [0, 1], [1, -1], 1.0, 1, HINGE),  # 0.25
    (0, [0, 1], [1, -1], 0.0, 1, HINGE),  # 0
    (2, [0], 2, 0.0, 2, HINGE),  # 0.25
    (2, [0, 1], [1, -1], 0.0, 1, PLAIN),  # -0.75
    (1, [0, 1], [1, -1], 0.0, 2, PLAIN),  # 0.5625
    (HARD, [0, 1], [1, 1], -1.0, 1, AT_MOST),  # 0.25
)


def test_features_and_energy_by_hand():
    assert POTENTIALS.totals(Y, 3).tolist() == [0.25, 0.5625, -0.5]
    assert POTENTIALS.energy(Y, np.array([1.0, 2.0, 4.0])) == 0.25 + 2 * 0.5625 - 4 * 0.5


def test_violation_by_hand():
    equal = model_of(2, (HARD, [0, 1], [1, 1], -2.0, 1, EQUAL))

    assert POTENTIALS.violation(Y) == 0.25
    assert equal.violation(Y) == 0.75
    assert equal.violation(np.array([1.0, 1.0])) == 0.0
    assert equal.violation(np.array([-1.0, 3.0])) == 2.0


@given(hinge_problems())
def test_the_energy_is_weights_times_features(problem):
    model, weights, _ = problem
    y = np.linspace(0.0, 1.0, model.n_variables)

    assert weights @ model.totals(y, len(weights)) == pytest.approx(model.energy(y, weights))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variable": np.array([0, 0], np.int32)}, "twice"),
        ({"variable": np.array([0, 2], np.int32)}, "out of range"),
        ({"coefficient": np.array([0.0, np.nan])}, "coefficient is not finite"),
        ({"constant": np.array([np.inf])}, "constant is not finite"),
        ({"kind": np.array([4], np.uint8)}, "kind is not known"),
        ({"kind": np.array([EQUAL], np.uint8)}, "constraint has a weight"),
        ({"power": np.array([3], np.uint8)}, "neither 1 nor 2"),
        ({"weight_index": np.array([HARD])}, "potential has no weight"),
        ({"power": np.array([1])}, "power is int64"),
        ({"start": np.array([1, 2])}, "rise from 0"),
    ],
)
def test_what_is_not_a_model(change, message):
    model = model_of(2, (0, [0, 1], [1, -1]))
    with pytest.raises(ValueError, match=message):
        validate(replace(model, **change))
