"""Files that grow with what clients send: the oldest lines go, and nothing that was answered is lost."""

import json
from pathlib import Path

import msgspec
import pytest

from onlinesrl.stream.dead_letters import letters
from onlinesrl.stream.run_folder import OutputFile, parts
from tests.support.serving import Served, learned

pytestmark = pytest.mark.usefixtures("counting")

KEPT = 40_000


def whole(file: Path) -> bytes:
    return b"".join(part.read_bytes() for part in parts(file))


@pytest.fixture
def lines(citations):
    """Examples with different ids, and now and then a bad one."""
    named = [json.loads(line) | {"id": n} for n, line in enumerate(citations[:240])]
    return [
        b"[%d]" % n if n % 9 == 0 else json.dumps(each).encode() for n, each in enumerate(named)
    ]


def test_the_oldest_goes_and_a_server_goes_on(job, lines):
    limits = {"bad_share": 1.0, "crashes": 0}
    unbroken = job(
        [line + b"\n" for line in lines], "unbroken", limits=limits, metrics={"every": 1}
    )
    assert unbroken.run() == 0, unbroken.said
    run = job(
        [],
        limits=limits | {"retention_bytes": KEPT},
        checkpoint={"every": 7, "keep": 2},
        metrics={"every": 1},
    )
    answers: list[bytes] = []
    for first in range(0, 240, 80):
        served = Served(run)
        for at in range(first, first + 80, 4):
            said = served.post("/learn", lines[at : at + 4])
            answers += [msgspec.json.encode(each) for each in said]
        assert served.stop() == 0, run.said
    served = Served(run)
    assert served.stop() == 0, run.said
    assert learned(run.output) == learned(unbroken.output)
    for name in ("predictions.jsonl", "metrics.jsonl", "requests.jsonl"):
        left = whole(run.output / name)
        every = b"\n".join(lines) + b"\n" if name == "requests.jsonl" else None
        every = every or (unbroken.output / name).read_bytes()
        if name != "predictions.jsonl":  # which have the lines of the journal's parts
            assert every.endswith(left), name
        assert len(every) > 2 * KEPT > len(left) > 0, name
    kept = whole(run.output / "predictions.jsonl").splitlines()
    assert [json.loads(line).get("id") for line in kept if b'"predicted"' in line] == [
        n for n in range(240 - len(kept), 240) if n % 9
    ]
    assert len(answers) == 240
    found = list(letters(run.output / "deadletter.jsonl"))
    assert found[-1].value == b"[234]"


def test_learning_anew_says_what_is_missing(job, lines):
    run = job([], limits={"retention_bytes": KEPT}, checkpoint={"every": 7, "keep": 1})
    served = Served(run)
    for at in range(0, 240, 10):
        served.post("/learn", lines[at : at + 10])
    assert served.stop() == 0, run.said
    left = whole(run.output / "requests.jsonl")
    assert b"\n".join(lines).endswith(left.rstrip())
    served = Served(run, "--fresh")
    assert "its oldest lines were removed (limits.retention_bytes)" in run.said
    assert served.stop() == 0, run.said
    again = job([left], "again", limits={"bad_share": 1.0})
    assert again.run() == 0
    assert learned(run.output) == learned(again.output)


def test_parts_of_a_file(tmp_path):
    path = tmp_path / "lines.jsonl"
    with OutputFile(path) as file:
        for part in range(4):
            file.write(b"%d\n" % part * 10)
            if part < 3:
                file.begin_part()
        assert [each.name for each in parts(path)] == [
            "lines.jsonl",
            *(f"lines.jsonl.{n:06}" for n in (1, 2, 3)),
        ]
        file.flush()
        file.forget(before=3, most=45)
        assert whole(path) == b"2\n" * 10 + b"3\n" * 10
        file.forget(before=2, most=0)  # the rest is needed
        assert whole(path) == b"2\n" * 10 + b"3\n" * 10
        file.resume(2, 6)
        file.write(b"4\n")
    with OutputFile(path) as file:
        assert (file.part, file.length, whole(path)) == (2, 8, b"2\n2\n2\n4\n")
    (tmp_path / "lines.jsonl.txt").touch()
    (tmp_path / ".000001").touch()
    assert parts(path) == [tmp_path / "lines.jsonl.000002"]
