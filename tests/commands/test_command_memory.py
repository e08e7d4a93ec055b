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


@pytest.mark.long
def test_what_memory_does_not_hold_is_answered_from_disk(tmp_path):
    """Three hundred pairs of people, who meet on each of two thousand days: 600,000 ground rules."""
    rules = "0.001 Friends(x, y) ^ Day(d) ^ Smokes(x) => Smokes(y)\n0.5 Smokes(x)\n"
    (tmp_path / "m.mln").write_text(f"Friends(p, p)\nDay(d)\nSmokes(p)\n{rules}")
    for name, pairs, days in (("small", 3, 2), ("large", 300, 2000)):
        friends = (f"Friends(A{n}, B{n})\n!Smokes(B{n})\n" for n in range(pairs))
        (tmp_path / f"{name}.db").write_text(
            "".join([*friends, *(f"Day(D{d})\n" for d in range(days))])
        )

    def asked(evidence, *spill):
        files = ("--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / evidence))
        out = str(tmp_path / "out")
        return ["infer", *files, "--query", "Smokes", "--output", out, *spill]

    spill = ("--spill", str(tmp_path))
    (tmp_path / "one.mln").write_text(SMOKERS)
    (tmp_path / "one.db").write_text("".join(f"Near(P{k})\n" for k in range(700)))
    one = ["infer", "--model", str(tmp_path / "one.mln"), "--evidence", str(tmp_path / "one.db")]
    found = run(asked("small.db"), *one, "--query", "Friends,Smokes", *spill, megabytes=60)
    assert (found.returncode, found.stdout) == (69, "")
    assert found.stderr.splitlines()[-1] == OUT_OF_MEMORY
    refused = run(asked("small.db"), *asked("large.db"), megabytes=180)
    assert refused.returncode == 69
    found = run(asked("small.db", *spill), *asked("large.db", *spill), megabytes=180)
    assert (found.returncode, found.stderr) == (0, "")
    assert (tmp_path / "out").read_text() == "".join(
        f"{atom} 0\n" for atom in sorted(f"Smokes(A{n})" for n in range(300))
    )
