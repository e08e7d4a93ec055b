"""Commands that answer once end with a message where there is too little memory, before the machine does."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import REPO, long

from onlinesrl.commands import memory

RULES = "1 Smokes(x)\n-1 Friends(x, y)\n1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n"
SMOKERS = f"Friends(p, p)\nSmokes(p)\nNear(p)\n{RULES}"
RUN = """
import sys
from onlinesrl.commands.cli import main
from onlinesrl.commands import memory
given, most = sys.argv, int(sys.argv[1]) << 20
for sys.argv, free in ((given[2].split(), memory.free), (["onlinesrl", *given[3:]], lambda: most)):
    memory.free = free
    try:
        main()
    except SystemExit as ended:
        code = ended.code
sys.exit(code)
"""
"""Answers a small world, so that all kernels are there, and then one with little memory."""


def run(
    small: Sequence[str], *arguments: str, megabytes: int = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, str(megabytes), " ".join(("onlinesrl", *small)), *arguments],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["infer", long("ground")])
def test_a_world_that_is_too_large_for_memory_is_said(command: str, tmp_path: Path) -> None:
    (tmp_path / "m.mln").write_text(SMOKERS)
    for name, n in (("small", 3), ("large", 700)):
        (tmp_path / f"{name}.db").write_text("".join(f"Near(P{k})\n" for k in range(n)))

    def asked(evidence: str) -> list[str]:
        files = ("--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / evidence))
        return [command, *files, "--query", "Friends,Smokes", "--output", str(tmp_path / "out")]

    found = run(asked("small.db"), *asked("large.db"))
    assert found.returncode == 69
    assert found.stderr.splitlines()[-1] == (
        "this takes more memory than the 0.1 GiB that are free: --spill FOLDER keeps the ground network on "
        "disk; --max-atoms and --max-groundings end it sooner; --closed P closes open predicates"
    )
    assert not found.stdout


@pytest.mark.long
def test_what_memory_does_not_hold_is_answered_from_disk(tmp_path: Path) -> None:
    """Three hundred pairs of people, who meet on each of two thousand days: 600,000 ground rules."""
    rules = "0.001 Friends(x, y) ^ Day(d) ^ Smokes(x) => Smokes(y)\n0.5 Smokes(x)\n"
    (tmp_path / "m.mln").write_text(f"Friends(p, p)\nDay(d)\nSmokes(p)\n{rules}")
    for name, pairs, days in (("small", 3, 2), ("large", 300, 2000)):
        friends = (f"Friends(A{n}, B{n})\n!Smokes(B{n})\n" for n in range(pairs))
        (tmp_path / f"{name}.db").write_text(
            "".join([*friends, *(f"Day(D{d})\n" for d in range(days))])
        )

    def asked(evidence: str, *spill: str) -> list[str]:
        files = ("--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / evidence))
        out = str(tmp_path / "out")
        return ["infer", *files, "--query", "Smokes", "--output", out, *spill]

    spill = ("--spill", str(tmp_path))
    (tmp_path / "one.mln").write_text(SMOKERS)
    (tmp_path / "one.db").write_text("".join(f"Near(P{k})\n" for k in range(700)))
    one = ["infer", "--model", str(tmp_path / "one.mln"), "--evidence", str(tmp_path / "one.db")]
    found = run(asked("small.db"), *one, "--query", "Friends,Smokes", *spill, megabytes=60)
    assert (found.returncode, found.stdout) == (69, "")
    assert found.stderr.splitlines()[-1] == (
        "this takes more memory than the 0.1 GiB that are free: it must hold all atoms and the largest "
        "connected component; --closed P closes open predicates"
    )
    refused = run(asked("small.db"), *asked("large.db"), megabytes=180)
    assert refused.returncode == 69
    found = run(asked("small.db", *spill), *asked("large.db", *spill), megabytes=180)
    assert (found.returncode, found.stderr) == (0, "")
    assert (tmp_path / "out").read_text() == "".join(
        f"{atom} 0\n" for atom in sorted(f"Smokes(A{n})" for n in range(300))
    )


def test_psl_says_what_works_on_disk(tmp_path: Path) -> None:
    (tmp_path / "m.psl").write_text("1: A(X) & B(Y) -> C(X, Y)\n")

    def asked(name: str, people: int, targets: int) -> list[str]:
        (tmp_path / f"{name}.people").write_text("".join(f"{n}\n" for n in range(people)))
        pairs = (f"{m}\t{n}\n" for m in range(people) for n in range(targets))
        (tmp_path / f"{name}.pairs").write_text("".join(pairs))
        (tmp_path / f"{name}.data").write_text(
            "predicates:\n  A/1: closed\n  B/1: closed\n  C/2: open\n"
            f"observations:\n  A: {name}.people\n  B: {name}.people\ntargets:\n  C: {name}.pairs\n"
        )
        files = ("--model", str(tmp_path / "m.psl"), "--data", str(tmp_path / f"{name}.data"))
        return ["infer", *files, "--targets", "skip", "--output", str(tmp_path / "out")]

    found = run(asked("small", 3, 2), *asked("large", 1500, 300))
    assert found.returncode == 69
    assert found.stderr.splitlines()[-1].endswith(
        "--method tandem works in pages on disk; --max-groundings ends it sooner"
    )


def test_the_bound_is_taken_back() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory.bounded("less"):
        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        free = memory.free()
        assert free is not None
        assert 0 < free < soft
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with (
        pytest.raises(memory.OutOfMemory, match=r"GiB that are free: less"),
        memory.bounded("less"),
    ):
        raise MemoryError


def test_a_control_group_bounds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    (tmp_path / "memory").mkdir()
    for name, text in (("limit", "5000\n"), ("usage", "3000\n")):
        (tmp_path / "memory" / f"memory.{name}_in_bytes").write_text(text)
    assert memory.free() == 2000
    for name in ("limit", "usage"):
        (tmp_path / "memory" / f"memory.{name}_in_bytes").unlink()
    without = memory.free()
    assert without is not None
    assert without > 5000
