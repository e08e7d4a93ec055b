"""One contract of PSL's engines: what they answer beside the quadratic program, and what they refuse."""

from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE, PLAIN
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.lifting import Lifted
from onlinesrl.psl.inference.registry import ENGINES as SECTIONS
from onlinesrl.psl.inference.tandem import Tandem, TandemEngine
from onlinesrl.psl.inference.tron import Tron
from onlinesrl.psl.lang.reader import parse
from onlinesrl.testing import check_hinge_engine
from tests.support.hinge_models import hinge_problems, model_of
from tests.support.qp import Qp
from tests.support.trust_program import MODEL, SQUARED, examples, soft


def in_pages(page_bytes, **keys):
    return TandemEngine(Tandem(Path(gettempdir()), page_bytes=page_bytes, **keys))


GENERAL = {
    "admm": Admm(),
    "admm in parts": Admm(threads=2, large=0),
    "lifted-admm": Lifted(Admm()),
    "tandem": in_pages(200),
    "tandem, few passes": in_pages(5000, rate=0.2, descents=3),
}
ENGINES = GENERAL | {"tron": Tron()}
NONE = np.zeros((1, 0), int)


def test_every_engine_that_users_choose_is_held_to_it():
    assert {*SECTIONS} <= {*ENGINES}


def check(engine, model, weights, bonus, start=None):
    """The answer is what it says of itself, and no worse than the quadratic program's."""
    exact, found = (each.solve(model, weights, bonus=bonus, start=start) for each in (Qp(), engine))
    scale, gain = max(1.0, abs(exact.energy)), 0.0 if bonus is None else bonus @ found.y
    assert found.y.dtype == np.float64
    assert np.all((found.y >= 0.0) & (found.y <= 1.0))
    assert found.energy == pytest.approx(model.energy(found.y, weights) - gain, abs=1e-9 * scale)
    assert found.violation == pytest.approx(model.violation(found.y), abs=1e-9)
    assert found.bound <= exact.energy + 1e-6 * scale
    assert abs(found.energy - exact.energy) <= 2e-4 * scale
    assert found.certified or np.any(model.kind >= AT_MOST)


@given(hinge_problems())
def test_random_models(problem):
    for engine in GENERAL.values():
        check(engine, *problem)
    for name in ("admm", "admm in parts", "lifted-admm"):
        check_hinge_engine(GENERAL[name], *problem, within=1e-4)


@given(hinge_problems(squares_only=True, constraints=False))
def test_random_models_of_squares(problem):
    check(ENGINES["tron"], *problem)
    check_hinge_engine(ENGINES["tron"], *problem, within=1e-4)


@pytest.mark.parametrize("program", [MODEL, SQUARED], ids=["hard", "squared"])
@pytest.mark.parametrize("name", ENGINES)
def test_programs_from_a_start_for_other_gains(name, program):
    if program == MODEL and name == "tron":
        return
    learner, random = soft(parse(program), ["Trusts"]), np.random.default_rng(0)
    weights = learner.weights.averaged()
    for example in examples(3):
        _, model, start = learner.solved(example)
        check(ENGINES[name], model, weights, None)
        check(ENGINES[name], model, weights, random.normal(size=model.n_variables), start)


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
