"""What the tests of streams share: topics full of examples, runs over them, and what came out."""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conftest import Job

from tests.support.kafka_broker import Cluster
from tests.support.waiting import until

UNTIL_END = ("--until", "end")


def fill(broker: Cluster, topic: str, lines: Iterable[bytes | None], partitions: int = 1) -> None:
    """Make a topic, and write the lines to its partitions in turn; None: a tombstone."""
    broker.create_topic(topic, partitions=partitions)
    add(broker, topic, lines, partitions)


def add(broker: Cluster, topic: str, lines: Iterable[bytes | None], partitions: int = 1) -> None:
    values = (None if line is None else line.rstrip(b"\n") for line in lines)
    broker.produce(
        topic, [(b"key", value, number % partitions) for number, value in enumerate(values)]
    )


def add_partitions(broker: Cluster, topic: str, count: int) -> None:
    with broker.admin() as admin:
        admin.create_partitions({topic: count})
        until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == count)
    until(lambda: len(broker.end_offsets(topic)) == count)


def source(broker: Cluster, topic: str, **keys: Any) -> dict[str, Any]:
    return {"kind": "kafka", "bootstrap": broker.bootstrap, "topic": topic, **keys}


def keys(broker: Cluster, topic: str, out: str | None = None, **more: Any) -> dict[str, Any]:
    """The keys of a run from a topic; predictions go to another, which is made."""
    out = f"{out or topic}-out"
    broker.create_topic(out)
    return {
        "source": source(broker, topic, **more),
        "sink": {"kind": "kafka", "topic": out},
        "checkpoint": {"every": 7},
    }


def learned(job: Job) -> tuple[bytes, bytes]:
    """What must not depend on where examples come from, nor on how often a run was stopped."""
    return (job.output / "weights.mln").read_bytes(), (job.output / "metrics.jsonl").read_bytes()


def predicted(broker: Cluster, topic: str) -> list[bytes]:
    """The predictions of the one run that wrote to a topic: each once, in order, without a gap."""
    records = broker.read_all(topic)
    runs = {dict(record.headers)["run"] for record in records}
    assert len(runs) <= 1
    sequence = [int(dict(record.headers)["sequence"]) for record in records]
    assert sequence == list(range(1, len(records) + 1))
    return [record.value for record in records]


def from_file(job: Job) -> list[bytes]:
    """The predictions of a run from a file, without the lines of bad examples."""
    lines = (job.output / "predictions.jsonl").read_bytes().splitlines()
    return [line for line in lines if "predicted" in json.loads(line)]


def ids(values: Sequence[bytes]) -> list[Any]:
    return [json.loads(value)["id"] for value in values]


def in_a_fork() -> None:
    """Have a run in a fork: a client of Kafka that is refused leaves its sockets to the collector."""


def fast_looks(seconds: float = 0.3) -> None:
    """Look after the brokers often; called in a fork."""
    from onlinesrl.stream.kafka import source as kafka_source

    kafka_source.LOOK_SECONDS = seconds


def later(mark: Path, seconds: float) -> None:
    """Let the clock of a run's patience go so many times as fast once a file is there; called in a fork.

    One that jumped would do nothing for a wait that begins after the jump.
    """
    from onlinesrl.stream.kafka import client
    from onlinesrl.stream.kafka import sink as kafka_sink
    from onlinesrl.stream.kafka import source as kafka_source

    began: list[float] = []

    def now() -> float:
        real = time.monotonic()
        if not began and mark.exists():
            began.append(real)
        return real + seconds * (real - began[0]) if began else real

    for module in (client, kafka_sink, kafka_source):
        module.time = SimpleNamespace(monotonic=now, sleep=time.sleep)  # type: ignore[attr-defined]


def short_answers(milliseconds: int = 1000) -> None:
    """Count brokers as away soon; called in a fork, before anything is connected."""
    from onlinesrl.stream.kafka import client
    from onlinesrl.stream.kafka import sink as kafka_sink
    from onlinesrl.stream.kafka import source as kafka_source

    for module in (client, kafka_sink, kafka_source):
        module.ANSWER_MS = milliseconds
    fast_looks()
