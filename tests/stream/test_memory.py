"""Memory is bounded by bytes, and an example that takes more than there is is a bad one."""

import json
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from onlinesrl.core.example import Example
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.decoding import READ_BYTES
from tests.stream.test_late_labels import shuffled

LEFT = {"checkpoint": {"every": 7}, "limits": {"bad_share": 1.0}}


def names(lines: Sequence[bytes]) -> list[str]:
    return [json.loads(line)["id"] for line in lines]


def short_of_memory(poison: str, times: int) -> Callable[[], None]:
    """Let there be too little memory to read an example, so many times."""

    def install() -> None:
        decode, decode_all, left = MlnOnlineLearner.decode, MlnOnlineLearner.decode_all, [times]

        def decoding(learner: MlnOnlineLearner, line: bytes) -> Example:
            if f'"{poison}"'.encode() in line and left[0]:
                left[0] -= 1
                raise MemoryError
            return decode(learner, line)

        def decoding_all(learner: MlnOnlineLearner, lines: Sequence[bytes]) -> list[Any]:
            if any(f'"{poison}"'.encode() in line for line in lines) and left[0]:
                raise MemoryError
            return decode_all(learner, lines)

        MlnOnlineLearner.decode, MlnOnlineLearner.decode_all = decoding, decoding_all

    return install


def test_what_cannot_be_read_alone_is_a_dead_letter(job, citations):
    lines = citations[:40]
    without = job([*lines[:20], b"{\n", *lines[21:]], "without", **LEFT)
    run = job(lines, batch=64, **LEFT)
    assert (without.run(), run.run(first=short_of_memory(names(lines)[20], 99))) == (0, 0)
    [letter] = run.lines("deadletter.jsonl")
    assert (letter["line"], letter["text"]) == (21, lines[20].decode().rstrip("\n"))
    assert "takes more memory than is available" in letter["reason"]
    assert run.lines("metrics.jsonl")[-1]["errors"] == {"memory": 1}
    assert run.predictions() == without.predictions()
    assert run.results()["weights.mln"] == without.results()["weights.mln"]
    assert run.run() == 0
    assert len(run.lines("deadletter.jsonl")) == 1


def test_giants_are_read_one_by_one(job, citations):
    """What is said does not depend on it; the report shows none of them."""
    shown = [json.loads(line) for line in citations[:20]]
    for example in shown[::5]:
        example["evidence"]["Token"] *= 1 + READ_BYTES // (8 * len(json.dumps(example)))
    lines = [json.dumps(example).encode() + b"\n" for example in shown]
    runs = [job(lines, f"b{batch}", batch=batch, **LEFT) for batch in (1, 64)]
    assert [run.run() for run in runs] == [0, 0], runs[0].said
    assert runs[0].results() == runs[1].results()
    assert runs[0].lines("metrics.jsonl")[-1]["bad"] == 0


def room_for(megabytes: int) -> Callable[[], None]:
    """Let the process have only so much more memory than it has."""

    def install() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return install


def giant(name: str, size: int, **more: Any) -> bytes:
    """An example of so many bytes, of a citation with very many tokens."""
    count = size // 28
    tokens = [[f"word{n % 1000}", n] for n in range(count)]
    following = [[n, n + 1] for n in range(count - 1)]
    evidence = {"Token": tokens, "Next": following, **more}
    line = json.dumps({"id": name, "evidence": evidence}, separators=(",", ":"))
    return line.encode() + b"\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_giants_that_are_refused_are_not_held_together(job, citations):
    """Eight of them held together would take more than the 200 MB that there are."""
    giants = [giant("g", 5_000_000, Tokn=[["x"]])] * 8
    small = job(citations[:10], "small", **LEFT)
    run = job([*citations[:5], *giants, *citations[5:10]], **LEFT)
    assert (small.run(), run.run(first=room_for(200))) == (0, 0), run.said
    assert run.lines("metrics.jsonl")[-1]["errors"] == {"schema": 8}
    assert run.predictions() == small.predictions()


# what waits ----------------------------------------------------------------------------------------


def test_what_is_given_up_does_not_depend_on_batches_and_stops(job, citations):
    lines = shuffled(citations[:110], 3)
    most = 3 * max(map(len, lines))
    keys: dict[str, Any] = {"labels": {"max_bytes": most}, **LEFT}
    runs = [job(lines, f"b{batch}", batch=batch, **keys) for batch in (1, 64)]
    assert [run.run() for run in runs] == [0, 0], runs[0].said
    stopped = job(lines, "stopped", **keys)
    assert [stopped.run("--until", str(n)) for n in (50, 75, 100)] == [0, 0, 0]
    assert stopped.run() == 0
    last = runs[0].lines("metrics.jsonl")[-1]
    assert last["expired"] > 5
    assert runs[0].results() == runs[1].results() == stopped.results()
    assert "labels.max_bytes" in runs[0].said


# too little memory -----------------------------------------------------------------------------------

PAIRS = """\
Thing(thing)
Near(thing, thing)
1.0 Thing(x) ^ Thing(y) => Near(x, y)
"""


def pairs(name: str, things: int) -> bytes:
    """An example whose network grows with the square of its size."""
    evidence = {"Thing": [[f"t{n}"] for n in range(things)]}
    truth = {"Near": [["t0", f"t{n}"] for n in range(0, min(things, 9), 2)]}
    return json.dumps({"id": name, "evidence": evidence, "truth": truth}).encode() + b"\n"


@pytest.mark.soak  # what a process has left depends on what ran in it before: to be run by itself
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_run_goes_on_behind_what_takes_too_much_memory(job, tmp_path):
    """One that cannot be read, and one that cannot be grounded, among others."""
    (tmp_path / "pairs.mln").write_text(PAIRS)
    keys = {"model": str(tmp_path / "pairs.mln"), "query": "Near", "metrics": {}, **LEFT}
    good = [pairs(f"e{n}", 3 + n % 5) for n in range(40)]
    unread = giant("unread", 6_500_000)
    lines = [*good[:9], unread, *good[9:20], pairs("huge", 950), *good[20:]]
    without = job([*good[:9], b"{\n", *good[9:20], b"{\n", *good[20:]], "without", **keys)
    run = job(lines, **keys)
    assert (without.run(), run.run(first=room_for(40))) == (0, 0), run.said
    letters = run.lines("deadletter.jsonl")
    assert [letter["line"] for letter in letters] == [10, 22]
    assert [letter["id"] for letter in letters] == [None, "huge"]
    assert all("takes more memory than is available" in letter["reason"] for letter in letters)
    assert letters[0]["text"].encode() == unread[:-1]
    assert run.lines("metrics.jsonl")[-1]["errors"] == {"memory": 2}
    assert run.predictions() == without.predictions()
    assert run.results()["weights.mln"] == without.results()["weights.mln"]
    ours, theirs = (checkpoints_module.load(each.checkpoints()[-1]) for each in (run, without))
    assert ours.header["learner"] == theirs.header["learner"]
    assert {name: array.tobytes() for name, array in ours.arrays.items()} == {
        name: array.tobytes() for name, array in theirs.arrays.items()
    }
    assert run.run(first=room_for(40)) == 0
    assert len(run.lines("deadletter.jsonl")) == 2
