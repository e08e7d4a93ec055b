"""Scripts beside the tests say what they do, and do not begin to do it, when they are asked for help."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPO

BENCHMARKS = REPO / "tests" / "benchmarks"
SCRIPTS = [path for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help_starts_nothing(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--help"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    first = script.read_text().partition("\n")[0].strip('"')
    assert done.stdout.startswith(first)
    assert not [*tmp_path.iterdir()]
