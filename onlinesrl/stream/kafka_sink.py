"""Predictions to Kafka, each there once, however often the run that makes them is stopped and started.

Every record says in its headers which run made it, from which record, and its place in the sequence
of the run's predictions. They are written in transactions, so that a reader of committed records finds
them without a gap; a run that goes on looks up which of them are there and leaves those out.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    AuthorizationError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)

from onlinesrl.errors import DataError, LockedError, UnavailableError
from onlinesrl.stream.broker import ANSWER_MS, Broker
from onlinesrl.stream.files import Record

TRANSACTION_MS = 30_000
"""After how long brokers give up a transaction whose process has died; others may wait for it."""
FLUSH_SECONDS = 0.1
FLUSH_RECORDS = 5000
PAUSE_SECONDS = 0.5


class FencedError(LockedError):
    """Another process goes on with this run; what this one still holds has not been written."""


class _Outgoing(NamedTuple):
    sequence: int
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


class KafkaSink:
    """Writes predictions to a topic; ``state`` goes into the checkpoint and ``open`` comes back from it.

    Methods raise UnavailableError where brokers are away for longer than ``patience`` seconds or the
    topic is missing, FencedError where another process has taken over.
    """

    def __init__(
        self, broker: Broker, topic: str, patience: float, say: Callable[[str], None]
    ) -> None:
        self.broker = broker
        self.topic = topic
        self.patience = patience
        self.say = say
        self.producer: Any = None
        self.identity = self.run = ""
        self.sequence = 0
        self.ends: dict[str, int] = {}
        self._there: set[int] = set()
        self._waiting: list[_Outgoing] = []
        self._flushed = time.monotonic()

    def open(self, state: Mapping[str, Any] | None) -> None:
        """Connect; shut out a process that still writes for this run, and see what it has written."""
        ends = self._topic_ends()
        self._waiting = []
        if state is None:
            self.run, self.sequence, self.ends = uuid.uuid4().hex, 0, ends
        else:
            if state["identity"] != self.identity:
                raise self._another()
            self.run, self.sequence = state["run"], state["sequence"]
            self.ends = dict.fromkeys(ends, 0) | state["ends"]
        self._connect()

    def _topic_ends(self) -> dict[str, int]:
        self.identity, numbers = self.broker.topics([self.topic])[self.topic]
        return dict.fromkeys(map(str, numbers), 0) | {
            str(place.partition): end for place, end in self._read_ends(numbers).items()
        }

    def _another(self) -> DataError:
        return DataError(
            f"the topic {self.topic} is not the one written to before: it was deleted and created anew; "
            "write to another topic, or start over with --fresh"
        )

    def _consumer(self, isolation: str) -> Any:
        return self.broker.client(
            KafkaConsumer,
            auto_offset_reset="none",
            enable_auto_commit=False,
            isolation_level=isolation,
            allow_auto_create_topics=False,
        )

    def _read_ends(self, numbers: list[int]) -> dict[TopicPartition, int]:
        """Return where the next records go, those of open transactions included."""
        consumer = self._consumer("read_uncommitted")
        try:
            with self.broker.explained():
                places = [TopicPartition(self.topic, n) for n in numbers]
                found: dict[TopicPartition, int] = consumer.end_offsets(
                    places, timeout_ms=ANSWER_MS
                )
                return found
        finally:
            consumer.close()

    def _connect(self) -> None:
        self._disconnect()
        self.producer = self.broker.client(
            KafkaProducer,
            transactional_id=f"onlinesrl-{self.run}",
            transaction_timeout_ms=TRANSACTION_MS,
            linger_ms=5,
            max_block_ms=ANSWER_MS,
            delivery_timeout_ms=2 * ANSWER_MS,
        )
        with self.broker.explained():
            self.producer.init_transactions()
        self._there = self._written()

    def _written(self) -> set[int]:
        """Return which of this run's predictions the topic has, of those after the checkpoint."""
        places = {TopicPartition(self.topic, int(n)): end for n, end in self.ends.items()}
        ends = self._read_ends(list(map(int, self.ends)))
        consumer = self._consumer("read_committed")
        found: set[int] = set()
        limit = time.monotonic() + max(self.patience, ANSWER_MS / 1000)
        try:
            with self.broker.explained():
                starts = consumer.beginning_offsets(list(places), timeout_ms=ANSWER_MS)
                consumer.assign(list(places))
                for place, offset in places.items():
                    if offset > ends[place]:
                        raise self._another()
                    consumer.seek(place, max(offset, starts[place]))
                while any(consumer.position(place) < end for place, end in ends.items()):
                    if time.monotonic() > limit:
                        raise UnavailableError(
                            f"{self.topic} cannot be read to its end: another program's transaction "
                            "is open, or the brokers are away"
                        )
                    for records in consumer.poll(1000).values():
                        headers = (dict(record.headers) for record in records)
                        found |= {
                            int(h["sequence"]) for h in headers if h.get("run") == self.run.encode()
                        }
        finally:
            consumer.close()
        return found

    def write(self, key: str, value: bytes, record: Record) -> None:
        """Add a prediction, unless it is there already."""
        self.sequence += 1
        if self.sequence in self._there:
            self._there.discard(self.sequence)
            return
        headers = {
            "run": self.run,
            "partition": record.file,
            "offset": str(record.line),
            "sequence": str(self.sequence),
        }
        encoded = [(name, text.encode()) for name, text in headers.items()]
        self._waiting.append(_Outgoing(self.sequence, key.encode(), value, encoded))

    @property
    def due(self) -> bool:
        """Tell whether what is waiting has waited long enough."""
        return bool(self._waiting) and (
            len(self._waiting) >= FLUSH_RECORDS or time.monotonic() - self._flushed >= FLUSH_SECONDS
        )

    def flush(
        self, offsets: Mapping[TopicPartition, Any] | None = None, member: Any = None
    ) -> None:
        """Write what is waiting, all or nothing; and with it, for a group's ``member``, offsets."""
        started = time.monotonic()
        while self._waiting or offsets:
            try:
                ends = self._transact(offsets, member)
            except (ProducerFencedError, InvalidProducerEpochError) as error:
                raise FencedError(
                    f"another process goes on with run {self.run}, or this one was away for too long; "
                    "run it again to go on from the last checkpoint"
                ) from error
            except (AuthorizationError, MessageSizeTooLargeError) as error:
                raise UnavailableError(
                    f"{self.topic} does not take predictions: {error}"
                ) from error
            except (KafkaError, UnavailableError) as error:
                if offsets or time.monotonic() - started > self.patience:
                    raise UnavailableError(
                        f"predictions cannot be written to {self.topic}: {error}"
                    ) from error
                self.say(f"predictions cannot be written to {self.topic} ({error}); trying again")
                self._recover()
                continue
            self.ends |= ends
            self._waiting, offsets = [], None
        self._flushed = time.monotonic()

    def _transact(
        self, offsets: Mapping[TopicPartition, Any] | None, member: Any
    ) -> dict[str, int]:
        producer = self.producer
        if producer is None:
            raise UnavailableError("not connected")
        producer.begin_transaction()
        sent = [
            producer.send(self.topic, key=each.key, value=each.value, headers=each.headers)
            for each in self._waiting
        ]
        ends: dict[str, int] = {}
        for future in sent:  # not flush: it fails where a batch is too large and is divided
            written = future.get(ANSWER_MS / 1000)
            name = str(written.partition)
            ends[name] = max(ends.get(name, 0), written.offset + 1)
        if offsets:
            producer.send_offsets_to_transaction(offsets, member)
        _limited(producer.commit_transaction)
        return ends

    def _recover(self) -> None:
        """Connect anew; what an attempt of unknown end has written is not written again."""
        time.sleep(PAUSE_SECONDS)
        with suppress(UnavailableError, KafkaError):
            self._connect()
            self._waiting = [each for each in self._waiting if each.sequence not in self._there]
            self._there = {n for n in self._there if n > self.sequence}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds, once all is flushed."""
        return {
            "identity": self.identity,
            "run": self.run,
            "sequence": self.sequence,
            "ends": dict(self.ends),
        }

    def _disconnect(self) -> None:
        if self.producer is not None:
            producer, self.producer = self.producer, None
            with suppress(KafkaError):
                producer.close(1)

    def close(self) -> None:
        """Leave the brokers; what was not flushed is not written. Closing twice is allowed."""
        self._disconnect()


def _limited(call: Callable[[], object]) -> None:
    """Call what may never return, on a thread that is left behind if it does not come back."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(ANSWER_MS / 1000)
    if thread.is_alive():
        raise KafkaTimeoutError("the end of a transaction was not confirmed")
    if failed:
        raise failed[0]
