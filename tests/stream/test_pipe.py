"""A pipe is answered as it comes: a line of output for each line of input, as soon as it is there."""

import json
import os
import signal

import pytest
from conftest import Job, wait

from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")

BAD = [b"{\n", b'{"id": 7, "evidence": {"Tokn": []}}\n', b"\xff\n"]


class Piped:
    """A command in a fork with pipes for its standard input and, for predict, its output."""

    def __init__(self, job: Job, *arguments: str) -> None:
        self.job = job
        reading, self.writing = os.pipe()
        self.answers, answering = os.pipe()

        def connect() -> None:
            os.dup2(reading, 0)
            os.dup2(answering, 1)
            for descriptor in (reading, self.writing, self.answers, answering):
                os.close(descriptor)

        self.process = job.fork(*arguments, "--set", "source.path=-", first=connect)
        os.close(reading)
        os.close(answering)
        self.stream = os.fdopen(self.answers, "rb")

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def end(self) -> int:
        os.close(self.writing)
        code = wait(self.process)
        self.stream.close()
        return code


@pytest.fixture
def trained(job, citations):
    run = job(citations[:30], "trained")
    assert run.run() == 0, run.said
    return run


@pytest.fixture
def predicting(trained, job):
    held_out = job([], "held_out")
    yield Piped(held_out, "predict", str(trained.output / "weights.mln"), str(held_out.config))


def test_each_line_is_answered_before_the_next_is_written(predicting, citations):
    lines = [citations[30], BAD[0], citations[31], BAD[1], b"\n", BAD[2], citations[32]]
    found = []
    for line in lines:
        predicting.write(line)
        if line.strip():
            found.append(json.loads(predicting.stream.readline()))
    assert predicting.end() == 0
    ids = [json.loads(line)["id"] for line in citations[30:33]]
    assert [answer.get("id") for answer in found] == [ids[0], None, ids[1], 7, None, ids[2]]
    assert [answer.get("line") for answer in found] == [None, 2, None, 4, 6, None]
    assert "unknown predicate Tokn" in found[3]["error"]
    assert set(found[1]) == {"line", "error"}


def test_a_line_is_answered_when_it_is_whole(predicting, citations):
    text = b"".join(citations[30:33])
    half = len(citations[30]) + len(citations[31]) // 2
    predicting.write(text[:half])
    first = predicting.stream.readline()
    os.set_blocking(predicting.answers, False)
    assert predicting.stream.read() is None
    os.set_blocking(predicting.answers, True)
    predicting.write(text[half:].removesuffix(b"\n"))
    second = predicting.stream.readline()
    os.close(predicting.writing)
    third = predicting.stream.readline()
    assert wait(predicting.process) == 0
    assert [json.loads(line)["id"] for line in (first, second, third)] == [
        json.loads(line)["id"] for line in citations[30:33]
    ]
    predicting.stream.close()


def test_answers_are_those_of_a_file(trained, job, citations, predicting):
    lines = [*citations[30:60], *BAD]
    for place in range(0, len(lines), 7):
        predicting.write(b"".join(lines[place : place + 7]))
        answers = [predicting.stream.readline() for _ in lines[place : place + 7]]
        del answers
    assert predicting.end() == 0
    file = job(lines, "file")
    assert file.call("predict", trained.output / "weights.mln", file.config) == 0
    piped = job(lines, "again")
    again = Piped(piped, "predict", str(trained.output / "weights.mln"), str(piped.config))
    again.write(b"".join(lines))
    os.close(again.writing)
    assert again.stream.read().decode() == file.printed
    assert wait(again.process) == 0
    again.stream.close()


def test_a_run_answers_each_line_and_learns_the_same(job, citations):
    lines = [*citations[:5], BAD[0], *citations[5:9], BAD[1]]
    run = job([], limits={"bad_share": 1.0})
    piped = Piped(run, "run", str(run.config))
    path = run.output / "predictions.jsonl"
    for number, line in enumerate(lines, 1):
        piped.write(line)
        until(lambda: path.exists() and path.read_bytes().count(b"\n") == number)  # noqa: B023
    assert piped.end() == 0, run.said
    answers = run.lines("predictions.jsonl")
    assert [answers[5]["line"], answers[10]["line"], answers[10]["id"]] == [6, 11, 7]
    file = job(lines, "file", limits={"bad_share": 1.0})
    assert file.run() == 0
    results, expected = run.results(), file.results()
    del results["deadletter.jsonl"], expected["deadletter.jsonl"]  # they name the file
    assert results == expected


def test_a_signal_ends_a_run_that_waits_for_its_pipe(job, citations, tmp_path):
    run = job([])
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    process = run.start("--set", f"source.path={pipe}")
    path = run.output / "predictions.jsonl"
    until(path.exists)
    with pipe.open("wb", buffering=0) as stream:
        stream.write(b"".join(citations[:5]) + citations[5][:20])
        until(lambda: path.read_bytes().count(b"\n") == 5)
        os.kill(process, signal.SIGINT)
        assert wait(process) == 0, run.said
    assert "stopped after 5 examples; run it again to resume" in run.said
