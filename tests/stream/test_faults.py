"""Signals at random moments, faults of the disk, and hostile examples under a limit of memory."""

import errno
import json
import os
import random
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Job, long, soaked, tiers, wait

EVERY = {"every": 7}
TWO = ("--threads", "2")


@pytest.fixture(scope="module")
def unbroken(
    warm: None, citations: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    run = Job(tmp_path_factory.mktemp("unbroken"), citations[:40], checkpoint=EVERY)
    assert run.run() == 0, run.said
    return run.results()


# signals ----------------------------------------------------------------------------------------


@tiers("signals", 4, 50)
@pytest.mark.parametrize(
    "inference",
    [pytest.param({}, id="elimination"), soaked({"presolve": "none"}, name="ilp")],
)
def test_signals_at_random_moments_end_a_run_in_order(
    job: Callable[..., Job],
    citations: list[bytes],
    tally: Counter[str],
    inference: dict[str, str],
    signals: int,
) -> None:
    """From its start to its last file: a run asked to stop saves what it did, and exits with 0."""
    lines = citations[:8] if inference else citations[:80]
    whole = job(lines, "whole", inference=inference)
    started = time.monotonic()
    assert whole.run() == 0, whole.said
    seconds = time.monotonic() - started
    run = job(lines, inference=inference, batch=4)
    rng, sent, stops, finished = random.Random(0), 0, 0, False
    while sent < signals or not finished or not stops:
        seconds *= 0.8 if finished and not stops else 1.0  # a machine at its ease is quicker
        reading, writing = os.pipe()
        fresh = ["--fresh"] if finished else []
        process = run.start(*fresh, first=lambda end=writing: tell_when_it_runs(end))
        os.read(reading, 1)
        time.sleep(rng.uniform(0.0, seconds))
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            os.kill(process, rng.choice((signal.SIGTERM, signal.SIGINT)))
            sent += 1
        assert wait(process) == 0, run.said
        done = len(run.lines("predictions.jsonl"))
        assert json.loads((run.output / "summary.json").read_bytes())["examples"] == done
        finished = "run it again to resume" not in run.said
        stops += not finished
        if finished:
            assert run.results() == whole.results()
        os.close(reading)
        os.close(writing)
    assert stops > 0
    tally["signals"] += sent


def tell_when_it_runs(end: int) -> None:
    """Write a byte once signals are minded, and let none come when the work is done."""
    from onlinesrl.runs import run as run_module

    real = run_module._run

    def minded(*arguments):
        os.write(end, b"!")
        summary = real(*arguments)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        return summary

    run_module._run = minded


# the disk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "options"),
    [
        ("fsync", errno.ENOSPC, ()),
        ("write", errno.EDQUOT, ()),
        ("replace", errno.EIO, TWO),
        ("open", errno.EROFS, ()),
        ("ftruncate", errno.EIO, ()),
        long("fsync", errno.EIO, ()),
        long("fsync", errno.ENOSPC, TWO),
        long("pwrite", errno.EIO, ()),
        long("replace", errno.EIO, ()),
    ],
)
def test_an_error_of_the_disk_ends_a_run_that_can_go_on_later(
    job: Callable[..., Job],
    citations: list[bytes],
    unbroken: dict[str, bytes],
    tally: Counter[str],
    name: str,
    code: int,
    options: tuple[str, ...],
) -> None:
    """At the first such call, at one in the middle, and at the last."""
    calls = job(citations[:40], "calls", checkpoint=EVERY)
    made = calls.folder / "made"

    def failing(at: int) -> Callable[[], None]:
        def install() -> None:
            real, count = getattr(os, name), 0

            def call(target, *arguments, **options):
                nonlocal count
                if name != "open" or str(target).startswith(str(calls.output)):
                    count += 1
                    made.write_text(str(count))
                    if count == at:
                        raise OSError(code, os.strerror(code))
                return real(target, *arguments, **options)

            setattr(os, name, call)

        return install

    assert calls.run(*options, first=failing(0)) == 0, calls.said
    total = int(made.read_text())
    for at in sorted({1, total // 2, total} - {0}):
        run = calls
        ended = run.run("--fresh", *options, first=failing(at))
        assert ended == 74, f"call {at} of {total}: {run.said}"
        last = run.said.splitlines()[-1]
        assert os.strerror(code) in last
        assert f"{run.output}" in last
        assert ("free some space" in last) == (code in {errno.ENOSPC, errno.EDQUOT})
        assert "Traceback" not in run.said
        assert run.run() == 0, run.said
        assert run.results() == unbroken
        tally["faults"] += 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 320 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_full_and_one_that_is_read_only(
    job: Callable[..., Job],
    citations: list[bytes],
    unbroken: dict[str, bytes],
    small_disk: Path,
    tally: Counter[str],
) -> None:
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


def test_dead_letters_that_cannot_be_written_stop_the_run(
    job: Callable[..., Job], citations: list[bytes], tally: Counter[str]
) -> None:
    lines = [*citations[:20], b"{\n", *citations[20:40]]
    run, whole = job(lines, checkpoint=EVERY), job(lines, "whole", checkpoint=EVERY)

    def no_letters() -> None:
        from onlinesrl.stream.dead_letters import DeadLetters

        def append(self, *arguments):
            self._descriptor = os.open("/dev/full", os.O_WRONLY)
            real(self, *arguments)

        real, DeadLetters.append = DeadLetters.append, append

    assert run.run(first=no_letters) == 74
    assert "deadletter.jsonl: cannot write: No space left" in run.said
    assert len(run.checkpoints()) == 2
    assert (run.run(), whole.run()) == (0, 0)
    [letter] = run.lines("deadletter.jsonl")
    assert letter["text"] == "{"
    for name in ("weights.mln", "predictions.jsonl", "metrics.jsonl"):
        assert run.results()[name] == whole.results()[name]
    tally["faults"] += 1


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


def test_hostile_examples_are_refused_within_bounded_memory(
    job: Callable[..., Job], tmp_path: Path, tally: Counter[str]
) -> None:
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

    def limited() -> None:
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
