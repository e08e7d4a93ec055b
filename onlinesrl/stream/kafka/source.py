"""Examples from Kafka: each record once, in an order that can be repeated, from where the checkpoint says.

The position is kept in the checkpoint alone; what is committed to a consumer group is for monitoring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from onlinesrl.core.errors import DataError, StorageError, UnavailableError
from onlinesrl.stream.files import Record
from onlinesrl.stream.journal import Journal
from onlinesrl.stream.kafka.broker import ANSWER_MS, Broker, bounds, name_of, place_of, places_of
from onlinesrl.stream.protocols import Sink, Source
from onlinesrl.stream.stopper import Stopped

POLL_MS = 100
MOST_RECORDS = 500
LOOK_SECONDS = 10.0
"""How often the brokers are asked whether all is as it seems."""
CHANCES = 2
"""In how many polls a partition, with nothing in its way, has to give its records."""


@dataclass(frozen=True)
class Reading:
    """What to read and how.

    ``topics`` are all read alike. ``from_end`` starts a new run behind what is there; ``to_end`` ends
    a run where the partitions ended when it began. ``skip_gaps`` goes on where records are gone that
    were not read. ``patience`` is for how many seconds brokers may be away.
    """

    topics: Sequence[str]
    group: str | None = None
    from_end: bool = False
    to_end: bool = False
    skip_gaps: bool = False
    patience: float = 300.0
    max_bytes: int = 8_000_000


class KafkaSource(Source):
    """The records of all partitions of some topics; ``read`` yields None when there is none just now.

    The order in which records of several partitions are taken is noted in the file ``journal``.

    A position is ``{"topics": identity by name, "offsets": next offset by partition}``, with how many
    records were ``lost``. Methods raise UnavailableError where brokers are away or a topic is missing,
    and DataError where a topic is not the one that was read before, or records of it are gone.
    """

    live = True

    def __init__(
        self, broker: Broker, reading: Reading, journal: Path | None, say: Callable[[str], None]
    ) -> None:
        self.broker = broker
        self.reading = reading
        self.journal: Journal | None = None
        self._journal = journal
        self.say = say
        self.max_bytes = reading.max_bytes
        self.consumer: Any = None
        self.offsets: dict[str, int] = {}
        self.lost = 0
        self._targets: dict[TopicPartition, int] = {}
        self._passed: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}
        self._looked = self._heard = time.monotonic()
        self._suspects: dict[TopicPartition, int] = {}
        self._found: list[TopicPartition] = []
        self._chances = 0
        self._said = ""

    # where to begin ------------------------------------------------------------------------------

    def open(self, position: dict[str, Any] | None) -> dict[str, Any]:
        """Connect, and return where reading begins: at the position, or as configured."""
        places, starts = self.broker.outlast(
            lambda: self._begin(position), self.reading.patience, self.say
        )
        fresh = self._ends if self.reading.from_end and position is None else starts
        self.offsets = {name_of(place): fresh[place] for place in places}
        self.offsets |= position["offsets"] if position is not None else {}
        if self.reading.to_end:
            self._targets = dict(self._ends)
        self._seek()
        if self._journal is not None and len(places) > 1:
            self.journal = Journal(self._journal)
        return {"topics": self.identities, "offsets": dict(self.offsets)}

    def _begin(
        self, position: dict[str, Any] | None
    ) -> tuple[list[TopicPartition], dict[TopicPartition, int]]:
        """Connect; return the partitions, and where each begins. Raises UnavailableError, DataError."""
        found = self.broker.topics(self.reading.topics)
        self.identities = {topic: identity for topic, (identity, _) in found.items()}
        if position is not None:
            self._compare(position["topics"], self.identities)
        self.lost = (position or {}).get("lost", 0)
        self._connect()
        places = places_of(found)
        with self.broker.explained():
            starts = bounds(self.consumer.beginning_offsets, places)
            self._ends = bounds(self.consumer.end_offsets, places)
        return places, starts

    def _connect(self) -> None:
        self.close_consumer()
        self.consumer = self._client()

    def _client(self, **settings: Any) -> Any:
        return self.broker.client(
            KafkaConsumer,
            group_id=self.reading.group,
            auto_offset_reset="none",
            enable_auto_commit=False,
            isolation_level="read_committed",
            allow_auto_create_topics=False,
            fetch_max_wait_ms=POLL_MS,
            max_partition_fetch_bytes=max(1 << 20, self.max_bytes + (1 << 16)),
            **settings,
        )

    def _seek(self) -> None:
        """Put the consumer where ``offsets`` says."""
        places = {place_of(name): offset for name, offset in self.offsets.items()}
        self.consumer.assign(list(places))
        for place, offset in places.items():
            self.consumer.seek(place, offset)
        self._heard = self._looked = time.monotonic()

    def _compare(self, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        for topic, identity in new.items():
            if old.get(topic, identity) != identity:
                raise DataError(
                    f"the topic {topic} is not the one read before: it was deleted and created anew; "
                    "read another topic, or start over with --fresh"
                )

    # reading -------------------------------------------------------------------------------------

    def read(self, position: dict[str, Any] | None = None) -> Iterator[Record | None]:
        """Yield the records from where ``open`` said; None: none is there just now."""
        if self.journal is not None:
            for name, _, last in self.journal.after(dict(self.offsets)):
                if name not in self.offsets:
                    raise StorageError(f"{self._journal}: damaged: there is no partition {name}")
                yield from self._again(place_of(name), last)
        while True:
            self._widen()
            polled = self._cut(self._poll())
            yield from self._taken(polled)
            if self._drained():
                return
            if not polled:
                yield None

    def _cut(
        self, polled: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Leave out what came after the run's end, and pass over what is no record."""
        if not polled:
            for name in self.offsets:
                self.offsets[name] = self._position(place_of(name))
        for place, end in self._targets.items():
            if place in polled and polled[place][-1].offset >= end:
                polled[place] = [record for record in polled[place] if record.offset < end]
                self._passed.add(place)
        return {place: records for place, records in polled.items() if records}

    def _taken(self, polled: dict[TopicPartition, list[ConsumerRecord]]) -> Iterator[Record]:
        places = sorted(polled)
        if self.journal is not None and polled:
            self.journal.append(
                (name_of(place), polled[place][0].offset, polled[place][-1].offset)
                for place in places
            )
        for place in places:
            name = name_of(place)
            for record in polled[place]:
                yield self._record(name, record)

    def _widen(self) -> None:
        """Read the partitions that were found to be new, too, unless the run has its end already.

        Until then, where there was but one, nobody had to note in which order they were read.
        """
        fresh = [name for name in map(name_of, self._found) if name not in self.offsets]
        self._found = []
        if not fresh or self.reading.to_end:
            return
        if self._journal is not None and self.journal is None:
            self.journal = Journal(self._journal)
            self.journal.append((name, 0, offset - 1) for name, offset in self.offsets.items())
        self.say(f"new partitions: {', '.join(fresh)}")
        self.offsets |= dict.fromkeys(fresh, 0)
        self._seek()

    def _again(self, place: TopicPartition, last: int) -> Iterator[Record | None]:
        """Yield the records of a partition up to an offset, and leave the others waiting."""
        others = [other for other in self.consumer.assignment() if other != place]
        name = name_of(place)
        self.consumer.pause(*others)
        while self._position(place) <= last:
            records = self._poll().get(place, [])
            for record in records:
                if record.offset <= last:
                    yield self._record(name, record)
            if not records:
                yield None
        self.offsets[name] = max(self.offsets[name], last + 1)
        self.consumer.seek(place, self.offsets[name])
        self.consumer.resume(*others)

    def _record(self, name: str, record: ConsumerRecord) -> Record:
        self.offsets[name] = record.offset + 1
        value = record.value if record.value is not None else b""
        return Record(
            value[: self.max_bytes],
            name,
            record.offset,
            record.partition,
            record.offset + 1,
            "tombstone" if record.value is None else "json",
            len(value) > self.max_bytes,
        )

    def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records that are there, by partition, and see to it that none stay away."""
        polled: dict[TopicPartition, list[ConsumerRecord]] = {}
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._look(now)
            self._looked = time.monotonic()
        try:
            polled = self.consumer.poll(POLL_MS, max_records=MOST_RECORDS)
        except OffsetOutOfRangeError as error:
            self._gap(error.args[0])
        except LogTruncationError as error:
            raise DataError(f"records that were read are gone: {error}") from error
        except NoOffsetForPartitionError:
            pass  # of a group's partition that is this run's only since this poll
        except AuthorizationError as error:
            raise UnavailableError(f"Kafka at {self.broker.bootstrap} refuses: {error}") from error
        except KafkaError as error:
            if not error.retriable:
                raise DataError(f"records cannot be read: {error}") from error
            self._tell(f"Kafka: {error}")
            time.sleep(POLL_MS / 1000)
        if polled:
            self._heard = time.monotonic()
            highest = ((place, self.consumer.highwater(place)) for place in polled)
            self._ends = self._ends | {place: end for place, end in highest if end is not None}
        self._chances += sum(map(len, polled.values())) < MOST_RECORDS
        return polled

    def _position(self, place: TopicPartition) -> int:
        """Return the offset behind what was polled, and behind what there is that is no record."""
        found: int | None = None
        try:
            found = self.consumer.position(place, timeout_ms=POLL_MS)
        except LogTruncationError as error:
            raise DataError(f"records that were read are gone: {error}") from error
        except KafkaError:
            pass  # the brokers are away, or the partition is another member's by now
        return self.offsets.get(name_of(place), 0) if found is None else found

    def _tell(self, text: str) -> None:
        """Say what is wrong, once for as long as it is."""
        if text != self._said:
            self.say(text)
        self._said = text

    def _gap(self, asked: Mapping[TopicPartition, int]) -> None:
        """Go on behind records that are gone, where that is wished."""
        with self.broker.explained():
            starts = bounds(self.consumer.beginning_offsets, list(asked))
        for place, offset in asked.items():
            name, start = name_of(place), starts[place]
            if offset > start:
                raise DataError(
                    f"{name} ends before offset {offset}, which is the next: it is not the one read "
                    "before; read another topic, or start over with --fresh"
                )
            gone = f"{name}: the records {offset} to {start - 1} are gone before they were read"
            if not self.reading.skip_gaps:
                raise DataError(
                    f"{gone}; source.gaps: skip goes on behind them, and a longer retention time "
                    "keeps it from happening again"
                )
            self.say(gone)
            self.lost += start - offset
            self.offsets[name] = start
            self.consumer.seek(place, start)

    def _look(self, now: float) -> None:
        """Ask whether brokers are there, topics the same, and partitions as still as they seem."""
        try:
            self._ends, found = self.broker.attended(self._ask)
        except (KafkaTimeoutError, UnavailableError) as error:
            of = f"Kafka at {self.broker.bootstrap}: {', '.join(self.reading.topics)}"
            away = now - self._heard
            if away > self.reading.patience:
                raise UnavailableError(
                    f"{of} cannot be had for {away:.0f} s (source.patience): {error}"
                ) from error
            self._tell(f"{of} cannot be had; waiting for it")
            return
        self._compare(self.identities, {topic: identity for topic, (identity, _) in found.items()})
        self._found = places_of(found)
        self._said, self._heard = "", time.monotonic()
        behind = {
            place: position
            for place, end in self._ends.items()
            if (position := self._position(place)) < end and place not in self.consumer.paused()
        }
        stalled = sorted(behind.items() & self._suspects.items())
        if stalled and self._chances >= CHANCES:
            names = ", ".join(name_of(place) for place, _ in stalled)
            self.say(f"no records of {names} though there are some; connecting anew")
            self._reconnect()
            behind = {}
        self._suspects, self._chances = behind, 0

    def _ask(self) -> tuple[dict[TopicPartition, int], dict[str, tuple[str, list[int]]]]:
        """Return where the partitions end, and what the topics are."""
        places = list(self.consumer.assignment())
        ends = bounds(self.consumer.end_offsets, places, ANSWER_MS // 2)
        return ends, self.broker.topics(self.reading.topics)

    def _reconnect(self) -> None:
        paused = self.consumer.paused()
        self._connect()
        self._seek()
        self.consumer.pause(*paused)

    def _drained(self) -> bool:
        """Tell whether everything has been read that was there when the run began."""
        return self.reading.to_end and all(
            place in self._passed or self.offsets[name_of(place)] >= end
            for place, end in self._targets.items()
        )

    # what the run asks ---------------------------------------------------------------------------

    def after(
        self, position: dict[str, Any], records: Sequence[Record], more: bool = False
    ) -> dict[str, Any]:
        """Return the position after records that stood next, whether or not more has been read."""
        offsets = position["offsets"] | {record.file: record.offset for record in records}
        return position | {"offsets": offsets, "lost": self.lost}

    def lag(self) -> dict[str, int]:
        """Return how many offsets each partition's end is ahead, as far as is known."""
        offsets = self.offsets
        return {
            name_of(place): max(0, end - offsets.get(name_of(place), end))
            for place, end in sorted(self._ends.items())
        }

    def acknowledge(self, position: dict[str, Any], number: int, sink: Sink) -> None:
        """Tell the group, for those who watch it, that a checkpoint holds the position."""
        if self.reading.group is not None:
            offsets = {
                place_of(name): OffsetAndMetadata(offset, "", -1)
                for name, offset in position["offsets"].items()
            }
            with suppress(KafkaError, Stopped):
                self.broker.attended(lambda: self.consumer.commit(offsets, timeout_ms=ANSWER_MS))

    def close_consumer(self) -> None:
        """Leave the brokers; closing twice is allowed."""
        if self.consumer is not None:
            consumer, self.consumer = self.consumer, None
            with suppress(KafkaError):
                consumer.close()

    def close(self) -> None:
        """Leave the brokers, and close the journal."""
        self.close_consumer()
        if self.journal is not None:
            self.journal.close()
