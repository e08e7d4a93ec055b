"""Lifted inference: the thesis' example, symmetric models, and warm starts."""

import numpy as np
import pytest

from onlinesrl.psl.ground.hinge_loss_mrf import HARD, HINGE, PLAIN
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.inference.lifting import Lifted, lift
from tests.support.hinge_models import Rows, friendship


def test_the_thesis_example_4():
    """From example 2, with y_1 for the misprinted 2 y_1 in its first potential."""
    rows = Rows()
    rows.add(0, [0, 1], [1, -1], 0.0, 2)
    rows.add(0, [0, 3], [1, -1], 0.0, 2)
    rows.add(1, [0, 1, 3], [-1, 1, 1], -1.0, 2)
    rows.add(1, [2], -1, 1.0, 2)
    lifting = lift(rows.model(4), np.array([5.0, 5.0]))
    forms = {
        (float(lifting.weights[i]), float(lifting.model.constant[i])): lifting.model.coefficient[
            lifting.model.start[i] : lifting.model.start[i + 1]
        ].tolist()
        for i in range(lifting.model.n_rows)
    }

    assert lifting.variable[1] == lifting.variable[3]
    assert lifting.model.n_variables == 3
    assert {k: sorted(v) for k, v in forms.items()} == {
        (10.0, 0.0): [-1, 1],
        (5.0, -1.0): [-1, 2],
        (5.0, 1.0): [-1],
    }


def test_symmetric_friends():
    """All pairs alike but for the block: two classes of variables, those in a block and the others."""
    model, weights = friendship(np.arange(40) // 4, np.full((40, 40), 0.7))
    lifting = lift(model, weights)
    plain, lifted = Admm().solve(model, weights), Lifted(Admm()).solve(model, weights)

    assert lifting.model.n_variables == 2
    assert lifted.route == "lifted admm"
    assert lifted.energy == pytest.approx(plain.energy, rel=1e-6)
    assert lifted.bound == pytest.approx(lower_bound(model, weights, lifted.dual))
    assert lifted.iterations <= 2 * plain.iterations


def test_the_bonus_tells_variables_apart():
    rows = Rows()
    rows.add(0, [[0], [1]], 1, 0.0, 2, HINGE)
    rows.add(HARD, [0, 1], [1, 1], -1.0, 1, 2)
    lifting = lift(rows.model(2), np.ones(1), np.array([1.0, 0.0]))

    assert lifting.model.n_variables == 2


def test_coefficients_that_cancel():
    rows = Rows()
    rows.add(0, [[0, 1], [1, 2], [2, 0]], [1, -1], 0.5, 2, PLAIN)
    lifting = lift(rows.model(3), np.ones(1))

    assert (lifting.model.n_variables, len(lifting.model.variable)) == (1, 0)
    assert Lifted(Admm()).solve(rows.model(3), np.ones(1)).energy == pytest.approx(0.75)
