"""Tables beside files: a million rows of evidence for PSL, a hundred thousand examples to learn from."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.measure import python, show

pytestmark = pytest.mark.benchmark
RUN = Path(__file__).parent / "tables.py"


def test_a_million_rows_and_a_hundred_thousand_examples(tmp_path):
    python(RUN, "make", "all", tmp_path)
    rows = []
    for what in ("infer", "learn"):
        found = {}
        for way in ("txt", "parquet", "frames"):
            python(RUN, what, way, tmp_path)  # compiles
            used = python(RUN, what, way, tmp_path)
            result = json.loads(used.output)
            found[way] = result["found"]
            rows.append((f"{what} from {way}", result["cpu"], used.wall, result["peak"] / 1e6))
        assert len(set(found.values())) == 1, found
    show("1e6 rows into infer, 1e5 examples into learn", ("", "CPU s", "s", "peak MB"), rows)
