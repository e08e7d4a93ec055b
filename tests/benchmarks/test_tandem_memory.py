"""Tandem inference of 5 and 50 million ground potentials: memory that stays, seconds, disk."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.measure import python, show

pytestmark = pytest.mark.benchmark
RUN = Path(__file__).parent / "tandem.py"
BLOCKS = {"5 million": 17, "50 million": 5}
MOST_BYTES = 1_500_000_000
MORE_BYTES = 100_000_000


def test_fifty_million_potentials_in_the_memory_of_five(tmp_path):
    rows, peaks = [], []
    for name, blocks in BLOCKS.items():
        used = python(RUN, str(blocks), tmp_path)
        found = json.loads(used.output)
        peaks.append(found["peak_bytes"])
        energy = found["energy"]
        gap = (energy - found["bound"]) / energy
        rows.append(
            (
                name,
                f"{found['potentials']:,}",
                used.wall,
                used.cpu,
                f"{peaks[-1] / 1e6:.0f}",
                f"{found['bytes_on_disk'] / 1e6:.0f}",
                found["iterations"],
                gap,
            )
        )
        assert found["certified"]
    head = ("model", "potentials", "s", "CPU s", "peak MB", "disk MB", "rounds", "gap")
    show("Tandem inference, from data to optimum", head, rows)

    assert peaks[1] <= MOST_BYTES
    assert peaks[1] <= peaks[0] + MORE_BYTES
