"""Faults of the disk, and hostile examples under a limit of memory."""

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest
from conftest import Job

EVERY = {"every": 7}


@pytest.fixture(scope="module")
def unbroken(warm, citations, tmp_path_factory):
    run = Job(tmp_path_factory.mktemp("unbroken"), citations[:40], checkpoint=EVERY)
    assert run.run() == 0, run.said
    return run.results()


# the disk ---------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 320 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_full_and_one_that_is_read_only(job, citations, unbroken, small_disk, tally):
    run = job(citations[:40], checkpoint=EVERY, output=str(small_disk / "out"))
    run.output = small_disk / "out"
    assert run.run() == 74
    assert "No space left on device; free some space and run it again" in run.said
    kept = [path.read_bytes() for path in run.checkpoints()]
    assert kept
    assert run.run() == 74
    assert [path.read_bytes() for path in run.checkpoints()][: len(kept)] == kept
    mount = ["mount", "-o", "remount,size=50m"]
    subprocess.run([*mount, "-o", "ro", str(small_disk)], check=True)
    assert run.run() == 74
    assert "Read-only file system" in run.said
    subprocess.run([*mount, "-o", "rw", str(small_disk)], check=True)
    assert run.run() == 0, run.said
    assert "resuming from checkpoint" in run.said
    assert run.results() == unbroken
    tally["faults"] += 3


# memory -----------------------------------------------------------------------------------------

CUBE = """\
On(thing)
Same(thing, thing)

On(x) ^ On(y) ^ On(z) ^ On(u) ^ On(v) => Same(x, v)
Same(x, y) ^ Same(y, z) => Same(x, z)
"""


def world(**relations: object) -> bytes:
    return json.dumps({"id": 1, "evidence": relations, "truth": {"Same": []}}).encode() + b"\n"


GOOD = [world(On=[[f"{n}"], [f"{n + 1}"]]) for n in range(4)]


def hostile() -> dict[str, tuple[bytes, str]]:
    """Examples that would take terabytes, and why each is refused."""
    return {
        "atoms: 3,000 squared": (
            world(On=[[n] for n in range(3000)]),
            "more query atoms than limits",
        ),
        "groundings: 50 to the fifth": (
            world(On=[[n] for n in range(50)]),
            "more ground clauses than inference.max_groundings (200000)",
        ),
        "a line of 60 MB": (world(On=[["x" * 60_000_000]]), "longer than source.max_bytes"),
        "facts: a million": (world(On=[[1]] * 1_000_000), "limits.max_atoms is 100000"),
        "depth": (b'{"id": 1, "evidence": ' + b"[" * 4_000_000 + b"\n", "not an example"),
        "long names": (
            world(On=[[f"{n}" * 1000] for n in range(2000)]),
            "more query atoms than limits.max_atoms",
        ),
    }


def test_hostile_examples_are_refused_within_bounded_memory(job, tmp_path, tally):
    """What would take terabytes is counted before it is built: 300 MB more than at rest suffice."""
    (tmp_path / "cube.mln").write_text(CUBE)
    keys = {
        "model": str(tmp_path / "cube.mln"),
        "query": "Same",
        "metrics": {},
        "source": {"path": "source.jsonl", "max_bytes": 8_000_000},
        "inference": {"max_groundings": 200_000},
        "limits": {"max_atoms": 100_000, "bad_share": 1.0},
    }
    clean, bad = job(GOOD, "clean", **keys), hostile()
    assert clean.run() == 0, clean.said

    def limited():
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + 300_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    run = job([*GOOD[:1], *(line for line, _ in bad.values()), *GOOD[1:]], **keys)
    assert run.run(first=limited) == 0, run.said[-2000:]
    letters = run.lines("deadletter.jsonl")
    for letter, (name, (_, reason)) in zip(letters, bad.items(), strict=True):
        assert reason in letter["reason"], name
    assert run.results()["weights.mln"] == clean.results()["weights.mln"]
    assert run.predictions() == clean.predictions()
    tally["bad inputs"] += len(bad)
