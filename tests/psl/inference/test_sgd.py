"""Stochastic gradient descent: near the optimum with a fitting rate, and the same every time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.inference.qp import Qp
from onlinesrl.psl.inference.sgd import Sgd
from onlinesrl.psl.inference.tron import Tron
from tests.support.hinge_models import friendship, hinge_problems

ENGINES = [Sgd(rate=3.0), Sgd(rate=0.1, decay=False), Sgd("adam"), Sgd("adagrad")]


def names(engine):
    return f"{engine.optimizer} {engine.decay}"


@given(hinge_problems(constraints=False))
def test_energy_and_bound_are_those_of_the_answer(problem):
    model, weights, bonus = problem
    exact = Qp().solve(model, weights, bonus=bonus)
    for engine in (replace(engine, rounds=20) for engine in ENGINES):
        found = engine.solve(model, weights, bonus=bonus)
        linear = 0.0 if bonus is None else float(bonus @ found.y)

        assert np.all((found.y >= 0) & (found.y <= 1))
        assert found.energy == pytest.approx(model.energy(found.y, weights) - linear, abs=1e-9)
        assert found.bound == pytest.approx(lower_bound(model, weights, found.dual, bonus))
        assert found.energy >= exact.energy - 1e-6 * max(1, abs(exact.energy))


@pytest.mark.parametrize("engine", ENGINES, ids=names)
def test_near_the_optimum(engine):
    rng = np.random.default_rng(0)
    model, weights = friendship(rng.integers(8, size=30), rng.random((30, 30)))
    best = Tron().solve(model, weights).energy
    found = engine.solve(model, weights)

    assert best <= found.energy + 1e-9
    assert found.energy <= 1.02 * best
