"""Interrupted equals unbroken: whatever a run reads, learns and writes, wherever it ends.

A run in this process ends before, within or after any of its writes, fails there, or is asked to stop there.
Run again, it gives the bits of an unbroken run: weights, averages, metrics, predictions and dead letters.
"""

import errno
import json
import os
import random
import shutil
import signal
import threading
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import msgspec
import pytest
import yaml
from conftest import MODEL, Job, soaked, tiers

from tests.support import trust_program, world_changes
from tests.support.late_labels import apart
from tests.support.serving import Client, learned
from tests.support.storage import Storage
from tests.support.tables import predicted_rows, write_tables
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")
EVENTS = ("before", "within", "after")
BAD = [b"{\n", b'{"id": 1, "evidence": {"Tokn": []}}\n', b"\xff\xfe\n", b"[]\n"]
OPEN = MODEL.read_text().replace('field = {"author", "title", "venue"}', "field = {...}")
TRUTHS = [{"id": f"truth{name}", "truth": {"Good": [[name]]}} for name in "abcde"]
PARQUET = ("counting", "mln", "psl", "late labels", "drift", "open types")
REPLAY = {"update": "cda2", "replay": {"examples": 2, "reservoir": 3}}
DRIFTING = "label = {A, B}\nWord(word)\nClass(label!)\nWord(+w) => Class(+c)\n"


def late(lines: list[bytes]) -> list[bytes]:
    """Truths that come two examples later, but for one that comes before its example."""
    pairs = [apart(line) for line in lines]
    examples, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    mixed = [*examples[:2], labels[4]]
    for n, example in enumerate(examples[2:]):
        mixed += [example, *labels[n : n + 1] * (n != 4)]
    return [*mixed, *labels[-2:]]


def changing(count: int) -> list[bytes]:
    """Examples whose labels follow their words, and from the middle of the stream on do not."""
    rng, lines = random.Random(0), []
    for n in range(count):
        label = n % 2 if n < count // 2 else rng.randrange(2)
        truth = {"Class": [["AB"[label]]]}
        lines.append({"id": n, "evidence": {"Word": [[f"w{n % 2}"]]}, "truth": truth})
    return [json.dumps(line).encode() + b"\n" for line in lines]


def numbered(lines: list[bytes]) -> list[bytes]:
    """The examples with numbers as their names, and without groups."""
    values = [{**json.loads(line), "id": n} for n, line in enumerate(lines)]
    for value in values:
        value.pop("group", None)
    return [json.dumps(value).encode() + b"\n" for value in values]


@pytest.fixture
def stream(request, job, citations, tmp_path):
    """Makes runs: of a kind of learning, from a kind of source."""
    (tmp_path / "trust.psl").write_text(trust_program.MODEL)
    (tmp_path / "open.mln").write_text(OPEN)
    (tmp_path / "drifting.mln").write_text(DRIFTING)
    (tmp_path / "world.psl").write_text(world_changes.PSL)
    (tmp_path / "world.mln").write_text(world_changes.MLN)
    worlds = {"query": "Good", "world": True, "metrics": {}, "learner": {"update": "cda2"}}
    trusts = [msgspec.json.encode(each) + b"\n" for each in trust_program.examples(8)]
    soft = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    kinds: dict[str, tuple[list[bytes], dict[str, Any]]] = {
        "counting": (citations[:9], {}),
        "mln": (citations[:9], {"learner": {"update": "cda2", "sigma": 0.01}}),
        "replay": (citations[:9], {"learner": REPLAY}),
        "psl": (trusts, soft),
        "late labels": (late(citations[:9]), {"labels": {"pending": 3}}),
        "rounds": (citations[:9], {"distribute": {"shards": 2, "round": 2, "workers": 1}}),
        "psl world": (
            world_changes.encoded([*world_changes.changes(12, soft=True), *TRUTHS]),
            {**worlds, "model": str(tmp_path / "world.psl"), "inference": {"targets": "skip"}},
        ),
        "mln world": (
            world_changes.encoded([*world_changes.changes(12, soft=False), *TRUTHS]),
            {**worlds, "model": str(tmp_path / "world.mln"), "learner": REPLAY},
        ),
        "open types": (citations[:9], {"model": str(tmp_path / "open.mln")}),
        "drift": (
            changing(120),
            {
                "model": str(tmp_path / "drifting.mln"),
                "query": "Class",
                "metrics": {"every": 40},
                "drift": {"delta": 0.9},
                "checkpoint": {"every": 30},
            },
        ),
    }

    def make(source, kind, name="run"):
        if kind not in COUNTING:
            request.getfixturevalue("kernels")
        lines, keys = kinds[kind]
        keys = {"checkpoint": {"every": 4}, "limits": {"bad_share": 1.0, "crashes": 0}, **keys}
        if source == "parquet":
            keys |= {"sink": {"kind": "parquet"}}
        if source == "log":
            return job([], name, **keys)
        if source == "parquet" and kind in ("counting", "mln", "open types", "drift"):
            run = job([], name, source={"kind": "parquet", "path": "tables"}, **keys)
            write_tables(run.folder / "tables", numbered(lines))
            return run
        return job([*lines[:5], *BAD[:2], *lines[5:], *BAD[2:]], name, **keys)

    return make


def outcome(run: Job) -> Any:
    """All that must not depend on where a run ended, to the bit."""
    tables = run.output / "predictions"
    return run.results(), learned(run.output), predicted_rows(tables) if tables.exists() else None


COUNTING = {"counting": 1, "late labels": 4, "rounds": 4}
"""What is learned by counting, and every how many writes it ends; what the real learner does, every 45."""
LEARNED = ("mln", "replay", "psl", "drift", "open types", "psl world", "mln world")
CELLS = [
    *(("file", kind) for kind in (*COUNTING, *LEARNED)),
    *(("parquet", kind) if kind == "counting" else soaked("parquet", kind) for kind in PARQUET),
]


@tiers("every", 0, 1)
@pytest.mark.parametrize(("source", "kind"), CELLS)
def test_a_run_that_ends_at_any_write(stream, tally, source, kind, every):
    run = stream(source, kind)
    with Storage(run.output) as unbroken:
        assert run.run() == 0, run.said
    expected = outcome(run)
    assert unbroken.count > 20
    assert (kind == "drift") == ("drift" in run.lines("metrics.jsonl")[-1])
    step = every or COUNTING.get(kind, 45) * (24 if source == "parquet" else 1)
    for at in range(1, unbroken.count, step):
        shutil.rmtree(run.output)
        with Storage(run.output, at, EVENTS[at % 3]) as storage:
            assert run.run() == 0, run.said
        assert storage.over, at
        assert run.run() == 0, run.said
        assert outcome(run) == expected, f"ended {EVENTS[at % 3]} write {at} of {unbroken.count}"
        tally["ends at a write"] += 1


def test_a_run_that_ends_again_and_again(stream):
    """Each time a few writes further on, until it reaches its end."""
    run = stream("file", "counting")
    assert run.run() == 0, run.said
    expected = outcome(run)
    shutil.rmtree(run.output)
    ends = 0
    for at in range(20, 400, 3):
        with Storage(run.output, at, EVENTS[at % 3]) as storage:
            assert run.run() == 0, run.said
        ends += storage.over
        if not storage.over:
            break
    assert ends > 3
    assert outcome(run) == expected


ERRORS = {
    "write": errno.EDQUOT,
    "pwrite": errno.EIO,
    "fsync": errno.ENOSPC,
    "replace": errno.EIO,
    "ftruncate": errno.EIO,
    "open": errno.EROFS,
}


@pytest.mark.parametrize(("call", "code"), ERRORS.items())
def test_an_error_of_the_disk_ends_a_run_that_can_go_on_later(stream, tally, call, code):
    """At the first such call, at one in the middle, and at the last, also where a second thread reads."""
    run = stream("file", "counting")
    with Storage(run.output, calls=(call,)) as unbroken:
        assert run.run() == 0, run.said
    expected = outcome(run)
    for at in sorted({1, unbroken.count // 2, unbroken.count} - {0}):
        shutil.rmtree(run.output)
        with Storage(run.output, at, code, (call,)):
            assert run.run() == 74, f"call {at} of {unbroken.count}"
        last = run.said.splitlines()[-1]
        assert os.strerror(code) in last
        assert str(run.output) in last
        assert ("free some space" in last) == (code in {errno.ENOSPC, errno.EDQUOT})
        assert "Traceback" not in run.said
        assert run.run() == 0, run.said
        assert outcome(run) == expected
        tally["faults"] += 1


@pytest.mark.parametrize(
    "kind", ["counting", "rounds", "psl world", *map(soaked, ("psl", "late labels", "mln world"))]
)
def test_a_signal_ends_a_run_in_good_order(stream, tally, kind):
    """Wherever it comes: what was learned is saved, the exit code is 0, and the run goes on."""
    run = stream("file", kind)
    with Storage(run.output) as unbroken:
        assert run.run("--set", "batch=1") == 0, run.said
    expected, stops = outcome(run), 0
    for at in range(4, unbroken.count, 17):
        shutil.rmtree(run.output)
        with Storage(run.output, at, "signal"):
            assert run.run("--set", "batch=1") == 0, run.said
        done = len(run.lines("predictions.jsonl"))
        summary = json.loads((run.output / "summary.json").read_bytes())
        assert summary["examples"] <= done
        if not summary["finished"]:
            assert f"stopped after {summary['examples']} examples; run it again to res" in run.said
            stops += 1
        assert run.run() == 0
        assert outcome(run) == expected
        tally["signals"] += 1
    assert stops > 2


def test_the_second_signal_ends_a_run_at_once(stream):
    run = stream("file", "counting")
    with Storage(run.output, 30, "two signals"):
        assert run.run("--set", "batch=1") == 130
    assert "Traceback" not in run.said
    assert run.checkpoints()
    assert not (run.output / "summary.json").exists()


# what clients send ---------------------------------------------------------------------------------


def serve(run: Job, lines: list[bytes], answered: dict[bytes, bytes], storage: Storage) -> None:
    """Serve in this process until a client has its answers, or the storage ends it."""
    (run.folder / "stderr").write_text("")
    over = threading.Event()

    def send() -> None:
        until(lambda: over.is_set() or "serving at" in run.said)
        client = Client(run.said)
        with suppress(OSError, HTTPException):  # it has gone
            until(lambda: client.ask("GET", "/readyz")[0] == 200)
            for line in lines:
                if line not in answered:
                    status, text = client.ask("POST", "/learn", line)
                    if status == 503:  # it ends
                        return
                    answered[line] = text.rstrip()
        if not storage.over:
            os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with storage:
            assert run.call("serve", run.config, "--port", 0) == 0, run.said
    finally:
        over.set()
        sender.join()


@tiers("step", 19, 1)
@pytest.mark.parametrize("kind", ["counting", soaked("late labels")])
def test_a_server_that_ends_at_any_write(stream, job, citations, tally, kind, step):
    """What was answered is kept, and what was learned is what a run learns from the log of requests."""
    lines = [
        line.rstrip() for line in (citations[:9] if kind == "counting" else late(citations[:9]))
    ]
    run = stream("log", kind)
    unbroken = Storage(run.output)
    serve(run, lines, {}, unbroken)
    for at in range(12, unbroken.count, step):
        shutil.rmtree(run.output)
        answered = dict[bytes, bytes]()
        serve(run, lines, answered, Storage(run.output, at, EVENTS[at % 3]))
        before = dict(answered)
        serve(run, lines, answered, Storage(run.output))
        log = (run.output / "requests.jsonl").read_bytes()
        again = job([log], f"again{at}", **{**keys_of(run), "source": {"path": "source.jsonl"}})
        assert again.run() == 0, again.said
        assert learned(again.output) == learned(run.output)
        for name in ("weights.mln", "predictions.jsonl"):
            assert (again.output / name).read_bytes() == (run.output / name).read_bytes()
        written = (run.output / "predictions.jsonl").read_bytes().splitlines()
        if kind == "counting":  # of a late label the answer has more than the prediction
            assert {text for text in before.values() if b'"predicted"' in text} <= {*written}
        tally["ends at a write"] += 1


def keys_of(run: Job) -> dict[str, Any]:
    keys: dict[str, Any] = yaml.safe_load(run.config.read_text())
    del keys["output"]
    return keys
