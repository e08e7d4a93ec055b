"""A file that is sent to a topic: what arrives there, and what is said when it cannot."""

import json

import pytest
from conftest import wait

from onlinesrl.stream.dead_letters import DeadLetters
from onlinesrl.stream.records import Record
from tests.support.kafka_streams import in_a_fork
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")


def test_a_topic_gets_every_example_under_its_id(job, citations, broker, topic):
    broker.create_topic(topic, partitions=3)
    run = job([*citations[:100], b"{\n"])
    target = ["--to", "kafka", "--topic", topic, "--bootstrap", broker.bootstrap]
    assert run.call("replay", run.source, *target, first=in_a_fork) == 0, run.said
    assert run.said.startswith("101 sent in ")
    found = broker.read_all(topic)
    by_id = {json.loads(line)["id"].encode(): line.rstrip(b"\n") for line in citations[:100]}
    assert {record.key: record.value for record in found} == {**by_id, None: b"{"}
    assert {record.partition for record in found} == {0, 1, 2}
    order = [json.loads(line)["id"].encode() for line in citations[:100]]
    for partition in range(3):
        keys = [r.key for r in found if r.partition == partition and r.key]
        assert keys == sorted(keys, key=order.index)
    assert run.call("replay", run.source, *target, "--partition", 2, first=in_a_fork) == 0
    assert broker.end_offsets(topic)[2] == len([r for r in found if r.partition == 2]) + 101
    assert run.call("replay", run.source, *target, "--partition", 3, first=in_a_fork) == 64
    assert "has no partition 3, only [0, 1, 2]" in run.said


def test_dead_letters_go_to_a_topic(job, broker, topic, tmp_path):
    broker.create_topic(topic)
    values = [b"{\n \xff}", b"", b'{"id": "c"}']
    with DeadLetters(tmp_path / "deadletter.jsonl") as dead:
        for value in values:
            dead.append(Record(value, "a", 1, 0, 0), "bad", "c" if value[1:] else None)
    run = job([])
    target = ["--to", "kafka", "--topic", topic, "--bootstrap", broker.bootstrap]
    assert run.call("dlq", "replay", tmp_path, *target, first=in_a_fork) == 0, run.said
    assert [(r.key, r.value) for r in broker.read_all(topic)] == [
        (b"c", values[0]),
        (None, b""),
        (b"c", values[2]),
    ]


def test_a_record_too_large_for_the_topic_is_named(job, citations, broker, topic):
    broker.create_topic(topic, config={"max.message.bytes": "100000"})
    run = job([citations[0], b"[" + bytes(300_000).replace(b"\0", b"1") + b"]\n", citations[1]])
    target = ["--to", "kafka", "--topic", topic, "--bootstrap", broker.bootstrap]
    assert run.call("replay", run.source, *target, first=in_a_fork) == 65
    assert f"{run.source}:2: too large for {broker.bootstrap}: topic {topic}" in run.said
    assert run.said.startswith("1 sent in ")


def test_no_such_topic_is_69(job, broker, topic, monkeypatch):
    monkeypatch.setattr("onlinesrl.runs.replay.BROKER_SECONDS", 1)
    run = job([b"{}\n"])
    target = ["--to", "kafka", "--topic", topic, "--bootstrap", broker.bootstrap]
    assert run.call("replay", run.source, *target, first=in_a_fork) == 69
    assert run.said.startswith(f"{broker.bootstrap}: topic {topic} cannot be found: ")


def test_no_broker_is_69(job, monkeypatch):
    monkeypatch.setattr("onlinesrl.runs.replay.BROKER_SECONDS", 1)
    run = job([b"{}\n"])
    send = ["replay", run.source, "--to", "kafka"]
    assert run.call(*send, "--topic", "t", "--bootstrap", "127.0.0.1:1", first=in_a_fork) == 69
    assert run.said.startswith("127.0.0.1:1: ")
    assert "Traceback" not in run.said
    assert run.call(*send, "--topic", "t", "--bootstrap", "a:b", first=in_a_fork) == 64
    assert run.call(*send, first=in_a_fork) == 64


def test_a_broker_that_goes_away_is_69_and_what_arrived_is_told(
    job, citations, own_broker, topic, monkeypatch
):
    monkeypatch.setattr("onlinesrl.runs.replay.BROKER_SECONDS", 2)
    monkeypatch.setattr("onlinesrl.runs.replay.DELIVERY_SECONDS", 6)
    own_broker.create_topic(topic)
    run = job(citations[:100])
    target = ["--to", "kafka", "--topic", topic, "--bootstrap", own_broker.bootstrap]
    process = run.fork("replay", str(run.source), *target, "--rate", "20")
    until(lambda: own_broker.end_offsets(topic)[0] >= 5)
    own_broker.pause()
    assert wait(process) == 69
    assert "Kafka: " in run.said
    own_broker.resume()
    arrived = int(run.said.split(" sent in ")[0])
    assert 1 <= arrived <= own_broker.end_offsets(topic)[0] < 100
