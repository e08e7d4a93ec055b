"""The loop: what is written when, and that nothing depends on batches and checkpoints."""

import json
from itertools import accumulate

import pytest
from conftest import Job

from onlinesrl.stream import checkpoints as checkpoints_module

pytestmark = pytest.mark.usefixtures("counting")


@pytest.fixture(scope="module")
def plain(warm, citations, tmp_path_factory):
    run = Job(tmp_path_factory.mktemp("plain"), citations[:40])
    assert run.run() == 0, run.said
    return run.results()


@pytest.mark.parametrize(("batch", "every"), [(1, 1), (2, 13), (7, "1h"), (1000, 13)])
def test_batches_and_checkpoints_change_nothing(job, citations, plain, batch, every):
    run = job(citations[:40], batch=batch, checkpoint={"every": every})
    assert run.run() == 0, run.said
    assert run.results() == plain


@pytest.mark.parametrize(
    ("every", "places"), [(None, [1, 2, 4, 8, 16, 32, 39]), (10, [10, 20, 30, 39])]
)
def test_metrics_at_powers_of_two_or_at_every_and_at_the_end(job, citations, every, places):
    run = job(citations[:39], metrics={"every": every, "by": "field"})
    assert run.run() == 0, run.said
    lines = run.lines("metrics.jsonl")
    assert [line["examples"] for line in lines] == places
    windows = accumulate(line["window"]["examples"] for line in lines)
    assert list(windows) == [line["examples"] for line in lines]


def test_an_empty_source_is_a_run_of_nothing(job):
    run = job([])
    assert run.run() == 0, run.said
    assert run.lines("metrics.jsonl") == run.lines("predictions.jsonl") == []
    assert run.run() == 0
    assert "this run is finished" in run.said


def test_checkpoints_are_kept_as_told(job, citations):
    run = job(citations[:20], checkpoint={"every": 4, "keep": 2})
    assert run.run() == 0, run.said
    numbers = [checkpoints_module.load(path).number for path in run.checkpoints()]
    assert numbers == [5, 6]
    assert [checkpoints_module.load(p).header["finished"] for p in run.checkpoints()] == [
        False,
        True,
    ]


def test_checkpoints_by_time(job, citations):
    run = job(citations[:20], batch=1, checkpoint={"every": "0.000000001s", "keep": 100})
    assert run.run() == 0, run.said
    assert len(run.checkpoints()) == 21


def test_the_last_labelled_examples_are_shown_whatever_the_batches(job, citations):
    lines = [*citations[:12], *[b"{\n"] * 40]
    shown = []
    for batch in (1, 64):
        run = job(lines, f"batch{batch}", batch=batch, limits={"bad_share": 1.0})
        assert run.run() == 0, run.said
        shown.append(checkpoints_module.load(run.checkpoints()[-1]).header["shown"])
    assert shown[0] == shown[1]
    assert [example["id"] for example, _ in shown[0]] == [
        f"online-max-margin-{n:02d}" for n in range(5, 13)
    ]


def test_predictions_hold_what_they_promise(job, citations):
    unlabelled = citations[1].replace(b'"truth"', b'"query"')
    run = job([citations[0], unlabelled, citations[2]])
    assert run.run() == 0, run.said
    first, second, third = run.lines("predictions.jsonl")
    assert first == {
        "id": "online-max-margin-01",
        "group": "online-max-margin",
        "predicted": {"InField": []},
        "score": 0.0,
        "certified": True,
        "hamming": 10,
    }
    assert "hamming" not in second
    assert second["predicted"]["InField"]
    predicted, true = (
        {tuple(atom) for atom in atoms["InField"]}
        for atoms in (third["predicted"], json.loads(citations[2])["truth"])
    )
    assert third["hamming"] == len(predicted ^ true)
    assert run.lines("metrics.jsonl")[-1]["updates"] == 2
