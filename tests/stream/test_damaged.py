"""What a run finds damaged in its folder besides checkpoints: it says so, or does without."""

import json
import random

import pytest
from conftest import Job, tiers

pytestmark = pytest.mark.usefixtures("counting")

SUMMARIES = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b'{"finished": true}',
    b'{"finished": "yes"}',
    b"[" * 100_000,
    b"9" * 5_000,
)


@pytest.fixture(scope="module")
def finished(warm, citations, tmp_path_factory):
    run = Job(tmp_path_factory.mktemp("finished"), citations[:20], checkpoint={"every": 10})
    assert run.run() == 0, run.said
    return run


def damaged(text: bytes, random: random.Random) -> bytes:
    """The text with a piece of it gone, twice there, or turned into noise."""
    begin = random.randrange(len(text))
    piece = text[begin : begin + random.randrange(1, 20)]
    after = text[begin + len(piece) :]
    noise = bytes(random.randrange(256) for _ in piece)
    return text[:begin] + random.choice([b"", 2 * piece, noise, b"x" * len(piece)]) + after


@tiers("damages", 6, 100)
def test_a_damaged_summary_is_written_again(finished, tally, damages):
    summary = finished.output / "summary.json"
    whole, results = summary.read_bytes(), finished.results()
    known = {key: value for key, value in json.loads(whole).items() if "seconds" not in key}
    texts = [damaged(whole, random.Random(seed)) for seed in range(damages)]
    for text in (*SUMMARIES, *texts):
        summary.write_bytes(text)
        assert finished.run() == 0, (text, finished.said)
        assert "Traceback" not in finished.said
        if summary.read_bytes() != text:
            found = json.loads(summary.read_bytes())
            assert {key: value for key, value in found.items() if "second" not in key} == {
                key: value for key, value in known.items() if "second" not in key
            }
        assert finished.results() == results
        tally["damaged summaries"] += 1
    summary.write_bytes(SUMMARIES[0])
    assert finished.run() == 0
    assert json.loads(summary.read_bytes())["finished"] is True


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"examples": "1"}', b"\xff", b"[" * 100_000])
def test_damaged_metrics_are_named_by_their_line(finished, line):
    metrics = finished.output / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines(keepends=True)
    (finished.output / "summary.json").unlink()
    metrics.write_bytes(lines[0] + line.ljust(len(lines[1]) - 1) + b"\n" + b"".join(lines[2:]))
    assert finished.run() == 74
    assert f"{metrics}:2: damaged: " in finished.said
    assert "restore the file, or start over with --fresh" in finished.said
    assert "Traceback" not in finished.said
    metrics.write_bytes(b"".join(lines))
    assert finished.run() == 0
    assert (finished.output / "summary.json").exists()
