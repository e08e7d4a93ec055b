"""Runs that share a topic: each record is learned by one of them, whoever comes, goes, dies or sleeps."""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from conftest import Job, wait

from onlinesrl.learn.online import OnlineLearner
from onlinesrl.stream import kafka_sink, shared_source
from onlinesrl.stream.shared_source import SharedSource
from tests.kafka.broker import Cluster, until

PARTITIONS = 4
RECORDS = 40
"""In each partition."""
SLOW = 0.02
"""Seconds that a member takes for an example, so that there is time to disturb it."""


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


def quick(slow: float = SLOW, **constants: Any) -> Callable[[], None]:
    """Return what makes a process slow to learn, and quick to be missed."""
    constants = {"SESSION_MS": 1500, "HEARTBEAT_MS": 200, "BREATH_SECONDS": 0.2, **constants}

    def first() -> None:
        for name, value in constants.items():
            setattr(shared_source, name, value)
        kafka_sink.TRANSACTION_MS = 2000
        step = OnlineLearner.step

        def slowly(learner: OnlineLearner, examples: Any, **keys: Any) -> Any:
            time.sleep(slow * len(examples))
            return step(learner, examples, **keys)

        OnlineLearner.step = slowly  # type: ignore[method-assign]

    return first


def start(job: Job, *options: str, **patches: Any) -> int:
    return job.start(*(options or ("--until", "end")), first=quick(**patches))


def finish(jobs: Iterable[Job]) -> None:
    """Let each go on to the end of what there is, alone."""
    for job in jobs:
        assert wait(start(job, slow=0.0)) == 0, job.said


def learned(job: Job) -> list[str]:
    """The examples that a run has learned from, when all else that it has kept says the same."""
    names = [line["id"] for line in job.lines("predictions.jsonl")]
    last = job.lines("metrics.jsonl")[-1] if names else {"examples": 0, "updates": 0}
    summary = json.loads((job.output / "summary.json").read_text())
    assert not job.lines("deadletter.jsonl")
    assert last["examples"] == last["updates"] == len(names), (last, len(names))
    assert summary["examples"] == len(names)
    return names


def assert_each_once(jobs: Iterable[Job], ids: set[str]) -> None:
    names = Counter(name for job in jobs for name in learned(job))
    assert {name: n for name, n in names.items() if n > 1} == {}
    assert ids - names.keys() == set()


def test_members_join_and_leave_in_order(member: Callable[..., Job], ids: set[str]) -> None:
    jobs = [member(name) for name in ("first", "second")]
    first = start(jobs[0])
    until(lambda: len(learning(jobs[0])) > 5)
    second = start(jobs[1])
    until(lambda: len(learning(jobs[1])) > 5)
    os.kill(first, signal.SIGTERM)
    assert wait(first) == 0, jobs[0].said
    assert wait(second) == 0, jobs[1].said
    assert all(map(learned, jobs))
    assert_each_once(jobs, ids)


def learning(job: Job) -> list[bytes]:
    """The predictions that are in the file, of which some may go again."""
    file = job.output / "predictions.jsonl"
    return file.read_bytes().splitlines() if file.exists() else []
