"""An example that kills its process is found out, put aside, and does no harm to its neighbours."""

import faulthandler
import json
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from onlinesrl.core.errors import ExampleError, StorageError
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.stream.crash_notes import CrashNote


def deadly(poison: str, number: signal.Signals) -> Callable[[], None]:
    """Make this process die in the middle of the micro-batch that has this example."""

    def install() -> None:
        faulthandler.disable()
        step = MlnOnlineLearner.step

        def stepping(self, examples, *arguments, **options):
            for place, each in enumerate(examples):
                if not isinstance(each, ExampleError) and each.id == poison:
                    step(self, examples[:place], *arguments, **options)
                    os.kill(os.getpid(), number)
            return step(self, examples, *arguments, **options)

        MlnOnlineLearner.step = stepping

    return install


def starved(poison: str) -> None:
    """Let this process lack the memory to decode this example."""
    decode_all = MlnOnlineLearner.decode_all

    def decoding(self, lines):
        if any(poison.encode() in line for line in lines):
            raise MemoryError
        return decode_all(self, lines)

    MlnOnlineLearner.decode_all = decoding


def ids(lines: Sequence[bytes]) -> list[str]:
    return [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize(("number", "place"), [(signal.SIGKILL, 0), (signal.SIGSEGV, 19)])
def test_an_example_that_kills_is_put_aside_after_three_deaths(
    job, citations, tally, number, place
):
    lines = citations[:20]
    run = job(lines, checkpoint={"every": 7})
    without = job([*lines[:place], b"{\n", *lines[place + 1 :]], "without")
    assert without.run() == 0
    poison = ids(lines)[place]
    ends = [run.run(first=deadly(poison, number)) for _ in range(4)]
    assert ends == [-number] * 3 + [0], run.said
    assert run.run(first=deadly(poison, number)) == 0
    [letter] = run.lines("deadletter.jsonl")
    assert letter["reason"] == "3 processes in succession died in this example (limits.crashes)"
    assert (letter["line"], letter["id"], letter["text"]) == (
        place + 1,
        poison,
        lines[place].decode().rstrip("\n"),
    )
    for name in ("weights.mln", "metrics.jsonl"):
        assert run.results()[name].replace(b'"crash"', b'"decode"') == without.results()[name]
    assert run.predictions() == without.predictions()
    tally["kills"] += 3


def test_without_a_limit_nothing_is_put_aside(job, citations):
    run = job(citations[:20], checkpoint={"every": 3}, limits={"crashes": 0})
    poison = deadly(ids(citations)[10], signal.SIGKILL)
    assert {run.run(first=poison) for _ in range(6)} == {-signal.SIGKILL}
    assert not (run.output / "started").exists()
    assert run.run() == 0
    assert run.lines("deadletter.jsonl") == []


@pytest.mark.parametrize(("error", "code"), [(IndexError, 70), (MemoryError, 69)])
def test_an_error_that_nobody_expected_counts_as_a_death(job, citations, error, code):
    def install():
        step = MlnOnlineLearner.step

        def stepping(self, examples, *arguments, **options):
            if any(getattr(each, "id", None) == ids(citations)[9] for each in examples):
                raise error("a defect")
            return step(self, examples, *arguments, **options)

        MlnOnlineLearner.step = stepping

    run = job(citations[:20])
    assert [run.run(first=install) for _ in range(4)] == [code] * 3 + [0]
    [letter] = run.lines("deadletter.jsonl")
    assert letter["id"] == ids(citations)[9]


# the note itself --------------------------------------------------------------------------------


@pytest.fixture
def note(tmp_path):
    def make(run="run", most=3):
        return CrashNote(tmp_path / "started", run, most)

    return make


def die(note: CrashNote, number: int, count: int) -> None:
    note.trying(number, count).__enter__()
    note.close()


def test_suspects_are_taken_one_at_a_time_and_no_others(note):
    die(note(), 10, 4)
    after = note()
    assert [after.room(n, 64) for n in (0, 9, 10, 13, 14)] == [10, 1, 1, 1, 64]
    for n in range(10, 14):
        assert after.condemned(n) is None
        with after.trying(n, 1):
            pass
        after.passed(n + 1)
    assert after.room(10, 64) == 64


def test_a_death_before_the_suspects_forgets_them(note):
    for place in (10, 10, 3, 10, 10):
        die(note(), place, 1)
        assert note().condemned(10) is None
    die(note(), 10, 1)
    assert note().condemned(10)
    assert note("another").condemned(10) is None


def test_deaths_after_a_signal_do_not_count(note):
    for _ in range(5):
        asked = note()
        asked.excuse()
        die(asked, 10, 1)
    assert note().condemned(10) is None


@pytest.mark.parametrize("text", [b"", b"{", b"\xff" * 300, b'{"run": "run", "deaths": "9"}'])
def test_a_note_that_cannot_be_read_says_nothing(note, tmp_path, text):
    (tmp_path / "started").write_bytes(text)
    assert note().room(0, 64) == 64
    die(note(), 10, 1)
    assert note().room(0, 64) == 10


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk always full")
def test_a_note_that_cannot_be_written_stops_the_run(monkeypatch):
    monkeypatch.setattr("onlinesrl.stream.crash_notes.plain", os.open)  # which opens devices, too
    with pytest.raises(StorageError, match="/dev/full: cannot write: No space left"):
        CrashNote(Path("/dev/full"), "run", 3)


def test_an_example_that_does_not_fit_into_memory_is_put_aside(job, citations):
    """Processes that lack the memory to decode it end there, and the next ones try it alone."""
    poison = ids(citations)[15]
    whole = job(citations[:15] + citations[16:20], "whole", checkpoint={"every": 7})
    run = job(citations[:20], checkpoint={"every": 7}, limits={"bad_share": 1.0})
    assert whole.run() == 0
    statuses = [run.run(first=partial(starved, poison)) for _ in range(4)]
    assert statuses == [69, 69, 69, 0], run.said
    assert run.lines("metrics.jsonl")[-1]["errors"] == {"crash": 1}
    assert run.predictions() == whole.predictions()
