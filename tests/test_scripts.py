"""Scripts beside the tests say what they do, and do not begin to do it, when they are asked for help."""

import runpy
import sys
from pathlib import Path

import pytest
from conftest import REPO

BENCHMARKS = REPO / "tests" / "benchmarks"
SCRIPTS = [path for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help_starts_nothing(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(sys, "path", [*sys.path])  # some scripts add to it
    with pytest.raises(SystemExit) as leave:
        runpy.run_path(str(script), run_name="__main__")
    printed = capfd.readouterr()
    assert (leave.value.code or 0, printed.err) == (0, "")
    assert printed.out.startswith(script.read_text().partition("\n")[0].strip('"'))
    assert not [*tmp_path.iterdir()]
