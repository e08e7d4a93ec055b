"""Commands that answer once end with a message where a limit leaves them too little memory."""

import subprocess
import sys
from collections.abc import Sequence

import pytest
from conftest import REPO, long

RULES = "1 Smokes(x)\n-1 Friends(x, y)\n1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n"
SMOKERS = f"Friends(p, p)\nSmokes(p)\nNear(p)\n{RULES}"
RUN = """
import re, resource, sys
from pathlib import Path
from onlinesrl.commands.cli import main

def call(arguments):
    sys.argv = ["onlinesrl", *arguments]
    try:
        main()
    except SystemExit as ended:
        return ended.code

megabytes, small, large = int(sys.argv[1]), sys.argv[2].split(), sys.argv[3:]
call(small)
used = int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, ((used << 10) + (megabytes << 20),) * 2)
sys.exit(call(large))
"""
"""Answers a small world, so that all kernels are there, and then one with little memory."""
OUT_OF_MEMORY = "onlinesrl: there is not enough memory for this"


def run(
    small: Sequence[str], *arguments: str, megabytes: int = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, str(megabytes), " ".join(small), *arguments],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["infer", long("ground")])
def test_a_world_that_is_too_large_for_memory_is_said(command, tmp_path):
    (tmp_path / "m.mln").write_text(SMOKERS)
    for name, n in (("small", 3), ("large", 700)):
        (tmp_path / f"{name}.db").write_text("".join(f"Near(P{k})\n" for k in range(n)))

    def asked(evidence):
        files = ("--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / evidence))
        return [command, *files, "--query", "Friends,Smokes", "--output", str(tmp_path / "out")]

    found = run(asked("small.db"), *asked("large.db"))
    assert found.returncode == 69
    assert found.stderr.splitlines()[-1] == OUT_OF_MEMORY
    assert not found.stdout
