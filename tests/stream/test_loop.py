"""The loop: what is written when, and that nothing depends on batches and checkpoints."""

import json
from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Job
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.stream import batching
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.batching import Batches
from onlinesrl.stream.decoding import Batch
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.schedule import Schedule

interval = st.none() | st.integers(1, 50)


@given(interval, interval, st.integers(1, 100))
def test_batches_end_where_something_is_due(
    every: int | None, metrics: int | None, batch: int
) -> None:
    schedule = Schedule(every, None, 3, metrics, batch)
    ends = [0]
    while ends[-1] < 300:
        room = schedule.room(ends[-1])
        assert 1 <= room <= batch
        ends.append(ends[-1] + room)
    due = {1, 2, 4, 8, 16, 32, 64, 128, 256}
    due |= {n for n in range(1, 301) for step in (every, metrics) if step and n % step == 0}
    assert due <= set(ends) | set(range(ends[-1], 301))
    assert {n for n in range(1, 301) if schedule.metrics_due(n)} <= due


def test_micro_batches_are_as_large_as_takes_about_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that the test owns: what takes long an example shows and stops in time."""
    now, sizes, room = [0.0], list[int](), 100

    def take(_: Any, most: int) -> Batch:
        return Batch([(None, None)] * most, False, None, [])  # type: ignore[list-item]

    monkeypatch.setattr(batching.time, "monotonic", lambda: now[0])
    nothing = lambda *_: None  # noqa: E731
    source: Any = SimpleNamespace(records=nothing, take=take, choice=Choice())
    of = Batches(source, source, False, lambda: (0, 0), lambda *_: room, nothing)
    stopper: Any = SimpleNamespace(asked=False)
    costs = [0.0] * 6 + [0.1] * 6 + [3.0] * 3 + [0.001] * 4
    for cost, taken in zip(costs, of.each(None, stopper), strict=False):
        sizes.append(len(taken.batch))
        now[0] += cost * len(taken.batch)
    assert sizes[:6] == [1, 4, 16, 64, 100, 100]
    assert sizes[6:12] == [100, 50, 25, 12, 6, 6]
    assert sizes[12:15] == [6, 3, 1]
    assert sizes[15:] == [1, 4, 16, 64]


@pytest.fixture(scope="module")
def plain(
    warm: None, citations: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    run = Job(tmp_path_factory.mktemp("plain"), citations[:70])
    assert run.run() == 0, run.said
    return run.results()


@pytest.mark.parametrize(
    ("batch", "every"), [(1, 1), (1, 13), (2, 13), (7, 1), (7, "1h"), (1000, 1), (1000, 13)]
)
def test_batches_and_checkpoints_change_nothing(
    job: Callable[..., Job],
    citations: list[bytes],
    plain: dict[str, bytes],
    batch: int,
    every: int | str,
) -> None:
    run = job(citations[:70], batch=batch, checkpoint={"every": every})
    assert run.run() == 0, run.said
    assert run.results() == plain


def test_metrics_at_powers_of_two_at_every_and_at_the_end(
    job: Callable[..., Job], citations: list[bytes]
) -> None:
    run = job(citations[:37], metrics={"every": 10, "by": "field"})
    assert run.run() == 0, run.said
    lines = run.lines("metrics.jsonl")
    assert [line["examples"] for line in lines] == [1, 2, 4, 8, 10, 16, 20, 30, 32, 37]
    windows = accumulate(line["window"]["examples"] for line in lines)
    assert list(windows) == [line["examples"] for line in lines]


def test_the_last_line_is_written_once(job: Callable[..., Job], citations: list[bytes]) -> None:
    run = job(citations[:32], metrics={"every": 16})
    assert run.run() == 0, run.said
    examples = [line["examples"] for line in run.lines("metrics.jsonl")]
    assert examples == [1, 2, 4, 8, 16, 32]


def test_an_empty_source_is_a_run_of_nothing(job: Callable[..., Job]) -> None:
    run = job([])
    assert run.run() == 0, run.said
    assert run.lines("metrics.jsonl") == run.lines("predictions.jsonl") == []
    assert run.run() == 0
    assert "this run is finished" in run.said


def test_checkpoints_are_kept_as_told(job: Callable[..., Job], citations: list[bytes]) -> None:
    run = job(citations[:20], checkpoint={"every": 4, "keep": 2})
    assert run.run() == 0, run.said
    numbers = [checkpoints_module.load(path).number for path in run.checkpoints()]
    assert numbers == [5, 6]
    assert [checkpoints_module.load(p).header["finished"] for p in run.checkpoints()] == [
        False,
        True,
    ]


def test_checkpoints_by_time(job: Callable[..., Job], citations: list[bytes]) -> None:
    run = job(citations[:20], batch=1, checkpoint={"every": "0.000000001s", "keep": 100})
    assert run.run() == 0, run.said
    assert len(run.checkpoints()) == 21


def test_the_last_labelled_examples_are_shown_whatever_the_batches(
    job: Callable[..., Job], citations: list[bytes]
) -> None:
    lines = [*citations[:12], *[b"{\n"] * 40]
    shown = []
    for batch in (1, 64):
        run = job(lines, f"batch{batch}", batch=batch, limits={"bad_share": 1.0})
        run.brief = False
        assert run.run() == 0, run.said
        shown.append(checkpoints_module.load(run.checkpoints()[-1]).header["shown"])
    assert shown[0] == shown[1]
    assert [example["id"] for example, _ in shown[0]] == [
        f"online-max-margin-{n:02d}" for n in range(5, 13)
    ]


def test_predictions_hold_what_they_promise(job: Callable[..., Job], citations) -> None:
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
