"""Stochastic gradient descent: near the optimum with a fitting rate, and the same every time."""

import numpy as np
import pytest

from onlinesrl.psl.ground.hinge_loss_mrf import EQUAL, HARD, PLAIN
from onlinesrl.psl.inference.sgd import Sgd
from onlinesrl.psl.inference.tron import Tron
from tests.support.hinge_models import Rows, friendship

ENGINES = [Sgd(rate=3.0), Sgd("constant", rate=0.1), Sgd("adam", rate=0.01)]


def names(engine):
    return engine.schedule


@pytest.mark.parametrize("engine", ENGINES, ids=names)
def test_near_the_optimum(engine):
    rng = np.random.default_rng(0)
    model, weights = friendship(rng.integers(8, size=30), rng.random((30, 30)))
    best = Tron().solve(model, weights).energy
    found = engine.solve(model, weights)

    assert best <= found.energy + 1e-9
    assert found.energy <= 1.02 * best


def test_the_bonus_decides_what_no_row_has():
    rows = Rows()
    rows.add(0, [0], 1)
    found = Sgd().solve(rows.model(2), np.ones(1), bonus=np.array([0.0, 2.0]))

    assert found.y.tolist() == [0, 1]


def test_no_constraints():
    rows = Rows()
    rows.add(HARD, [0], 1, 0.0, 1, EQUAL)
    with pytest.raises(ValueError, match="no constraints"):
        Sgd().solve(rows.model(1), np.ones(1))


def test_a_negative_linear_weight():
    rows = Rows()
    rows.add(0, [0], 1, 0.0, 1, PLAIN)

    assert Sgd().solve(rows.model(1), -np.ones(1)).y.tolist() == [1.0]
