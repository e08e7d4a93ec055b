"""Predictions to Kafka, exactly once, however often the run is stopped and resumed.

Every record has headers with the run, the input record, and the sequence number of the prediction.
They are written in transactions, so that readers of committed records see no gaps; a resumed run
looks up for which records the topic has predictions already, and skips those.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import wait
from contextlib import suppress
from typing import Any, NamedTuple, NotRequired, TypedDict

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    AuthorizationError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)

from onlinesrl.core.errors import DataError, ExampleError, LockedError, UnavailableError
from onlinesrl.core.io.restoring import Natural
from onlinesrl.stream.daemon_calls import aside
from onlinesrl.stream.kafka.client import ANSWER_MS, AwayError, Broker, bounds
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import OutputFile
from onlinesrl.stream.sink import Sink

TRANSACTION_MS = 30_000
"""After how long brokers abort a transaction whose process died; others may wait for it."""
FLUSH_SECONDS = 0.1
FLUSH_RECORDS = 5000
AROUND = 512
"""The bytes of a record besides its key, its value and the name of its partition."""
PAUSE_SECONDS = 0.5
FENCED = (ProducerFencedError, InvalidProducerEpochError)
"""The errors after another process has taken over."""


class FencedError(LockedError):
    """Another process has resumed this run; what this one still holds was not written."""


Origin = tuple[str, int]
"""The partition or file of a record, and its offset or line."""


class SinkState(TypedDict):
    """Which topic and run, how many predictions, its ends by partition, what is there beyond those."""

    identity: str
    run: str
    sequence: Natural
    ends: dict[str, Natural]
    there: NotRequired[list[tuple[str, Natural]]]


class _Outgoing(NamedTuple):
    origin: Origin
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


class _Written:
    """The upcoming records for which the topic has predictions already.

    They come before all others that have some, but those of a partition not always by their offsets.
    """

    def __init__(self, origins: Iterable[Origin]) -> None:
        self.places: dict[str, set[int]] = {}
        for place, number in origins:
            self.places.setdefault(place, set()).add(number)
        self.last = {place: max(numbers) for place, numbers in self.places.items()}

    def __iter__(self) -> Any:
        return ((place, number) for place in self.places for number in sorted(self.places[place]))

    def take(self, origin: Origin) -> bool:
        """Tell whether a record is one of them, which it is once, or before one.

        Of one before another the topic had messages too, unless it gave none: compaction has removed them.
        After one behind them there are none any more.
        """
        place, number = origin
        waiting = self.places.get(place, set())
        if number in waiting:
            waiting.remove(number)
            return True
        if number > self.last.get(place, -1):
            waiting.clear()
        return bool(waiting)


class KafkaSink(Sink):
    """Writes predictions to a topic; ``state`` is saved in the checkpoint, and ``open`` restores it.

    Methods raise UnavailableError if brokers are unavailable for longer than ``patience`` seconds or
    the topic is missing, FencedError if another process has taken over.
    """

    State = SinkState

    def __init__(
        self,
        broker: Broker,
        topic: str,
        patience: float,
        max_bytes: int,
        say: Callable[[str], None],
    ) -> None:
        self.broker = broker
        self.topic = topic
        self.patience = patience
        self.max_bytes = max_bytes
        self.say = say
        self.limit = "sink.max_bytes"
        self.producer: Any = None
        self.identity = self.run = ""
        self.sequence = 0
        self.ends: dict[str, int] = {}
        self._there = _Written([])
        self._waiting: list[_Outgoing] = []
        self._flushed = time.monotonic()

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Connect; fence off a process that still writes for this run, and see what it has written."""
        ends = self.broker.outlast(self._topic_ends, self.patience, self.say)
        self._waiting = []
        if state is None:
            self.run, self.sequence, self.ends = uuid.uuid4().hex, 0, ends
        else:
            if state["identity"] != self.identity:
                raise self._another()
            self.run, self.sequence = state["run"], state["sequence"]
            self.ends = dict.fromkeys(ends, 0) | state["ends"]
            self._there = _Written((place, number) for place, number in state.get("there", ()))
        written = self.broker.outlast(self._connect, self.patience, self.say)
        self._there = _Written([*self._there, *written])

    def _topic_ends(self) -> dict[str, int]:
        self.identity, numbers = self.broker.topics([self.topic])[self.topic]
        largest = self.broker.largest(self.topic)
        if largest is not None and largest < self.max_bytes:
            self.max_bytes, self.limit = largest, "max.message.bytes of the topic"
        return dict.fromkeys(map(str, numbers), 0) | {
            str(place.partition): end for place, end in self._read_ends(numbers).items()
        }

    def _another(self) -> DataError:
        return DataError(
            f"the topic {self.topic} is not the one written to before: it was deleted and created again; "
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
        """Return the end offsets, including open transactions."""
        consumer = self._consumer("read_uncommitted")
        try:
            with self.broker.explained():
                places = [TopicPartition(self.topic, n) for n in numbers]
                return bounds(consumer.end_offsets, places)
        finally:
            consumer.close()

    def _connect(self) -> set[Origin]:
        """Connect, and return what ``_written`` does."""
        self.close()
        self.producer = self.broker.client(
            KafkaProducer,
            transactional_id=f"onlinesrl-{self.run}",
            transaction_timeout_ms=TRANSACTION_MS,
            linger_ms=5,
            max_block_ms=ANSWER_MS,
            max_request_size=max(1 << 20, self.max_bytes),
            delivery_timeout_ms=2 * ANSWER_MS,
        )
        with self.broker.explained():
            self.producer.init_transactions()
        return self._written()

    def _written(self) -> set[Origin]:
        """Return the records for which the topic has this run's predictions, after ``ends``.

        Sets the sequence to their largest number.
        """
        places = {TopicPartition(self.topic, int(n)): end for n, end in self.ends.items()}
        ends = self._read_ends(list(map(int, self.ends)))
        consumer = self._consumer("read_committed")
        origins: set[Origin] = set()
        limit = time.monotonic() + max(self.patience, ANSWER_MS / 1000)
        try:
            with self.broker.explained():
                starts = bounds(consumer.beginning_offsets, list(places))
                consumer.assign(list(places))
                for place, offset in places.items():
                    if offset > ends[place]:
                        raise self._another()
                    consumer.seek(place, max(offset, starts[place]))
                while any(consumer.position(place) < end for place, end in ends.items()):
                    if time.monotonic() > limit:
                        raise UnavailableError(
                            f"{self.topic} cannot be read to its end: another program's transaction "
                            "is open, or the brokers are unavailable"
                        )
                    for records in consumer.poll(1000).values():
                        for headers in (dict(record.headers) for record in records):
                            if headers.get("run") == self.run.encode():
                                origins.add((headers["partition"].decode(), int(headers["offset"])))
                                self.sequence = max(self.sequence, int(headers["sequence"]))
        finally:
            consumer.close()
        return origins

    def fits(self, name: str, record: Record) -> None:
        """Raise ExampleError if the id alone is too long for a record."""
        self._check(name, b"", record)

    def _check(self, key: str, value: bytes, record: Record) -> None:
        size = len(key.encode()) + len(value) + len(record.file.encode()) + AROUND
        if size > self.max_bytes:
            raise ExampleError(
                f"its prediction takes {size} bytes, more than {self.limit} ({self.max_bytes}) allows",
                "unsent",
            )

    def write(self, result: Result) -> None:
        """Add the messages of an answer, unless the topic has them. Raises ExampleError for a long one."""
        record = result.record
        origin = (record.file, record.line)
        if result.outcome.prediction is None:
            return
        answers = [*result.messages()]
        for key, value, _ in answers:
            self._check(key, value, record)
        if self._there.take(origin):
            return
        for key, value, gone in answers:
            self.sequence += 1
            headers = {
                "run": self.run,
                "partition": record.file,
                "offset": str(record.line),
                "sequence": str(self.sequence),
            }
            encoded = [(name, text.encode()) for name, text in headers.items()]
            value_or_none = None if gone else value
            self._waiting.append(_Outgoing(origin, key.encode(), value_or_none, encoded))

    @property
    def due(self) -> bool:
        """Whether enough predictions wait, or have waited long enough."""
        return bool(self._waiting) and (
            len(self._waiting) >= FLUSH_RECORDS or time.monotonic() - self._flushed >= FLUSH_SECONDS
        )

    def flush(self) -> None:
        """Write what is waiting, in one transaction."""
        started = time.monotonic()
        while self._waiting:
            try:
                ends = self.broker.attended(self._transact)
            except (AuthorizationError, MessageSizeTooLargeError) as error:
                raise UnavailableError(
                    f"{self.topic} does not accept predictions: {error}; sink.max_bytes limits their "
                    "length"
                ) from error
            except (KafkaError, AwayError) as error:
                # what follows the first error has that as its argument
                if any(isinstance(cause, FENCED) for cause in (error, *error.args)):
                    raise FencedError(
                        f"another process has resumed run {self.run}, or this one was unreachable for "
                        "too long; run it again to resume from the last checkpoint"
                    ) from error
                if time.monotonic() - started > self.patience:
                    raise UnavailableError(
                        f"predictions cannot be written to {self.topic}: {error}"
                    ) from error
                if self.broker.stopping():
                    raise self.broker.stopped() from error
                self.say(f"predictions cannot be written to {self.topic} ({error}); trying again")
                self.broker.attended(self._recover)
                continue
            self.ends |= ends
            self._waiting = []
        self._flushed = time.monotonic()

    def _transact(self) -> dict[str, int]:
        producer = self.producer
        if producer is None:
            raise AwayError("not connected")
        producer.begin_transaction()
        sent = [
            producer.send(self.topic, key=message.key, value=message.value, headers=message.headers)
            for message in self._waiting
        ]
        ends: dict[str, int] = {}
        for future in sent:  # not flush: that fails when a batch is too large and is split
            written = future.get(ANSWER_MS / 1000)
            name = str(written.partition)
            if written.offset < self.ends.get(name, 0):
                raise self._another()
            ends[name] = max(ends.get(name, 0), written.offset + 1)
        commit = aside(producer.commit_transaction)  # which may never return
        if not wait([commit], ANSWER_MS / 1000).done:
            raise KafkaTimeoutError("the end of a transaction was not confirmed")
        commit.result()
        return ends

    def _recover(self) -> None:
        """Reconnect; what an attempt of unknown outcome has written is not written again."""
        time.sleep(PAUSE_SECONDS)
        with suppress(UnavailableError, KafkaError):
            written = self._connect()
            self._waiting = [message for message in self._waiting if message.origin not in written]

    def state(self) -> dict[str, Any]:
        """Return the state for the checkpoint, after a flush."""
        return {
            "identity": self.identity,
            "run": self.run,
            "sequence": self.sequence,
            "ends": dict(self.ends),
            "there": list(self._there),
        }

    def close(self) -> None:
        """Disconnect, without flushing. Closing twice is allowed."""
        if self.producer is not None:
            producer, self.producer = self.producer, None
            with suppress(KafkaError):
                producer.close(1)
