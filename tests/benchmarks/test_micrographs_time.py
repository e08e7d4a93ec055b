"""CPU time of TRON on micrographs of ten products, many in a call, beside ADMM."""

import pytest

from tests.benchmarks.measure import REPO, python

pytestmark = pytest.mark.benchmark


def test_a_micrograph_takes_less_than_a_tenth_of_a_millisecond():
    output = python(REPO / "tests" / "benchmarks" / "micrographs.py").output
    print(f"\n\n{output}")
    rows = [line.strip("| ").split(" | ") for line in output.splitlines()]
    tron = {row[0]: float(row[1]) for row in rows if len(row) == 8 and row[0] in {"SMC", "S2MC"}}
    assert len(tron) == 2
    assert max(tron.values()) < 100
