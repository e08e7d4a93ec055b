"""PSL's cases: PSL's recorded answers, a reference solver's, our engines'."""

import json

import pytest
from conftest import long_if

from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.lifting import Lifted
from onlinesrl.psl.inference.tron import Tron
from tests.support.hinge_models import PSL, psl_case
from tests.support.qp import Qp

pytestmark = pytest.mark.skipif(not PSL.exists(), reason="needs the recorded answers of PSL")
CASES = sorted(each.parent.name for each in PSL.glob("cases/*/config.json"))


def is_large(name: str) -> bool:
    return name.startswith(("smokers-100k", "socialnet"))


@pytest.mark.parametrize("name", long_if(is_large, CASES))
def test_the_optimum(name):
    """It is PSL's or the quadratic program's; it is the same lifted, and by Newton's steps."""
    model, weights = psl_case(name)
    found = Admm().solve(model, weights)
    lifted = Lifted(Admm(tolerance=1e-7)).solve(model, weights)
    if (PSL / "golden" / name / "golden.json").exists():
        golden = json.loads((PSL / "golden" / name / "golden.json").read_text())
        best = golden["ref_objective"]
        assert found.energy <= max(best, golden["psl_objective_recomputed"]) * (1 + 1e-6)
    else:
        exact = Qp().solve(model, weights)
        best = exact.energy
        assert exact.certified
    for each in (found, lifted):
        assert each.certified
        assert each.energy == pytest.approx(best, rel=1e-6)
        assert each.violation <= 1e-4
    if "sq" in name or "friendship" in name:
        by_newton = Tron(tolerance=1e-6).solve(model, weights)
        assert by_newton.energy == pytest.approx(best, rel=3e-6)
