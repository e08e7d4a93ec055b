"""Replaying records as a live stream: to a Kafka topic, or as lines to a file or standard output."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from onlinesrl.core.errors import (
    DataError,
    ExampleError,
    OnlinesrlError,
    UnavailableError,
    UsageError,
)
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.logic.database import separate
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.stream.csv_rows import row
from onlinesrl.stream.decoding import RecordDecoder
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped
from onlinesrl.stream.sources.files import MAX_BYTES, FileSource

PENDING = 5000
BROKER_SECONDS = 10
DELIVERY_SECONDS = 30


class Message(NamedTuple):
    """What is sent: the bytes of an example, its id if it has one, and its place."""

    value: bytes
    key: bytes | None
    place: str


# reading -----------------------------------------------------------------------------------------


class _Named(msgspec.Struct):
    id: str | int


_named = msgspec.json.Decoder(_Named)


def message_of(value: bytes, place: str) -> Message:
    """Return the message for a record; its key is the example's id, if that can be read."""
    try:
        return Message(value, str(_named.decode(value).id).encode(), place)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Message(value, None, place)


def messages(path: Path, query: Collection[str], dialect: Dialect = ALCHEMY) -> Iterator[Message]:
    """Yield the records of a file, a folder or ``-``: lines as they are, rows and worlds as JSON.

    The atoms of ``query`` are the truth of a world; in pracmln's ``dialect`` a database may have several
    worlds, and their examples a number after its name. Raises DataError for a record that is too long
    and for a database that is no world, UsageError for one without a query.
    """
    source = FileSource([path])
    if not query and any(file.removesuffix(".gz").endswith(".db") for file in source.files):
        raise UsageError("a .db file needs --query P,Q: the predicates whose atoms are the truth")
    decoder = RecordDecoder(query, source.max_bytes, dialect=dialect)
    for record in source.read():
        if record is None:
            continue
        place = f"{record.file}:{record.line}"
        if record.too_long:
            raise DataError(f"{place}: longer than {MAX_BYTES:,} bytes")
        if record.kind != "json":
            yield from (message_of(value, place) for value in _worlds(decoder, record))
        elif not record.header:
            yield message_of(record.value, place)
        else:
            try:
                value = msgspec.json.encode(row(record.header, record.value))
            except ExampleError as error:
                raise DataError(f"{place}: {error}") from None
            yield message_of(value, place)


def _worlds(decoder: RecordDecoder, record: Record) -> Iterator[bytes]:
    texts = [record.value]
    if decoder.dialect.whole:
        parts = separate(record.value.decode(errors="surrogateescape"))
        texts = [part.encode(errors="surrogateescape") for part in parts]
    for number, text in enumerate(texts, start=1):
        example = decoder.content(msgspec.structs.replace(record, value=text))
        if isinstance(example, ExampleError):
            raise DataError(f"{record.file}: {example}")
        values = msgspec.to_builtins(example)
        if len(texts) > 1:
            values["id"] += f".{number}"
        yield msgspec.json.encode({name: v for name, v in values.items() if v is not None})


# sending -----------------------------------------------------------------------------------------


def replay(
    messages: Iterator[Message], to: Lines | Topic, rate: float | None, say: Callable[[str], None]
) -> None:
    """Send messages, ``rate`` per second at most, until a signal asks to stop; report how many arrived."""
    with to, ShutdownSignal() as stopper:
        started = time.monotonic()
        try:
            for message in _paced(messages, rate, stopper):
                to.send(message)
            to.finish()
        finally:
            seconds = max(time.monotonic() - started, 1e-9)
            end, sent = "stopped: " if stopper.asked else "", to.arrived
            say(f"{end}{sent:,} sent in {seconds:.1f} s, {sent / seconds:,.0f} per second")


def _paced(
    messages: Iterator[Message], rate: float | None, stopper: ShutdownSignal
) -> Iterator[Message]:
    """Yield messages when they are due; a signal ends it only while it waits or reads."""
    started = time.monotonic()
    for number in count():
        if stopper.asked:
            return
        try:
            with stopper.waiting():
                message = next(messages, None)
                if message is not None and rate is not None:
                    time.sleep(max(0.0, started + number / rate - time.monotonic()))
        except Stopped:
            return
        if message is None:
            return
        yield message


class Lines:
    """A line for each message: standard output, or a file. Raises StorageError."""

    def __init__(self, path: Path | None, at_once: bool = False) -> None:
        self.path = path
        self.name = "standard output" if path is None else str(path)
        self.at_once = at_once
        self.arrived = 0

    def send(self, message: Message) -> None:
        """Write the bytes and a line end; flush them if each is due at its time."""
        with storage_errors(self.name, "write"):
            self.stream.write(message.value + b"\n")
            if self.at_once:
                self.stream.flush()
        self.arrived += 1

    def finish(self) -> None:
        """Flush the stream."""
        with storage_errors(self.name, "write"):
            self.stream.flush()

    def __enter__(self) -> Self:
        """Open the stream."""
        with storage_errors(self.name, "write"):
            self.stream = sys.stdout.buffer if self.path is None else self.path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; standard output stays open."""
        if self.path is not None:
            with storage_errors(self.name, "write"):
                self.stream.close()


class Topic:
    """A Kafka topic, written by an idempotent producer; every delivery is confirmed.

    Raises UnavailableError if no broker answers or the topic does not exist, DataError for a record
    that is too large, UsageError for a partition that does not exist.
    """

    def __init__(self, bootstrap: str, topic: str, partition: int | None = None) -> None:
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        from onlinesrl.stream.kafka.client import failures

        self.errors = (KafkaError, ValueError)
        failures()  # kafka-python's log is not shown: errors are raised
        self.topic, self.partition = topic, partition
        self.name = f"{bootstrap}: topic {topic}"
        self.arrived = 0
        self.pending: deque[tuple[str, Any]] = deque()
        try:
            self.producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                bootstrap_timeout_ms=BROKER_SECONDS * 1000,
                max_block_ms=BROKER_SECONDS * 1000,
                request_timeout_ms=BROKER_SECONDS * 1000,
                delivery_timeout_ms=DELIVERY_SECONDS * 1000,
                reconnect_backoff_max_ms=1000,
                max_request_size=2 * MAX_BYTES,
            )
        except self.errors as error:
            raise self._explain(error, bootstrap) from error

    def __enter__(self) -> Self:
        """Find the topic."""
        try:
            partitions = self.producer.partitions_for(self.topic)
        except self.errors as error:
            self.producer.close(1)
            raise self._explain(error, f"{self.name} cannot be found") from error
        if self.partition is not None and self.partition not in partitions:
            self.producer.close(1)
            raise UsageError(
                f"{self.name} has no partition {self.partition}, only {sorted(partitions)}"
            )
        return self

    def send(self, message: Message) -> None:
        """Send a message, and confirm those that have arrived; wait while too many have not."""
        try:
            future = self.producer.send(
                self.topic, message.value, key=message.key, partition=self.partition
            )
        except self.errors as error:
            raise self._explain(error, message.place) from error
        self.pending.append((message.place, future))
        while self.pending and (self.pending[0][1].is_done or len(self.pending) > PENDING):
            self._check()

    def finish(self) -> None:
        """Wait until all have arrived."""
        while self.pending:
            self._check()

    def _check(self) -> None:
        place, future = self.pending.popleft()
        try:
            future.get(2 * DELIVERY_SECONDS)
        except self.errors as error:
            raise self._explain(error, place) from error
        self.arrived += 1

    def _explain(self, error: Exception, subject: str) -> OnlinesrlError:
        """Translate an error of the Kafka client."""
        from kafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

        if isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
            return DataError(f"{subject}: too large for {self.name}")
        if isinstance(error, KafkaError):
            return UnavailableError(f"{subject}: Kafka: {error}")
        return UsageError(f"{subject}: {error}")

    def __exit__(self, *_: object) -> None:
        """Close the producer; all has arrived, or an error was raised."""
        with suppress(*self.errors):  # an error was raised already
            self.producer.close(1)
