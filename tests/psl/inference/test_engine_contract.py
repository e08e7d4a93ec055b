"""What all engines refuse, and what they answer where there is little to solve."""

from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest

from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE, PLAIN
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.lifting import Lifted
from onlinesrl.psl.inference.tandem import Tandem, TandemEngine
from onlinesrl.psl.inference.tron import Tron
from tests.support.hinge_models import model_of
from tests.support.qp import Qp

GENERAL = {
    "admm": Admm(),
    "admm in parts": Admm(threads=2, large=0),
    "lifted": Lifted(Admm()),
    "tandem": TandemEngine(Tandem(Path(gettempdir()))),
    "qp": Qp(),
}
ENGINES = GENERAL | {"tron": Tron()}
NONE = np.zeros((1, 0), int)


@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize(
    "rows",
    [
        [(HARD, [0, 1], [1, 1], -3.0, 1, EQUAL)],
        [(HARD, [0], 1, -0.2, 1, AT_MOST), (HARD, [0], -1, 0.9, 1, AT_MOST)],
        [(HARD, NONE, [], 1.0, 1, AT_MOST)],
    ],
    ids=["no sum", "no value", "no variable"],
)
def test_constraints_that_have_no_solution(name, rows):
    with pytest.raises(Infeasible):
        GENERAL[name].solve(model_of(2, *rows, (0, [0], 1, 0.0, 2, HINGE)), np.ones(1))


@pytest.mark.parametrize("name", GENERAL)
def test_a_constraint_without_variables_may_hold(name):
    model = model_of(2, (HARD, NONE, [], -1.0, 1, AT_MOST), (0, [0], 1))
    assert GENERAL[name].solve(model, np.ones(1)).certified


def test_tron_refuses_constraints():
    with pytest.raises(ValueError, match="no constraints"):
        Tron().solve(model_of(1, (HARD, [0], 1, 0.0, 1, EQUAL)), np.ones(1))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("kind", "power"), [(HINGE, 1), (HINGE, 2), (PLAIN, 2)])
def test_what_is_not_convex(name, kind, power):
    said = "power 1" if name == "tron" and kind == HINGE and power == 1 else "below 0"
    with pytest.raises(ValueError, match=said):
        ENGINES[name].solve(model_of(2, (0, [0], 1, 0.0, power, kind)), -np.ones(1))


@pytest.mark.parametrize("name", ENGINES)
def test_a_linear_potential_may_have_a_weight_below_0(name):
    found = ENGINES[name].solve(model_of(2, (0, [0, 1], [1, -1], 0.0, 1, PLAIN)), -np.ones(1))
    np.testing.assert_allclose(found.y, [1, 0], atol=1e-6)


@pytest.mark.parametrize("name", ENGINES)
def test_the_bonus_alone_decides_what_no_row_has(name):
    model = model_of(2, (0, [0], 1, 0.0, 2, PLAIN))
    found = ENGINES[name].solve(model, np.ones(1), bonus=np.array([0.0, 2.0]))
    np.testing.assert_allclose(found.y, [0, 1], atol=1e-3)
    alone = ENGINES[name].solve(model_of(2), np.ones(1), bonus=np.array([0.5, -0.25]))
    np.testing.assert_allclose([*alone.y, alone.energy], [1, 0, -0.5], atol=1e-6)
