"""PSL's cases: PSL's recorded answers, a reference solver's, our engines'."""

import json

import pytest
from conftest import long_if

from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.lifting import Lifted
from onlinesrl.psl.inference.qp import Qp
from onlinesrl.psl.inference.tron import Tron
from tests.support.hinge_models import PSL, psl_case

pytestmark = pytest.mark.skipif(not PSL.exists(), reason="needs the recorded answers of PSL")
CASES = sorted(each.parent.name for each in PSL.glob("cases/*/config.json"))
GOLDEN = [name for name in CASES if (PSL / "golden" / name / "golden.json").exists()]


def is_large(name: str) -> bool:
    return name.startswith(("smokers-100k", "socialnet"))


@pytest.mark.parametrize("name", GOLDEN)
def test_the_recorded_optimum(name):
    golden = json.loads((PSL / "golden" / name / "golden.json").read_text())
    found = Admm().solve(*psl_case(name))
    best, recorded = golden["ref_objective"], golden["psl_objective_recomputed"]

    assert found.energy == pytest.approx(best, rel=1e-6)
    assert found.energy <= max(best, recorded) * (1 + 1e-6)
    assert found.violation <= 1e-4
    assert found.certified


@pytest.mark.parametrize("name", long_if(is_large, [name for name in CASES if name not in GOLDEN]))
def test_the_optimum_of_the_quadratic_program(name):
    model, weights = psl_case(name)
    found, best = Admm().solve(model, weights), Qp().solve(model, weights)

    assert best.certified
    assert found.energy == pytest.approx(best.energy, rel=1e-6)
    assert found.violation <= 1e-4
    assert found.certified


@pytest.mark.parametrize("name", long_if(is_large, CASES))
def test_lifted_is_unlifted(name):
    model, weights = psl_case(name)
    engine = Admm(tolerance=1e-7)
    whole, lifted = engine.solve(model, weights), Lifted(engine).solve(model, weights)

    assert lifted.certified
    assert lifted.energy == pytest.approx(whole.energy, rel=1e-6)
    assert lifted.violation <= 1e-4


@pytest.mark.parametrize("name", [name for name in CASES if "sq" in name or "friendship" in name])
def test_newton_steps_come_to_the_same(name):
    model, weights = psl_case(name)

    found = Tron(tolerance=1e-6).solve(model, weights)
    assert found.energy == pytest.approx(Admm().solve(model, weights).energy, rel=2e-6)
