"""A Kafka broker for tests: a real one, in a process that can be stopped, killed and paused.

To try things out: ``python -m tests.support.kafka_broker TOPIC ...`` runs one at localhost:9092 until it is
interrupted, with these topics, and forgets all.
"""

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

from tests.support.paths import REPO
from tests.support.waiting import PATIENCE, until

HERE = REPO / "tests" / "stream" / "kafka"
POM = REPO / "docker" / "broker" / "pom.xml"
JARS = POM.with_name("jars")
PORTS = range(20000, 30000)  # below those that clients are given: nobody takes a stopped broker's
BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM that does not run for long."""
JVM = (
    "-Xmx256m",
    *BRIEF,
    "-XX:-UsePerfData",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",  # a fifth of the time of a start
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
USER, PASSWORD = "ann", "Correct-Horse-7"
"""What the listener that wants a login lets in."""
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER}="{PASSWORD}";'
    ),
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "broker.heartbeat.interval.ms": 200,
    "broker.session.timeout.ms": 1000,  # a killed broker may not come back sooner
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "log.cleaner.backoff.ms": 200,
}


class Cluster:
    """What tests ask of a Kafka cluster; every call has a client of its own and closes it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap, reconnect_backoff_max_ms=100)

    def consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="none",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until it can be used."""
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": config or {}}
        with self.admin() as admin:
            admin.create_topics({name: wanted})
            until(lambda: _usable(admin, name, partitions))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        with self.admin() as admin:
            admin.delete_topics([name])
            until(lambda: name not in admin.list_topics())

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition that are before the offset."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(topic, partition): offset})

    def produce(self, topic: str, records: Iterable[tuple[Any, ...]]) -> list[int]:
        """Write (key, value, partition, headers), of which the last two may be left out.

        Return their offsets.
        """
        with KafkaProducer(
            bootstrap_servers=self.bootstrap, linger_ms=5, max_request_size=4 << 20
        ) as producer:
            sent = [
                producer.send(
                    topic,
                    key=key,
                    value=value,
                    partition=rest[0] if rest else 0,
                    headers=list(rest[1]) if rest[1:] else [],
                )
                for key, value, *rest in records
            ]
            return [future.get(PATIENCE).offset for future in sent]

    def read_all(self, topic: str) -> list[ConsumerRecord]:
        """All committed records there are now, by partition and offset."""
        found: list[ConsumerRecord] = []
        with self.consumer() as consumer:
            places = _places(consumer, topic)
            ends = consumer.end_offsets(places)
            consumer.assign(places)
            for place, start in consumer.beginning_offsets(places).items():
                consumer.seek(place, start)
            limit = time.monotonic() + PATIENCE
            while any(consumer.position(place) < end for place, end in ends.items()):
                assert time.monotonic() < limit, f"{topic} was not read to {ends}"
                for records in consumer.poll(100).values():
                    found += records
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Where the next record of each partition goes."""
        with self.consumer() as consumer:
            ends = consumer.end_offsets(_places(consumer, topic))
        return {place.partition: end for place, end in sorted(ends.items())}


class Broker(Cluster):
    """A broker, which is its own controller, in a process that ends with this one."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        free, controller, login = free_ports(3)
        port = port or free
        super().__init__(f"127.0.0.1:{port}")
        self.port = port
        self.login = f"127.0.0.1:{login}"  # where a login by SASL is wanted
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        listener = f"PLAINTEXT://{self.bootstrap},LOGIN://{self.login}"
        settings = {
            **SETTINGS,
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listener,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": folder / "log",
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (folder / "server.properties").write_text(text)
        formatting = self._java(
            "kafka.tools.StorageTool", "format", "-t", "A" * 22, "-c", "server.properties"
        )
        assert formatting.wait(PATIENCE) == 0, self.said

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = ["java", *JVM, f"-Djava.io.tmpdir={self.folder}", "-cp", f"{JARS}/*"]
        with (self.folder / "broker.log").open("ab") as said:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *java, main, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt is for the tests, which then stop it
            )

    @property
    def said(self) -> str:
        """What its processes wrote."""
        return (self.folder / "broker.log").read_text()

    def start(self) -> None:
        """Start the process and wait until it answers."""
        assert self.process is None, "it runs"
        self.process = self._java("kafka.Kafka", "server.properties")
        until(self._listens)
        with self.admin() as admin:
            until(lambda: admin.describe_cluster()["brokers"])

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """Let it die on the spot."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None

    def pause(self) -> None:
        """Let it hang: connections stay, and nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after a pause, and wait until its controller knows it again."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        until(self._is_known)

    def _is_known(self) -> bool:
        with suppress(KafkaError), self.admin() as admin:
            return bool(admin.describe_cluster()["brokers"])
        return False


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
        if len(found) == count:
            break
    return found


def _usable(admin: KafkaAdminClient, topic: str, partitions: int) -> bool:
    [found] = admin.describe_topics([topic])
    leaders = [partition["leader_id"] for partition in found["partitions"]]
    return len(leaders) == partitions and min(leaders) >= 0


def _places(consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]


def fetch_jars(say: Callable[[str], None]) -> None:
    """Have what the broker runs on; skip the test where it cannot be had."""
    fetched = JARS / "pom.xml"  # copied last: all that it asks for is there
    if shutil.which("java") is None:
        pytest.skip("a Kafka broker needs Java: install default-jre-headless")
    with POM.open("rb") as wanted:
        fcntl.flock(wanted, fcntl.LOCK_EX)  # one process fetches, others wait for it
        if not fetched.exists() or fetched.read_bytes() != wanted.read():
            _fetch(say)


def _fetch(say: Callable[[str], None]) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("Maven fetches the Kafka broker: install maven")
    say(f"Maven fetches a Kafka broker into {JARS}, once")
    shutil.rmtree(JARS, ignore_errors=True)
    fetch = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    settings = {"MAVEN_OPTS": " ".join(BRIEF), **os.environ}
    done = subprocess.run(fetch, capture_output=True, text=True, check=False, env=settings)
    if done.returncode != 0:
        pytest.skip(f"Maven could not fetch the Kafka broker: {done.stdout[-1000:]}")
    shutil.copy(POM, JARS)


RUNNING = pytest.StashKey[Broker]()
"""The broker that was started, if any was."""


@pytest.fixture(scope="session")
def broker_process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """The broker of these tests."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)

    fetch_jars(say)
    process = Broker(tmp_path_factory.mktemp("broker"))
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture
def running(broker_process: Broker, request: pytest.FixtureRequest) -> Broker:
    """The broker, which runs until a test in another place comes; see ``end_unless_needed``."""
    if broker_process.process is None:
        broker_process.start()
    request.session.stash[RUNNING] = broker_process
    return broker_process


def end_unless_needed(item: pytest.Item, then: pytest.Item | None) -> None:
    """After a test: let no broker run that the next one does not need; at rest, it works, too."""
    process = item.session.stash.get(RUNNING, None)
    near = then is not None and (then.path == item.path or then.path.parent == HERE)
    if process is not None and not near:
        process.kill()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Cluster:
    """A cluster: the one KAFKA_BOOTSTRAP names, or else a broker of our own."""
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP")
    return Cluster(bootstrap) if bootstrap else request.getfixturevalue("running")


@pytest.fixture
def own_broker(running: Broker) -> Iterator[Broker]:
    """A broker that the test may stop, kill and pause; it runs again afterwards."""
    try:
        yield running
    finally:
        if running.process is None:
            running.start()
        running.resume()


@pytest.fixture
def topic() -> str:
    """A name that no topic has."""
    return f"topic-{uuid.uuid4().hex}"


def main(topics: list[str]) -> None:
    """Run a broker until it is interrupted."""
    fetch_jars(print)
    with tempfile.TemporaryDirectory() as folder:
        process = Broker(Path(folder), 9092)
        try:
            process.start()
            for name in topics:
                process.create_topic(name)
            print(
                f"Kafka runs at {process.bootstrap}, with the topics {' '.join(topics)}", flush=True
            )
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
        finally:
            process.kill()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main(sys.argv[1:])
