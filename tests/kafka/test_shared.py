"""Runs that share a topic: each record is learned by one of them, whoever comes, goes, dies or sleeps."""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Job, long, soaked, wait

from onlinesrl.core.errors import DataError, UnavailableError
from onlinesrl.mln.learner import OnlineLearner
from onlinesrl.stream.file_sink import FileSink
from onlinesrl.stream.files import Record
from onlinesrl.stream.kafka import shared as shared_source
from onlinesrl.stream.kafka import sink as kafka_sink
from onlinesrl.stream.kafka.broker import Broker, ConsumerOptions
from onlinesrl.stream.kafka.shared import SharedSource
from onlinesrl.stream.protocols import Rebalanced
from tests.kafka.broker import Cluster
from tests.kafka.streams import add_partitions
from tests.waiting import until

PARTITIONS = 4
RECORDS = 20
"""In each partition."""
SEEDS = pytest.mark.parametrize(("seed", "kills"), [(0, 2), *(soaked(n, 5) for n in range(8))])
SLOW = 0.02
"""Seconds that a member takes for an example, so that there is time to disturb it."""
SLOWER = 0.25
"""And while another has to join: there is work left for it."""


@pytest.fixture
def ids(broker: Cluster, topic: str, citations: list[bytes]) -> set[str]:
    """The names of the examples that the topic has."""
    broker.create_topic(topic, PARTITIONS)
    records, names = [], set()
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            example = json.loads(citations[partition * RECORDS + number])
            example["id"] = f"{partition}-{number}"
            names.add(example["id"])
            records.append((None, json.dumps(example).encode(), partition))
    broker.produce(topic, records)
    return names


@pytest.fixture
def member(job: Callable[..., Job], broker: Cluster, topic: str) -> Callable[..., Job]:
    """Makes members of one group: `member("name", **keys)`."""

    def make(name: str, **keys: Any) -> Job:
        source = {"bootstrap": broker.bootstrap, "topic": topic, "group": f"group of {topic}"}
        source |= {"kind": "kafka", "shared": True}
        values = {"source": source, "checkpoint": {"every": 5, "keep": 2}, "batch": 4, **keys}
        return job([], name, **values)

    return make


def quick(
    slow: Callable[[int], float], first: Callable[[], object] = lambda: None, **constants: Any
) -> Callable[[], None]:
    """Return what makes a process slow to learn, by the number of the example, and quick to be missed."""
    constants = {
        "SESSION_MS": 1500,
        "HEARTBEAT_MS": 200,
        "BREATH_SECONDS": 0.2,
        "JOIN_SECONDS": 4.0,
        **constants,
    }

    def patch() -> None:
        for name, value in constants.items():
            setattr(shared_source, name, value)
        kafka_sink.TRANSACTION_MS = 1000
        step = OnlineLearner.step

        def slowly(learner: OnlineLearner, examples: Any, **keys: Any) -> Any:
            time.sleep(sum(slow(learner.weights.updates + n) for n in range(len(examples))))
            return step(learner, examples, **keys)

        OnlineLearner.step = slowly  # type: ignore[method-assign]
        first()

    return patch


def start(job: Job, slow: Callable[[int], float] = lambda n: SLOW, **patches: Any) -> int:
    return job.start("--until", "end", first=quick(slow, **patches))


def finish(jobs: Iterable[Job]) -> None:
    """Let each go on to the end of what there is, alone."""
    for job in jobs:
        assert wait(start(job, slow=lambda n: 0.0)) == 0, job.said


THIRD = "checkpoint-000000000003.ckpt"
"""The one after ten examples."""


def signal_at(owner: Any, name: str, checkpoint: Path, number: int, after: bool = False) -> None:
    """Have this process send itself a signal before or after a call of a function.

    It is the first one for which the checkpoint is there.
    """
    function, due = getattr(owner, name), True

    def wrapped(*arguments: Any) -> Any:
        nonlocal due
        now, due = due and checkpoint.exists(), due and not checkpoint.exists()
        if now and not after:
            os.kill(os.getpid(), number)
        result = function(*arguments)
        if now and after:
            os.kill(os.getpid(), number)
        return result

    setattr(owner, name, wrapped)


def summary(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((job.output / "summary.json").read_text())
    return found


def predicted(job: Job) -> list[str]:
    """The examples that are in a run's predictions; while it runs, some of them may go again."""
    file = job.output / "predictions.jsonl"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [json.loads(line)["id"] for line in lines]


def assert_each_once(jobs: Sequence[Job], ids: set[str], names: Sequence[str] = ()) -> None:
    """Each example stands in one run's predictions, or in ``names``, and in one run's weights."""
    for job in jobs:
        found = summary(job)
        assert not job.lines("deadletter.jsonl")
        assert found["examples"] == found["updates"]
        assert names or found["examples"] == len(predicted(job))
    tally = Counter(names or [name for job in jobs for name in predicted(job)])
    assert {name: n for name, n in tally.items() if n > 1} == {}
    assert ids - tally.keys() == set()
    assert sum(summary(job)["examples"] for job in jobs) == len(ids)


def test_members_join_and_leave_in_order(
    member: Callable[..., Job], ids: set[str], tmp_path: Path
) -> None:
    jobs, left = [member(name) for name in ("first", "second")], tmp_path / "left"
    first = start(jobs[0], slow=lambda n: SLOWER)
    until(lambda: len(predicted(jobs[0])) > 5)
    second = start(jobs[1], slow=lambda n: SLOW if n < 8 or left.exists() else 4 * SLOWER)
    until(lambda: len(predicted(jobs[1])) > 5)
    os.kill(first, signal.SIGTERM)
    assert wait(first) == 0, jobs[0].said
    left.touch()
    assert wait(second) == 0, jobs[1].said
    assert all(map(predicted, jobs))
    assert_each_once(jobs, ids)


def disturbed(jobs: Sequence[Job], rng: random.Random, kills: int) -> None:
    """Run members together, of which any is killed at any moment, and started again or not."""

    def slow(n: int) -> float:
        return 2 * SLOW

    running = {job: start(job, slow) for job in jobs}
    for _ in range(kills):
        time.sleep(rng.uniform(0.05, 1.5))
        victim = rng.choice(jobs)
        if victim in running:
            os.kill(running[victim], signal.SIGKILL)
            assert wait(running.pop(victim)) in (0, -signal.SIGKILL), victim.said
        if victim not in running and rng.random() < 0.7:
            running[victim] = start(victim, slow)
    for job, process in running.items():
        assert wait(process) == 0, job.said
    finish(jobs)


@pytest.mark.long
@SEEDS
def test_kills_lose_nothing_and_repeat_nothing(
    member: Callable[..., Job], ids: set[str], tally: Counter[str], seed: int, kills: int
) -> None:
    jobs = [member("first"), member("second")]
    disturbed(jobs, random.Random(seed), kills)
    tally["kills of members"] += kills
    assert_each_once(jobs, ids)


@pytest.mark.parametrize(
    ("number", "after"),
    [
        (signal.SIGKILL, True),
        long(signal.SIGSTOP, False),
        soaked(signal.SIGKILL, False),
        soaked(signal.SIGSTOP, True),
    ],
)
def test_a_checkpoint_counts_when_the_group_has_taken_it(
    member: Callable[..., Job], ids: set[str], tally: Counter[str], number: int, after: bool
) -> None:
    """Killed, or asleep for longer than the group waits, right before or after a commit."""
    jobs = [member("first"), member("second")]
    third = jobs[0].output / "checkpoints" / THIRD
    ends = start(jobs[0], first=lambda: signal_at(SharedSource, "_commit", third, number, after))
    until(lambda: len(predicted(jobs[0])) >= 10)
    other = start(jobs[1])
    assert wait(other) == 0, jobs[1].said
    if number == signal.SIGSTOP:
        os.kill(ends, signal.SIGCONT)
        assert wait(ends) == 0, jobs[0].said
        assert ("has not accepted checkpoint 3" in jobs[0].said) != after
    else:
        assert wait(ends) == -signal.SIGKILL
        finish(jobs[:1])
    assert len(predicted(jobs[0])) == (10 if after else 5)
    tally["kills of members" if number == signal.SIGKILL else "members asleep"] += 1
    assert_each_once(jobs, ids)


@pytest.mark.long
def test_a_member_that_was_asleep_goes_on_from_what_the_group_has(
    member: Callable[..., Job], ids: set[str], tally: Counter[str]
) -> None:
    jobs = [member("first"), member("second")]
    processes = [
        start(job, slow=lambda n: SLOW if all(map(predicted, jobs)) else SLOWER) for job in jobs
    ]
    for job in jobs:
        until(lambda job=job: len(predicted(job)) > 0)
    os.kill(processes[0], signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(processes[0], signal.SIGCONT)
    for job, process in zip(jobs, processes, strict=True):
        assert wait(process) == 0, job.said
    tally["members asleep"] += 1
    assert_each_once(jobs, ids)


def test_long_inference_keeps_the_partitions(member: Callable[..., Job], ids: set[str]) -> None:
    """The group rebalances when a member comes or goes, and not because one works for long.

    Only the time between polls is short: heartbeats may be late on a busy machine.
    """
    jobs = [member("first", batch=1), member("second", batch=1)]
    most: dict[str, Any] = {"MOST_POLL_MS": 5000, "SESSION_MS": 30_000, "JOIN_SECONDS": 10.0}
    processes = [start(job, slow=lambda n: 7.0 if n == 20 else 0.01, **most) for job in jobs]
    for job, process in zip(jobs, processes, strict=True):
        assert wait(process) == 0, job.said
        assert job.said.count("rebalances its partitions") <= 3, job.said
    assert_each_once(jobs, ids)


class Sinking(NamedTuple):
    """Two members that write to a topic, and what must be in it."""

    jobs: list[Job]
    broker: Cluster
    output: str
    ids: set[str]

    def assert_each_once(self) -> None:
        records = self.broker.read_all(self.output)
        names = [json.loads(record.value)["id"] for record in records]
        assert_each_once(self.jobs, self.ids, names)


@pytest.fixture
def sinking(member: Callable[..., Job], broker: Cluster, topic: str, ids: set[str]) -> Sinking:
    output = f"{topic}-out"
    broker.create_topic(output, 2)
    sink = {"kind": "kafka", "topic": output}
    return Sinking([member(name, sink=sink) for name in ("first", "second")], broker, output, ids)


@SEEDS
def test_predictions_are_sent_once_over_all_members(
    sinking: Sinking, tally: Counter[str], seed: int, kills: int
) -> None:
    disturbed(sinking.jobs, random.Random(seed), kills)
    tally["kills of members"] += kills
    sinking.assert_each_once()


WITHIN, WHOLE = (kafka_sink, "_limited"), (kafka_sink.KafkaSink, "_transact")


@pytest.mark.parametrize(
    ("moment", "number", "after"),
    [
        soaked(WHOLE, signal.SIGSTOP, False, name="asleep before it"),
        soaked(WITHIN, signal.SIGSTOP, False, name="asleep in it"),
        pytest.param(WITHIN, signal.SIGKILL, False, id="killed in it"),
        soaked(WHOLE, signal.SIGKILL, True, name="killed after it"),
    ],
)
def test_predictions_count_with_their_checkpoint(
    sinking: Sinking, tally: Counter[str], moment: tuple[Any, str], number: int, after: bool
) -> None:
    """Killed or asleep around a transaction, or in it: after the offsets and before its end."""
    jobs = sinking.jobs
    third = jobs[0].output / "checkpoints" / THIRD
    ends = start(jobs[0], first=lambda: signal_at(*moment, third, number, after))
    until(third.exists)
    other = start(jobs[1], slow=lambda n: 0.0)
    assert wait(other) == 0, jobs[1].said
    if number == signal.SIGSTOP:
        os.kill(ends, signal.SIGCONT)
        assert wait(ends) in (0, 75), jobs[0].said
    else:
        assert wait(ends) == -signal.SIGKILL
    finish(jobs[:1])
    tally["kills of members" if number == signal.SIGKILL else "members asleep"] += 1
    assert summary(jobs[0])["examples"] == (10 if after else 5)
    sinking.assert_each_once()


@pytest.fixture
def source(broker: Cluster, topic: str, ids: set[str]) -> Iterator[Callable[..., SharedSource]]:
    """Makes sources of this process, in one group unless another is named."""
    made = []

    def make(group: str = topic, **keys: Any) -> SharedSource:
        options = ConsumerOptions([topic], group, **keys)
        made.append(SharedSource(Broker(broker.bootstrap), options, warnings.append))
        return made[-1]

    warnings: list[str] = []
    yield make
    for each in made:
        each.close()


def opened(source: SharedSource) -> dict[str, Any]:
    """Where a source begins, once it is known to have partitions."""
    while not (position := source.open(None))["offsets"]:
        with suppress(Rebalanced):
            next(source.read())
    return position


def test_lag_is_of_the_partitions_that_the_member_has(source, topic):
    one = source(to_end=True)
    assert one.lag() == {}
    position = opened(one)
    everything = {f"{topic}[{n}]": RECORDS for n in range(PARTITIONS)}
    assert one.lag() == everything
    records: list[Record] = []
    while len(records) < PARTITIONS * RECORDS:
        try:
            records += [record for record in one.read() if record is not None]
        except Rebalanced:  # the group divides anew when it likes
            records, position = [], opened(one)
    assert one.lag() == dict.fromkeys(everything, 0)
    one.acknowledge(one.after(position, records), 1, FileSink())
    one.close()
    again = source(to_end=True)
    assert opened(again)["offsets"] == everything
    assert again.lag() == dict.fromkeys(everything, 0)


def test_the_group_says_from_which_checkpoint_a_run_goes_on(source, topic):
    one = source()
    position = opened(one)
    assert not one.accepts(position, 1)
    one.acknowledge(position, 1, FileSink())
    assert one.accepts(position, 1)
    assert not one.accepts(position, 2)
    one.acknowledge(position, 2, FileSink())
    later = one.after(position, [])
    assert one.accepts(later, 2)
    assert one.accepts(later | {"offsets": {}}, 3)
    with pytest.raises(
        DataError, match=r"accepted checkpoint 2 of this run, and the newest .* is 1"
    ):
        one.accepts(position, 1)
    one.acknowledge(later, 3, FileSink())
    later = one.after(later, [])
    with pytest.raises(DataError, match="no longer knows checkpoint 3"):
        source("another").accepts(later, 3)
    assert not one.accepts(later | {"run": "another", "taken": 0}, 1)


def test_a_partition_that_is_new_to_a_group_is_read_from_its_beginning(broker, source, topic):
    """The group began at the ends; a partition came while nobody of it was there."""
    one = source(from_end=True)
    position = opened(one)
    assert set(position["offsets"].values()) == {RECORDS}
    one.acknowledge(position, 1, FileSink())
    one.close()
    add_partitions(broker, topic, PARTITIONS + 1)
    broker.produce(topic, [(None, b"x", PARTITIONS)] * 5)
    again = source(from_end=True)
    position = opened(again)
    assert position["offsets"] == {
        **{f"{topic}[{n}]": RECORDS for n in range(PARTITIONS)},
        f"{topic}[{PARTITIONS}]": 0,
    }
    again.acknowledge(position, 1, FileSink())
    again.close()
    assert opened(source(from_end=True)) | {"run": ""} == position | {"run": ""}


def test_a_partition_that_was_there_when_the_group_began_is_read_from_its_end(source, topic):
    """Another member has committed its own partitions, and not yet this one's."""
    one = source(from_end=True)
    position = opened(one)
    del position["offsets"][f"{topic}[1]"]
    one.acknowledge(position, 1, FileSink())
    one.close()
    assert set(opened(source(from_end=True))["offsets"].values()) == {RECORDS}


def test_members_learn_from_partitions_that_come_while_they_run(
    member, broker, topic, ids, citations
):
    jobs = [member("first"), member("second")]
    quickly = quick(lambda n: 0.0, LOOK_SECONDS=0.5)
    processes = [job.start(first=quickly) for job in jobs]
    until(lambda: sum(len(predicted(job)) for job in jobs) == len(ids))
    add_partitions(broker, topic, PARTITIONS + 2)
    new = [json.loads(line) | {"id": f"new-{n}"} for n, line in enumerate(citations[:40])]
    broker.produce(
        topic, [(None, json.dumps(e).encode(), PARTITIONS + n % 2) for n, e in enumerate(new)]
    )
    until(lambda: sum(len(predicted(job)) for job in jobs) == len(ids) + 40)
    for job, process in zip(jobs, processes, strict=True):
        os.kill(process, signal.SIGTERM)
        assert wait(process) == 0, job.said
    assert_each_once(jobs, ids | {example["id"] for example in new})


def test_what_is_not_taken_for_too_long_ends_the_run(source: Callable[..., SharedSource]) -> None:
    one = source(patience=0.0)
    one.options = replace(one.options, patience=30.0)
    position = one.open(None)

    class Refusing(FileSink):
        def commit(self, offsets: object, member: object) -> bool:
            raise UnavailableError("no")

    with pytest.raises(Rebalanced):
        one.acknowledge(position, 1, Refusing())
    position = one.open(None)
    one.options = replace(one.options, patience=0.0)
    with pytest.raises(UnavailableError, match="has not accepted checkpoint 1: no"):
        one.acknowledge(position, 1, Refusing())


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"checkpoint": {"keep": 1}}, "checkpoint.keep: expected at least 2"),
        ({"labels": {"topic": "truth"}}, "labels: a shared source has none"),
    ],
)
def test_what_a_shared_source_cannot_have(job, keys, reason):
    source = {"kind": "kafka", "bootstrap": "b:1", "topic": "t", "group": "g", "shared": True}
    wrong = job([], source=source, **keys)
    assert wrong.run() == 78
    assert reason in wrong.said
