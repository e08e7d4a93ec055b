"""Predictions on a topic: each once, whatever becomes of the topic, its partitions and the brokers."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

from conftest import Job, wait

from tests.kafka.broker import Broker, Cluster, until
from tests.kafka.streams import (
    UNTIL_END,
    fill,
    from_file,
    ids,
    keys,
    learned,
    predicted,
    short_answers,
)

DATA, UNAVAILABLE = 65, 69


def test_records_say_where_they_come_from(
    broker: Cluster, topic: str, job: Callable[..., Job], citations: list[bytes]
) -> None:
    fill(broker, topic, citations[:10])
    run = job([], **keys(broker, topic))
    assert run.run(*UNTIL_END) == 0, run.said
    for n, record in enumerate(broker.read_all(f"{topic}-out")):
        headers = dict(record.headers)
        assert headers.pop("run")
        assert headers == {
            "partition": f"{topic}[0]".encode(),
            "offset": str(n).encode(),
            "sequence": str(n + 1).encode(),
        }
        assert record.key == json.loads(record.value)["id"].encode()
    assert (run.output / "predictions.jsonl").read_bytes() == b""


def test_predictions_on_a_partition_that_is_new_are_not_written_again(
    broker: Cluster,
    topic: str,
    job: Callable[..., Job],
    citations: list[bytes],
    tally: Counter[str],
) -> None:
    """The partition is added after a checkpoint; the process dies between commit and checkpoint."""
    fill(broker, topic, citations[:60])
    run = job([], **keys(broker, topic))
    assert run.run("--until", "20") == 0, run.said
    with broker._admin() as admin:
        admin.create_partitions({f"{topic}-out": 4})
    until(lambda: len(broker.end_offsets(f"{topic}-out")) == 4)

    def first() -> None:
        from onlinesrl.stream import checkpoint, kafka_sink

        real = kafka_sink.KafkaSink.open

        def open_(self: Any, state: Any) -> None:
            real(self, {**state, "ends": {"0": state["ends"]["0"]}})

        def die(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        kafka_sink.KafkaSink.open = open_  # type: ignore[method-assign]
        checkpoint.save = die  # type: ignore[assignment]

    rarely = ("--set", "checkpoint.every=50")
    assert run.run(*UNTIL_END, *rarely, first=first) == -signal.SIGKILL, run.said
    assert sum(list(broker.end_offsets(f"{topic}-out").values())[1:]) > 0
    assert run.run(*UNTIL_END) == 0, run.said
    records = broker.read_all(f"{topic}-out")
    sequence = sorted(int(dict(record.headers)["sequence"]) for record in records)
    assert sequence == list(range(1, 61))
    tally["kills"] += 1


def test_a_topic_created_anew_is_noticed(
    broker: Cluster,
    topic: str,
    job: Callable[..., Job],
    citations: list[bytes],
    tally: Counter[str],
) -> None:
    fill(broker, topic, citations[:20])
    run = job([], **keys(broker, topic))
    assert run.run("--until", "10") == 0, run.said
    broker.delete_topic(f"{topic}-out")
    fill(broker, f"{topic}-out", citations[:40])
    assert run.run(*UNTIL_END) == DATA
    assert f"the topic {topic}-out is not the one written to before" in run.said
    tally["topics created anew"] += 1


def test_a_prediction_that_the_topic_does_not_take(
    broker: Cluster, topic: str, job: Callable[..., Job], citations: list[bytes]
) -> None:
    """It is said at once; a batch that is too large is divided."""
    fill(broker, topic, citations[:20])
    values = keys(broker, topic, "small")
    values["sink"]["topic"] = f"{topic}-small"
    broker.create_topic(f"{topic}-small", config={"max.message.bytes": "200"})
    run = job([], **values)
    assert run.run(*UNTIL_END) == UNAVAILABLE
    assert f"{topic}-small does not take predictions" in run.said
    assert "Traceback" not in run.said
    broker.create_topic(f"{topic}-larger", config={"max.message.bytes": "2000"})
    values["sink"]["topic"] = f"{topic}-larger"
    run = job([], "larger", **values)
    assert run.run(*UNTIL_END) == 0, run.said  # each is taken, and not all of them in one batch
    assert "trying again" not in run.said
    assert len(predicted(broker, f"{topic}-larger")) == 20


def test_a_broker_that_dies_before_a_commit(
    own_broker: Broker,
    topic: str,
    job: Callable[..., Job],
    citations: list[bytes],
    tally: Counter[str],
) -> None:
    """The commit may never return; what it did is looked up when the broker is back."""
    fill(own_broker, topic, citations[:40])
    run = job([], **keys(own_broker, topic))
    ready, go = run.folder / "ready", run.folder / "go"

    def first() -> None:
        from kafka import KafkaProducer

        short_answers(2000)
        real, calls = KafkaProducer.commit_transaction, 0

        def commit(self: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                ready.touch()
                until(go.exists)
            return real(self)

        KafkaProducer.commit_transaction = commit

    process = run.start(*UNTIL_END, first=first)
    until(ready.exists)
    own_broker.kill()
    go.touch()
    own_broker.start()
    assert wait(process) == 0, run.said
    file = job(citations[:40], "file")
    assert file.run() == 0, file.said
    assert learned(run) == learned(file)
    assert predicted(own_broker, f"{topic}-out") == from_file(file)
    assert ids(from_file(file))
    tally["broker faults"] += 1
