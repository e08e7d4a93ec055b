"""Examples from a topic are learned as from a file; faults of brokers and topics have an end."""

import json
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import pytest
from conftest import Job, soaked, wait
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import LogTruncationError

from onlinesrl.core.errors import DataError
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.kafka.client import Broker, ConsumerOptions
from onlinesrl.stream.kafka.source import KafkaSource
from tests.support.kafka_broker import Cluster, free_ports
from tests.support.kafka_streams import (
    UNTIL_END,
    add,
    add_partitions,
    fast_looks,
    fill,
    from_file,
    ids,
    keys,
    later,
    learned,
    predicted,
    short_answers,
    source,
)
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")

LONG = b'{"id": "long", "evidence": {"Token": [["' + b"x" * 60_000 + b'"]]}}'
BAD = [b"{", b'{"id": 1, "evidence": {"Tokn": []}}', b"\xff\xfe", b"[]", LONG]
DATA, UNAVAILABLE = 65, 69


@pytest.fixture
def mixed(citations):
    lines = citations[:60]
    for n, bad in enumerate(BAD):
        lines.insert(11 * n + 3, bad + b"\n")
    return lines


def saved_examples(job: Job) -> int:
    """How many examples the newest checkpoint has."""
    found = None
    with suppress(Exception):  # it may be removed at this very moment
        found = checkpoints_module.load(job.checkpoints()[-1])
    return found.header["metrics"]["examples"] if found else 0


# as from a file ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernels")
def test_a_topic_is_learned_from_as_a_file_is(broker, topic, job, mixed):
    limits = {"limits": {"bad_share": 1.0}}
    file = job(mixed, "file", source={"path": "source.jsonl", "max_bytes": 50_000}, **limits)
    assert file.run() == 0, file.said
    with_tombstones = [None, *mixed[:9], None, None, *mixed[9:]]
    fill(broker, topic, with_tombstones)
    run = job([], **keys(broker, topic, max_bytes=50_000), **limits)
    assert run.run(*UNTIL_END) == 0, run.said
    assert learned(run)[0] == learned(file)[0]
    assert checkpoints_module.load(run.checkpoints()[-1]).header["behind"] == {f"{topic}[0]": 0}
    lines = run.lines("metrics.jsonl")
    assert lines[-1].pop("tombstones") == 3
    for line in lines:
        line.pop("tombstones", None)
    assert lines == file.lines("metrics.jsonl")
    assert predicted(broker, f"{topic}-out") == from_file(file)
    dead = run.lines("deadletter.jsonl")
    for ours, theirs in zip(dead, file.lines("deadletter.jsonl"), strict=True):
        assert ours.pop("file") == f"{topic}[0]"
        line = ours.pop("line")
        assert with_tombstones[line] == mixed[theirs.pop("line") - 1]
        theirs.pop("file")
        assert ours == theirs


def test_until(broker, topic, job, citations):
    """A number of examples, the end, the end once more, and forever with a signal to stop."""
    fill(broker, topic, citations[:30])
    run = job([], **keys(broker, topic))
    assert run.run("--until", "10") == 0, run.said
    assert len(predicted(broker, f"{topic}-out")) == 10
    assert run.run(*UNTIL_END) == 0, run.said
    assert len(predicted(broker, f"{topic}-out")) == 30
    lines = run.lines("metrics.jsonl")
    assert run.run(*UNTIL_END) == 0, run.said
    assert run.lines("metrics.jsonl") == lines
    process = run.start()
    add(broker, topic, citations[30:60])
    until(lambda: len(broker.read_all(f"{topic}-out")) == 60)
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0, run.said
    file = job(citations[:60], "file")
    assert file.run() == 0, file.said
    assert learned(run)[0] == learned(file)[0]
    assert predicted(broker, f"{topic}-out") == from_file(file)


def test_a_new_run_can_start_at_the_end_and_reads_new_partitions_from_their_beginning(
    broker, topic, job, citations
):
    fill(broker, topic, citations[:30])
    run = job([], **keys(broker, topic, start="end"))
    assert run.run(*UNTIL_END) == 0, run.said
    add(broker, topic, citations[30:40])
    assert run.run(*UNTIL_END) == 0, run.said
    expected = ids(citations[30:50])
    assert ids(predicted(broker, f"{topic}-out")) == expected[:10]
    add_partitions(broker, topic, 3)
    new = [(None, line.rstrip(), 1 + n % 2) for n, line in enumerate(citations[40:50])]
    broker.produce(topic, new)
    assert run.run(*UNTIL_END) == 0, run.said
    assert sorted(ids(predicted(broker, f"{topic}-out"))) == sorted(expected)


def test_new_partitions_during_a_run_are_read_in_an_order_that_is_kept(
    broker, topic, job, citations, tally
):
    """Killed after it has read them, and before any checkpoint, the run takes all in the same order."""
    fill(broker, topic, citations[:20])
    run = job([], **{**keys(broker, topic), "checkpoint": {"every": 1000}})
    process = run.start(first=fast_looks)
    until(lambda: len(broker.read_all(f"{topic}-out")) == 20)
    add_partitions(broker, topic, 3)
    new = [(None, line.rstrip(), 1 + n % 2) for n, line in enumerate(citations[20:40])]
    broker.produce(topic, new)
    until(lambda: len(broker.read_all(f"{topic}-out")) == 40)
    broker.produce(topic, [(None, line.rstrip(), n % 3) for n, line in enumerate(citations[40:60])])
    until(lambda: len(broker.read_all(f"{topic}-out")) == 60)
    os.kill(process, signal.SIGKILL)
    assert wait(process) == -signal.SIGKILL
    assert f"new partitions: {topic}[1], {topic}[2]" in run.said
    written = predicted(broker, f"{topic}-out")
    assert run.run(*UNTIL_END) == 0, run.said
    assert predicted(broker, f"{topic}-out") == written
    order = {json.loads(line)["id"]: line for line in citations[:60]}
    file = job([order[name] for name in ids(written)], "file")
    assert file.run() == 0, file.said
    assert from_file(file) == written
    assert learned(run)[0] == learned(file)[0]
    tally["kills"] += 1


# brokers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [soaked("kill"), "pause"])
def test_a_broker_that_is_away_for_a_while(own_broker, topic, job, citations, tally, fault):
    fill(own_broker, topic, citations[:30])
    run = job([], **keys(own_broker, topic))
    process = run.start(first=lambda: short_answers(2000))
    until(lambda: saved_examples(run) >= 20)
    if fault == "kill":
        own_broker.kill()
        own_broker.start()
    else:
        own_broker.pause()
        time.sleep(3)
        own_broker.resume()
    add(own_broker, topic, citations[30:60])
    until(lambda: saved_examples(run) >= 50)
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0, run.said
    assert run.run(*UNTIL_END) == 0, run.said
    file = job(citations[:60], "file")
    assert file.run() == 0, file.said
    assert learned(run)[0] == learned(file)[0]
    assert predicted(own_broker, f"{topic}-out") == from_file(file)
    tally["broker faults"] += 1


def test_a_broker_that_is_away_at_the_start(job):
    [port] = free_ports(1)
    run = job([], source=source(Cluster(f"127.0.0.1:{port}"), "none", patience="2s"))
    assert run.run(first=short_answers) == UNAVAILABLE
    assert f"Kafka at 127.0.0.1:{port} cannot be reached" in run.said
    assert "waiting for it, " in run.said
    assert "Traceback" not in run.said


def test_a_broker_that_comes_after_the_start(own_broker, topic, job, citations, tally):
    """The first run is stopped while it waits, the second one waits until it can begin."""
    fill(own_broker, topic, citations[:20])
    run = job([], **keys(own_broker, topic, patience="1h"))
    own_broker.pause()
    process = run.start(first=short_answers)
    until(lambda: "waiting for it" in run.said)
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0, run.said
    assert "stopped; Kafka at" in run.said
    process = run.start(*UNTIL_END, first=short_answers)
    until(lambda: "waiting for it" in run.said)
    own_broker.resume()
    assert wait(process) == 0, run.said
    assert len(predicted(own_broker, f"{topic}-out")) == 20
    tally["broker faults"] += 2


@pytest.mark.long
@pytest.mark.parametrize("fault", [soaked("kill"), "pause"])
def test_a_run_that_waits_for_brokers_stops_when_asked_to(
    own_broker, topic, job, citations, tally, fault
):
    """Its predictions cannot be written, and it would wait for an hour; the next start writes them."""
    fill(own_broker, topic, citations[:40])
    run = job([], **keys(own_broker, topic, patience="1h"))

    def first():
        from onlinesrl.stream.kafka import sink as kafka_sink

        short_answers(2000)
        real = kafka_sink.KafkaSink._transact

        def transact(self, *arguments):
            if self.sequence >= 20:
                (run.folder / "ready").touch()
                until((run.folder / "go").exists)
            return real(self, *arguments)

        kafka_sink.KafkaSink._transact = transact  # type: ignore[method-assign]

    process = run.start(first=first)
    until((run.folder / "ready").exists)
    own_broker.kill() if fault == "kill" else own_broker.pause()
    (run.folder / "go").touch()
    if fault == "kill":
        until(lambda: "trying again" in run.said)
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0, run.said
    assert "the next start repeats" in run.said
    own_broker.start() if fault == "kill" else own_broker.resume()
    assert run.run(*UNTIL_END) == 0, run.said
    file = job(citations[:40], "file")
    assert file.run() == 0, file.said
    assert learned(run)[0] == learned(file)[0]
    assert predicted(own_broker, f"{topic}-out") == from_file(file)
    tally["broker faults"] += 1


def test_a_topic_that_is_not_there(broker, topic, job):
    run = job([], source=source(broker, topic))
    assert run.run(first=short_answers) == UNAVAILABLE
    assert f"has no topic {topic}" in run.said
    fill(broker, topic, [])
    run = job([], source=source(broker, topic), sink={"kind": "kafka", "topic": "nope"})
    assert run.run(first=short_answers) == UNAVAILABLE
    assert "has no topic nope" in run.said


def test_a_broker_that_is_away_for_longer_than_patience(own_broker, topic, job, citations, tally):
    fill(own_broker, topic, citations[:40])
    run = job([], **keys(own_broker, topic, patience="1h"))
    afterwards = run.folder / "afterwards"

    def first():
        short_answers()
        later(afterwards, 3600.0)

    process = run.start(first=first)
    until(lambda: saved_examples(run) >= 35)
    own_broker.pause()
    until(lambda: "trying again" in run.said or "waiting for it" in run.said)
    afterwards.touch()
    assert wait(process) == UNAVAILABLE, run.said
    assert "unavailable" in run.said or "cannot be written" in run.said
    own_broker.resume()
    assert run.run(*UNTIL_END) == 0, run.said
    file = job(citations[:40], "file")
    assert file.run() == 0, file.said
    assert learned(run)[0] == learned(file)[0]
    assert predicted(own_broker, f"{topic}-out") == from_file(file)
    tally["broker faults"] += 1


# topics ------------------------------------------------------------------------------------------


def test_records_gone_before_they_were_read(broker, topic, job, citations, tally):
    fill(broker, topic, citations[:40])
    run = job([], **keys(broker, topic))
    assert run.run("--until", "10") == 0, run.said
    broker.delete_records(topic, 0, 25)
    for gaps, code in (("stop", DATA), ("skip", 0)):
        assert run.run(*UNTIL_END, "--set", f"source.gaps={gaps}") == code, run.said
        said = f"{topic}[0]: the records 10 to 24 were deleted before they were read"
        assert said in run.said
        assert ("source.gaps: skip" in run.said) == (gaps == "stop")
    summary = json.loads((run.output / "summary.json").read_bytes())
    assert summary["lost"] == 15
    assert ids(predicted(broker, f"{topic}-out")) == ids(citations[:10] + citations[25:40])
    tally["gaps"] += 1


def test_a_topic_created_anew_is_noticed_at_the_start(broker, topic, job, citations, tally):
    fill(broker, topic, citations[:20])
    run = job([], **keys(broker, topic))
    assert run.run(*UNTIL_END) == 0, run.said
    broker.delete_topic(topic)
    fill(broker, topic, citations[:40])
    assert run.run(*UNTIL_END) == DATA
    assert f"the topic {topic} is not the one read before" in run.said
    assert len(predicted(broker, f"{topic}-out")) == 20
    tally["topics created anew"] += 1


# a partition that goes silent --------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [soaked(1), 2])
def test_a_silent_partition_is_noticed(broker, topic, job, citations, tally, partitions):
    """Partition 0 of a consumer goes silent after some records, while another may give more."""
    fill(broker, topic, citations[:60], partitions)
    run = job([], **keys(broker, topic))

    def first():

        fast_looks(0.5)
        real, given = KafkaConsumer.poll, Counter[int]()

        def poll(self, *arguments, **options):
            if given[id(self)] == 0 and len(given) > 1 and options:
                given[id(self)] = -1000  # the second of them is well
            if options and given[id(self)] >= 2:
                self.pause(*(place for place in self.assignment() if place.partition == 0))
            if options:
                given[id(self)] += 1
                options["max_records"] = 5
            found = real(self, *arguments, **options)
            if options and self.paused():
                self.resume(*self.paused())
            return found

        KafkaConsumer.poll = poll

    process = run.start(*UNTIL_END, first=first)
    assert wait(process) == 0, run.said
    assert f"no records of {topic}[0]" in run.said
    values = predicted(broker, f"{topic}-out")
    assert sorted(map(str, ids(values))) == sorted(
        str(json.loads(line)["id"]) for line in citations[:60]
    )
    tally["silent partitions"] += 1


# lag ---------------------------------------------------------------------------------------------


# being let in ------------------------------------------------------------------------------------

SECRETS = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "reader",
    "sasl_plain_password": "0pen-sesame",
    "ssl_password": "0pen-key",
}


def test_what_lets_in_reaches_the_client_and_nobody_else(broker, topic, job, citations):
    fill(broker, topic, citations[:10])
    settings = keys(broker, topic, security=SECRETS)
    run = job([], **settings)
    seen = run.folder / "seen"

    def first():
        from onlinesrl.stream.kafka import client as module

        real = module.Broker.client

        def client(self, kind, **options):
            def made(**given):
                with seen.open("a") as file:
                    file.write(json.dumps([kind.__name__, {k: given[k] for k in SECRETS}]) + "\n")
                return kind(
                    **{k: v for k, v in given.items() if k not in SECRETS and "ssl" not in k}
                )

            return real(self, made, **options)

        module.Broker.client = client  # type: ignore[method-assign]

    assert run.run(*UNTIL_END, first=first) == 0, run.said
    told = [json.loads(line) for line in seen.read_text().splitlines()]
    assert {kind for kind, _ in told} == {"KafkaAdminClient", "KafkaConsumer", "KafkaProducer"}
    assert all(given == SECRETS for _, given in told)
    assert run.run(*UNTIL_END, "--set", "source.security.sasl_plain_username=x", first=first) == 0
    refused = job([], "refused", **settings)
    assert refused.run("--set", "source.patience=1s", first=short_answers) == UNAVAILABLE
    for each in (run, refused):
        kept = [path for path in each.folder.rglob("*") if path.is_file()]
        texts = {p: p.read_bytes() for p in kept if p.name not in ("run.yaml", "seen")}
        assert len(texts) >= 3
        for secret in (b"0pen-sesame", b"0pen-key"):
            assert [p for p, text in texts.items() if secret in text] == []


def test_partitions_without_a_leader_are_waited_for(broker, topic):
    """As new ones are for a moment; kafka-python leaves them out of what it asks about."""
    from onlinesrl.stream.kafka.client import bounds

    fill(broker, topic, [b"1", b"2"])
    add_partitions(broker, topic, 2)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    places = [TopicPartition(topic, n) for n in range(2)]
    assert bounds(consumer.end_offsets, places) == {places[0]: 2, places[1]: 0}
    cluster = consumer._fetcher._manager.cluster
    real, hidden = cluster.leader_for_partition, [None, -1]
    cluster.leader_for_partition = lambda place: (
        hidden.pop() if hidden and place == places[1] else real(place)
    )
    try:
        assert bounds(consumer.end_offsets, places) == {places[0]: 2, places[1]: 0}
        assert not hidden
    finally:
        consumer.close()


@pytest.mark.parametrize("call", ["poll", "position"])
def test_a_partition_that_became_shorter_is_named(call):
    def shorter(*arguments, **options):
        raise LogTruncationError({TopicPartition("t", 1): None})

    of = KafkaSource(Broker("localhost:1"), ConsumerOptions(["t"]), None, print)
    of.consumer = SimpleNamespace(**{"poll": lambda *_, **options: {}, call: shorter})
    of.offsets = {"t[0]": 3, "t[1]": 20}
    if call == "position":
        of.consumer.position = lambda place, **_: shorter() if place.partition else 3
    with pytest.raises(DataError) as caught:
        next(of.read())
    assert str(caught.value) == (
        "t[1] ends before offset 20, which is the next: it is not the one read before; read another "
        "topic, or start over with --fresh"
    )


def test_lag(broker, topic, job, citations):
    from onlinesrl.stream.kafka.client import Broker as Address
    from onlinesrl.stream.kafka.client import ConsumerOptions
    from onlinesrl.stream.kafka.source import KafkaSource

    broker.create_topic(topic, partitions=2)
    from kafka import KafkaProducer

    with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for n in range(10):
            producer.send(topic, value=str(n).encode(), partition=0)
        producer.commit_transaction()
    broker.produce(topic, [(None, b"x", 1)] * 5)
    found = KafkaSource(
        Address(broker.bootstrap), ConsumerOptions([topic], to_end=True), None, print
    )
    try:
        assert found.lag() == {}
        found.open(None)
        assert found.lag() == {f"{topic}[0]": 11, f"{topic}[1]": 5}
        records = found.read()
        while next(records) is None:
            pass
        assert sum(found.lag().values()) == 15
        assert sum(record is not None for record in records) == 14
        assert found.lag() == {f"{topic}[0]": 0, f"{topic}[1]": 0}
    finally:
        found.close()
