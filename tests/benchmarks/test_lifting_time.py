"""CPU time of lifted against unlifted ADMM, and how much smaller models get; see lifting.py."""

from pathlib import Path

import pytest

from tests.benchmarks.measure import REPO, python
from tests.support.hinge_models import PSL

pytestmark = pytest.mark.benchmark
CASES = pytest.param(
    "cases", marks=pytest.mark.skipif(not PSL.exists(), reason="needs PSL's cases")
)


@pytest.mark.parametrize("experiment", ["density", CASES])
def test_lifting(experiment: str, tmp_path: Path) -> None:
    print(python(REPO / "tests" / "benchmarks" / "lifting.py", experiment, tmp_path).output)
