"""A process of the tests that dies: what it left is run once more, and the end of the tests tells where."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPO

FILE = """
import os
from pathlib import Path

def test_first():
    died = Path(__file__).with_suffix(".died")
    if {dies} and ({again} or not died.exists()):
        died.touch()
        os.abort()

def test_second():
    pass
"""


def test_a_file_is_run_again_and_a_second_death_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for number in range(12):
        content = FILE.format(dies=number in (6, 9), again=number == 9)
        (tmp_path / f"test_{number:02}.py").write_text(content)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--max-worker-restart",
        "3",
    ]
    printed = subprocess.run(
        [*command, "-p", "tests.support.dead_processes"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPO)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    ).stdout
    assert "1 failed, 23 passed" in printed
    assert "FAILED test_09.py::test_first" in printed
    assert "a process died, and its file was run again: test_06.py::test_first" in printed
    assert 'test_06.py", line 9 in test_first' in printed
