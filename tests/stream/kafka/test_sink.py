"""Predictions on a topic: each once, whatever becomes of the topic, its partitions and the brokers."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable

import pytest
from conftest import Job, soaked, wait

from tests.support.kafka_broker import Cluster
from tests.support.kafka_streams import (
    UNTIL_END,
    add,
    fill,
    from_file,
    ids,
    keys,
    learned,
    predicted,
    short_answers,
)
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")

DATA = 65


def test_records_say_where_they_come_from(broker, topic, job, citations):
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


def test_a_topic_created_anew_is_noticed(broker, topic, job, citations, tally):
    fill(broker, topic, citations[:20])
    run = job([], **keys(broker, topic))
    assert run.run("--until", "10") == 0, run.said
    broker.delete_topic(f"{topic}-out")
    fill(broker, f"{topic}-out", citations[:40])
    assert run.run(*UNTIL_END) == DATA
    assert f"the topic {topic}-out is not the one written to before" in run.said
    tally["topics created anew"] += 1


def test_a_topic_created_anew_is_noticed_by_a_run(broker, topic, job, citations, tally):
    fill(broker, topic, citations[:20])
    run = job([], **keys(broker, topic))
    process = run.start()
    until(lambda: len(broker.read_all(f"{topic}-out")) == 20)
    broker.delete_topic(f"{topic}-out")
    broker.create_topic(f"{topic}-out")
    add(broker, topic, citations[20:40])
    assert wait(process) == DATA, run.said
    assert f"the topic {topic}-out is not the one written to before" in run.said
    assert predicted(broker, f"{topic}-out") == []
    tally["topics created anew"] += 1


def test_a_prediction_that_the_topic_does_not_take(broker, topic, job, citations):
    """It is a dead letter; a batch that is too large is divided."""
    fill(broker, topic, citations[:20])
    values = keys(broker, topic, "small")
    values["sink"]["topic"] = f"{topic}-small"
    broker.create_topic(f"{topic}-small", config={"max.message.bytes": "1000"})
    run = job([], **values)
    assert run.run(*UNTIL_END) == DATA
    assert "more than limits.bad_share" in run.said
    there = ids(predicted(broker, f"{topic}-small"))
    dead = run.lines("deadletter.jsonl")
    assert [letter["id"] for letter in dead] and "max.message.bytes of the topic (1000)" in dead[0][
        "reason"
    ]
    assert sorted([*there, *(letter["id"] for letter in dead)]) == sorted(
        json.loads(line)["id"] for line in citations[:20]
    )
    broker.create_topic(f"{topic}-larger", config={"max.message.bytes": "2000"})
    values["sink"]["topic"] = f"{topic}-larger"
    run = job([], "larger", **values)
    assert run.run(*UNTIL_END) == 0, run.said  # each is taken, and not all of them in one batch
    assert "trying again" not in run.said
    assert len(predicted(broker, f"{topic}-larger")) == 20


def test_an_example_whose_name_is_too_long_is_put_aside(broker, topic, job, citations):
    """It is not learned from, as it could have no prediction; the others are."""
    long = json.dumps({**json.loads(citations[5]), "id": "x" * 1_100_000}).encode()
    broker.create_topic(f"{topic}-long", config={"max.message.bytes": "3000000"})
    with_long = json.dumps({**json.loads(citations[5]), "id": "x" * 400_000}).encode()
    broker.produce(f"{topic}-long", [(None, line, 0) for line in (with_long, long, citations[10])])
    values = keys(broker, topic)
    values["source"]["topic"] = f"{topic}-long"
    run = job([], **values, limits={"bad_share": 1.0})
    assert run.run(*UNTIL_END, "--set", "sink.max_bytes=950000") == 0, run.said
    [dead] = run.lines("deadletter.jsonl")
    assert "more than sink.max_bytes (950000) allows" in dead["reason"]
    assert dead["line"] == 1
    assert len(predicted(broker, f"{topic}-out")) == 2
    file = job([with_long + b"\n", citations[10]], "file")
    assert file.run() == 0, file.said
    assert learned(run)[0] == learned(file)[0]


# a run that goes on sees other records than before -----------------------------------------------


def killed(run: Job, broker: Cluster, out: str, predictions: int) -> None:
    """Let a run make so many predictions, and kill it before it has a checkpoint of any."""
    process = run.start("--set", "checkpoint.every=1000")
    until(lambda: len(broker.read_all(out)) == predictions)
    os.kill(process, signal.SIGKILL)
    assert wait(process) == -signal.SIGKILL


def each_once(broker: Cluster, out: str, lines: Iterable[bytes]) -> None:
    """Every line has one prediction, and no number is given to two of them."""
    records = broker.read_all(out)
    assert sorted(json.loads(record.value)["id"] for record in records) == sorted(
        json.loads(line)["id"] for line in lines
    )
    numbers = [dict(record.headers)["sequence"] for record in records]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("gaps", ["stop", soaked("skip")])
def test_records_that_are_gone_take_no_other_prediction_with_them(
    broker, topic, job, citations, tally, gaps
):
    fill(broker, topic, citations[:60])
    run = job([], **keys(broker, topic, gaps=gaps))
    killed(run, broker, f"{topic}-out", 60)
    broker.delete_records(topic, 0, 25)
    add(broker, topic, citations[60:80])
    if gaps == "stop":
        assert run.run(*UNTIL_END) == DATA, run.said
    assert run.run(*UNTIL_END, "--set", "source.gaps=skip") == 0, run.said
    each_once(broker, f"{topic}-out", citations[:80])
    tally["gaps"] += 1
    tally["kills"] += 1


@pytest.mark.long
def test_keys_that_were_written_anew_and_compacted(broker, topic, job, citations, tally):
    compacting = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001"}
    compacting |= {"segment.ms": "100", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "1"}
    broker.create_topic(topic, config=compacting)

    def write(lines):
        broker.produce(topic, [(str(n).encode(), line.rstrip(), 0) for n, line in enumerate(lines)])

    write(citations[:60])
    run = job([], **keys(broker, topic))
    killed(run, broker, f"{topic}-out", 60)
    write(citations[60:90])

    def compacted():
        time.sleep(0.2)
        broker.produce(topic, [(b"last", citations[90].rstrip(), 0)])  # so that segments roll
        return (
            len({r.key for r in broker.read_all(topic)}) == 61 and len(broker.read_all(topic)) < 80
        )

    until(compacted)
    assert run.run(*UNTIL_END) == 0, run.said
    names = Counter(json.loads(r.value)["id"] for r in broker.read_all(f"{topic}-out"))
    last = json.loads(citations[90])["id"]
    assert {json.loads(line)["id"] for line in citations[:91]} == names.keys()
    assert {name for name, n in names.items() if n > 1} <= {last}
    tally["kills"] += 1


@pytest.mark.long
def test_another_order_of_arrival(broker, topic, job, citations, tally):
    broker.create_topic(topic, 4)
    run = job([], **keys(broker, topic, order="arrival"))
    broker.produce(
        topic, [(None, line.rstrip(), 2 + n % 2) for n, line in enumerate(citations[:30])]
    )
    process = run.start("--set", "checkpoint.every=1000")
    until(lambda: len(broker.read_all(f"{topic}-out")) == 30)
    broker.produce(topic, [(None, line.rstrip(), n % 2) for n, line in enumerate(citations[30:60])])
    until(lambda: len(broker.read_all(f"{topic}-out")) == 60)
    os.kill(process, signal.SIGKILL)
    assert wait(process) == -signal.SIGKILL
    add(broker, topic, citations[60:90], 4)
    assert run.run("--until", "45", "--set", "checkpoint.every=4") == 0, run.said
    assert run.run(*UNTIL_END) == 0, run.said
    each_once(broker, f"{topic}-out", citations[:90])
    tally["kills"] += 1


@pytest.mark.long
def test_a_broker_that_dies_before_a_commit(own_broker, topic, job, citations, tally):
    """The commit may never return; what it did is looked up when the broker is back."""
    fill(own_broker, topic, citations[:40])
    run = job([], **keys(own_broker, topic))
    ready, go = run.folder / "ready", run.folder / "go"

    def first():
        from kafka import KafkaProducer

        short_answers(2000)
        real, calls = KafkaProducer.commit_transaction, 0

        def commit(self):
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


def test_predictions_on_a_partition_that_is_new_are_not_written_again(
    broker, topic, job, citations, tally
):
    """The partition is added after a checkpoint; the process dies between commit and checkpoint."""
    fill(broker, topic, citations[:60])
    run = job([], **keys(broker, topic))
    assert run.run("--until", "20") == 0, run.said
    with broker.admin() as admin:
        admin.create_partitions({f"{topic}-out": 4})
    until(lambda: len(broker.end_offsets(f"{topic}-out")) == 4)

    def first():
        from onlinesrl.stream import checkpoints as checkpoints_module
        from onlinesrl.stream.kafka import sink as kafka_sink

        real = kafka_sink.KafkaSink.open

        def open_(self, state, predictions):
            real(self, {**state, "ends": {"0": state["ends"]["0"]}}, predictions)

        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        kafka_sink.KafkaSink.open = open_  # type: ignore[method-assign]
        checkpoints_module.save = die  # type: ignore[assignment]

    rarely = ("--set", "checkpoint.every=50")
    assert run.run(*UNTIL_END, *rarely, first=first) == -signal.SIGKILL, run.said
    assert sum(list(broker.end_offsets(f"{topic}-out").values())[1:]) > 0
    assert run.run(*UNTIL_END) == 0, run.said
    records = broker.read_all(f"{topic}-out")
    sequence = sorted(int(dict(record.headers)["sequence"]) for record in records)
    assert sequence == list(range(1, 61))
    tally["kills"] += 1


def test_a_gap_ends_a_run_with_a_checkpoint(broker, topic, job, citations, tally):
    """What was learned before it is kept."""
    fill(broker, topic, citations[:30])
    run = job([], **{**keys(broker, topic), "checkpoint": {"every": 1000}})

    def first():
        from onlinesrl.stream.kafka import source as kafka_source

        kafka_source.MOST_RECORDS = 15
        deleted: list[bool] = []
        real = kafka_source.KafkaSource._poll

        def poll(self):
            if self.offsets[f"{topic}[0]"] == 15 and not deleted:
                deleted.append(True)
                broker.delete_records(topic, 0, 20)
                self._connect()  # what was fetched ahead is fetched again
                self._seek()
                while not (polled := real(self)):
                    pass
                return polled
            return real(self)

        kafka_source.KafkaSource._poll = poll  # type: ignore[method-assign]

    assert run.run(*UNTIL_END, first=first) == DATA, run.said
    from onlinesrl.stream import checkpoints as checkpoints_module

    saved = checkpoints_module.load(run.checkpoints()[-1])
    assert saved.header["metrics"]["examples"] == 15
    assert len(predicted(broker, f"{topic}-out")) == 15
    tally["gaps"] += 1
