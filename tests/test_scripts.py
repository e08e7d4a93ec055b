"""Scripts of streams and benchmarks say what they do, and begin nothing, when they are asked for help."""

import runpy
import sys
from pathlib import Path

import pytest
from conftest import REPO

PATHS = [*(REPO / "streams").rglob("*.py"), *(REPO / "tests" / "benchmarks").glob("*.py")]
SCRIPTS = [path for path in sorted(PATHS) if "__main__" in path.read_text()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(REPO)))
def test_help_starts_nothing(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    with pytest.raises(SystemExit) as leave:
        runpy.run_path(str(script), run_name="__main__")
    printed = capfd.readouterr()
    assert (leave.value.code or 0, printed.err) == (0, "")
    assert script.read_text().partition("\n")[0].strip('"') in printed.out
    assert not [*tmp_path.iterdir()]
