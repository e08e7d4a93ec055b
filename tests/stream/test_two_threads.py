"""A run on two threads learns, writes and saves what it does on one, whatever ends it."""

import gzip
import json
import os
import signal
from typing import Any

import pytest
from conftest import Job

from onlinesrl.mln.kernels.predict_and_learn import LEARN, PREDICT
from onlinesrl.mln.online.example_step import ExampleProcessor
from onlinesrl.stream import checkpoints as checkpoints_module
from tests.stream.test_kill import BAD

TWO = ("--threads", "2")
KEYS: dict[str, Any] = {
    "batch": 7,
    "checkpoint": {"every": 10},
    "limits": {"bad_share": 1.0},
    "metrics": {"by": "field", "every": 16},
}


def longer(line: bytes, words: int) -> bytes:
    """A citation with so many words, more than there is room for ahead."""
    example = json.loads(line)
    example["evidence"] = {
        "Token": [[f"w{n}", n] for n in range(words)],
        "Next": [[n, n + 1] for n in range(words - 1)],
    }
    example["truth"] = {"InField": [[n, "title"] for n in range(0, words, 2)]}
    return json.dumps(example).encode() + b"\n"


def mixed(citations: list[bytes]) -> list[bytes]:
    """Citations among which are bad ones, some for the decoder, some without a truth, and a long one."""
    lines = citations[:60]
    lines[9] = lines[9].replace(b'{"id": "', b'{"id": "\\u00e9 ')
    lines[12] = json.dumps({**json.loads(lines[12]), "truth": None}).encode() + b"\n"
    lines[17] = longer(lines[17], 120)
    for n, bad in enumerate(BAD):
        lines.insert(11 * n, bad)
    return [*lines[:30], b"\n", *lines[30:], b" \n"]


def results(run: Job) -> dict[str, bytes]:
    """What a run has written, wherever its folder is."""
    folder = str(run.folder).encode()
    return {name: text.replace(folder, b"") for name, text in run.results().items()}


def saved(run: Job) -> list[Any]:
    """What the checkpoints of a run hold, but for times, and the configuration with its output."""
    found, other = [], {"seconds", "fingerprint", "config"}
    for path in run.checkpoints():
        read = checkpoints_module.load(path)
        header = {k: v for k, v in read.header.items() if k not in other}
        position = {k: v for k, v in header.pop("position").items() if k != "path"}
        arrays = {name: array.tobytes() for name, array in read.arrays.items()}
        found.append((header, position, arrays))
    return found


@pytest.mark.parametrize("audit", [0, 9])
def test_two_threads_learn_what_one_does(job, citations, audit):
    keys = {**KEYS, "inference": {"audit_every": audit}} if audit else KEYS
    one, two = (job(mixed(citations), name, **keys) for name in ("one", "two"))
    assert (one.run(), two.run(*TWO)) == (0, 0), two.said
    assert results(two) == results(one)
    assert saved(two) == saved(one)


def test_a_run_goes_on_with_any_number_of_threads(job, citations):
    whole, run = (job(mixed(citations), name, **KEYS) for name in ("whole", "run"))
    assert whole.run() == 0
    for options in (("--until", "23", *TWO), ("--until", "41"), TWO):
        assert run.run(*options) == 0, run.said
    assert results(run) == results(whole)


def test_what_cannot_be_read_ends_it_in_its_place(job, citations):
    """The second thread finds it, and what comes before is learned from."""
    said = []
    for name, options in (("one", ()), ("two", TWO)):
        run = job([], name, **{**KEYS, "source": {"path": "source.jsonl.gz"}})
        whole = gzip.compress(b"".join(mixed(citations)), 1, mtime=0)
        (run.folder / "source.jsonl.gz").write_bytes(whole[: len(whole) // 2])
        assert run.run(*options) == 74
        last = run.said.splitlines()[-1].replace(str(run.folder), "")
        said.append((last, run.lines("predictions.jsonl")))
    assert said[0] == said[1]
    assert "source.jsonl.gz:" in said[0][0]


def stop_after_five() -> None:
    """Have a signal come when five worlds of a micro-batch that has more have been learned from."""
    process = ExampleProcessor.process

    def partly(worlds: ExampleProcessor, seen: int, learning: bool) -> Any:
        if len(worlds.results.worlds) <= 5:
            return process(worlds, seen, learning)
        worlds.run(0, 5, PREDICT | LEARN, learning)
        os.kill(os.getpid(), signal.SIGTERM)
        return 5, True

    ExampleProcessor.process = partly  # type: ignore[method-assign]


@pytest.mark.parametrize("options", [(), TWO])
def test_a_run_is_stopped_within_a_micro_batch(job, citations, options):
    """First of what there is, then, when it had finished, of a file that has grown."""
    whole, run = job(citations[:40], "whole"), job(citations[:20], "run")
    assert whole.run() == 0
    assert (run.run(*options, first=stop_after_five), run.run(*options)) == (0, 0), run.said
    run.source.write_bytes(b"".join(citations[:40]))
    assert (run.run(*options, first=stop_after_five), run.run(*options)) == (0, 0), run.said
    assert results(run)["weights.mln"] == results(whole)["weights.mln"]
    assert results(run)["predictions.jsonl"] == results(whole)["predictions.jsonl"]
