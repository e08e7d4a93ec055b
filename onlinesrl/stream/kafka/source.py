"""Examples from Kafka: each record once, in a repeatable order, from the position in the checkpoint.

Only the checkpoint's position counts; offsets are committed to a consumer group for monitoring.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)
from msgspec import Meta

from onlinesrl.core.errors import DataError, StorageError, UnavailableError
from onlinesrl.core.io.restoring import Natural
from onlinesrl.stream.kafka.client import (
    ANSWER_MS,
    CODECS,
    Broker,
    ConsumerOptions,
    bounds,
    name_of,
    place_of,
    places_of,
    record_of,
)
from onlinesrl.stream.read_order import Journal
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import Stopped
from onlinesrl.stream.source import IteratedSource

POLL_MS = 100
MOST_RECORDS = 500
LOOK_SECONDS = 10.0
"""How often the brokers are asked for the state of topics and partitions."""
CHANCES = 2
"""After how many polls without its records a partition counts as stalled."""


class KafkaPosition(TypedDict):
    """The topics' identities by name, the next offset by partition, and how many records were lost.

    ``journal`` is the number of bytes of the file of the order that the position is past.
    """

    topics: dict[str, str]
    offsets: dict[Annotated[str, Meta(pattern=r"\[[0-9]{1,9}\]$")], Natural]
    lost: NotRequired[Natural]
    journal: NotRequired[Natural]


class KafkaSource(IteratedSource):
    """The records of all partitions of some topics; ``read`` yields None when there is none for now.

    The order in which records of several partitions are read is noted in the file ``journal``.
    Methods raise UnavailableError if brokers are unavailable or a topic is missing, DataError if a topic
    was created again or records were deleted.
    """

    Position: ClassVar[Any] = KafkaPosition | None
    live = True

    def __init__(
        self,
        broker: Broker,
        options: ConsumerOptions,
        journal: Path | None,
        say: Callable[[str], None],
    ) -> None:
        self.broker = broker
        self.options = options
        self.journal: Journal | None = None
        self._journal = journal
        self.say = say
        self.max_bytes = options.max_bytes
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

    def open(self, position: dict[str, Any] | None) -> None:
        """Connect; reading starts at the position, or as configured."""
        places, starts = self.broker.outlast(
            lambda: self._begin(position), self.options.patience, self.say
        )
        fresh = self._ends if self.options.from_end and position is None else starts
        self.offsets = {name_of(place): fresh[place] for place in places}
        self.offsets |= position["offsets"] if position is not None else {}
        if self.options.to_end:
            self._targets = dict(self._ends)
        self._seek()
        if self._journal is not None and len(places) > 1:
            self.journal = Journal(self._journal, (position or {}).get("journal", 0))
        super().open(self._position_now())

    def open_span(self, partition: str, start: int, end: int) -> None:
        """Connect, and read only the records of a partition from an offset to another, without that."""
        self.broker.outlast(lambda: self._begin(None), self.options.patience, self.say)
        self.offsets, self._targets = {partition: start}, {place_of(partition): end}
        self._seek()

    def _begin(
        self, position: dict[str, Any] | None
    ) -> tuple[list[TopicPartition], dict[TopicPartition, int]]:
        """Connect; return the partitions and their first offsets. Raises UnavailableError, DataError."""
        topics = self.broker.topics(self.options.topics)
        self.identities = {topic: identity for topic, (identity, _) in topics.items()}
        if position is not None:
            self._compare(position["topics"], self.identities)
        self.lost = (position or {}).get("lost", 0)
        self._connect()
        places = places_of(topics)
        with self.broker.explained():
            starts = bounds(self.consumer.beginning_offsets, places)
            self._ends = bounds(self.consumer.end_offsets, places)
        return places, starts

    def _connect(self) -> None:
        self.close_consumer()
        self.consumer = self.broker.client(
            KafkaConsumer,
            group_id=self.options.group,
            auto_offset_reset="none",
            enable_auto_commit=False,
            isolation_level="read_committed",
            allow_auto_create_topics=False,
            fetch_max_wait_ms=POLL_MS,
            max_partition_fetch_bytes=1 << 20
            if self.options.in_turn
            else max(1 << 20, self.max_bytes + (1 << 16)),
        )

    def _seek(self) -> None:
        """Move the consumer to ``offsets``."""
        places = {place_of(name): offset for name, offset in self.offsets.items()}
        self.consumer.assign(list(places))
        for place, offset in places.items():
            self.consumer.seek(place, offset)
        self._heard = self._looked = time.monotonic()

    def _compare(self, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        for topic, identity in new.items():
            if old.get(topic, identity) != identity:
                raise DataError(
                    f"the topic {topic} is not the one read before: it was deleted and created again; "
                    "read another topic, or start over with --fresh"
                )

    def read(self, position: dict[str, Any] | None = None) -> Iterator[Record | None]:
        """Yield the records from the position of ``open`` on; None: there are none for now."""
        if self.journal is not None:
            for name, _, last in self.journal.after(dict(self.offsets)):
                if name not in self.offsets:
                    raise StorageError(f"{self._journal}: damaged: there is no partition {name}")
                yield from self._again(place_of(name), last)
        while True:
            self._widen()
            polled = self._cut(self._poll())
            yield from self._taken(polled)
            if self.options.to_end and all(map(self.over, map(name_of, self._targets))):
                return
            if not polled:
                yield None

    def over(self, name: str) -> bool:
        """Tell whether what was in a partition when the run started has been read, if the run ends there."""
        place = place_of(name)
        return place in self._passed or self.offsets[name] >= self._targets.get(place, math.inf)

    def polled(self, names: Collection[str]) -> list[Record]:
        """Return the records of one poll, of these partitions; for ``in_turn``, instead of ``read``."""
        self._widen()
        places, paused = {*map(place_of, names)}, self.consumer.paused()
        self.consumer.pause(*(self.consumer.assignment() - places - paused))
        self.consumer.resume(*(places & paused))
        return [*self._taken(self._cut(self._poll()))]

    def at_end(self, names: Collection[str]) -> list[str]:
        """Ask the brokers which partitions have been read to their end; none if they do not answer.

        Raises DataError, Stopped.
        """
        ask = partial(bounds, self.consumer.end_offsets, [*map(place_of, names)], ANSWER_MS // 2)
        try:
            ends = self.broker.attended(ask)
        except KafkaError:
            return []
        return [name_of(place) for place, end in ends.items() if self._position(place) >= end]

    def _cut(
        self, polled: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Remove what came after the end of the run, and move past offsets without records."""
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
        """Start to read new partitions, unless the run has a fixed end.

        A journal is needed as soon as there are several partitions.
        """
        fresh = [name for name in map(name_of, self._found) if name not in self.offsets]
        self._found = []
        if not fresh or self.options.to_end:
            return
        if self._journal is not None and self.journal is None:
            self.journal = Journal(self._journal)
            self.journal.append((name, 0, offset - 1) for name, offset in self.offsets.items())
        self.say(f"new partitions: {', '.join(fresh)}")
        self.offsets |= dict.fromkeys(fresh, 0)
        self._seek()

    def _again(self, place: TopicPartition, last: int) -> Iterator[Record | None]:
        """Yield the records of a partition up to an offset, with the others paused."""
        other_places = [other for other in self.consumer.assignment() if other != place]
        name = name_of(place)
        self.consumer.pause(*other_places)
        while self._position(place) <= last:
            records = self._poll().get(place, [])
            for record in records:
                if record.offset <= last:
                    yield self._record(name, record)
            if not records:
                yield None
        self.offsets[name] = max(self.offsets[name], last + 1)
        self.consumer.seek(place, self.offsets[name])
        self.consumer.resume(*other_places)

    def _record(self, name: str, record: ConsumerRecord) -> Record:
        self.offsets[name] = record.offset + 1
        return record_of(name, record, self.max_bytes)

    def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the available records by partition; check the brokers at intervals."""
        polled: dict[TopicPartition, list[ConsumerRecord]] = {}
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._look(now)
            self._looked = time.monotonic()
        try:
            most = sys.maxsize if self.options.in_turn else MOST_RECORDS
            polled = self.consumer.poll(POLL_MS, max_records=most)
        except OffsetOutOfRangeError as error:
            self._gap(error.args[0])
        except LogTruncationError as error:
            place = min(error.divergent_offsets)
            raise _shorter(place, self.offsets.get(name_of(place), 0)) from error
        except AuthorizationError as error:
            raise UnavailableError(f"Kafka at {self.broker.bootstrap} refuses: {error}") from error
        except UnsupportedCodecError as error:
            raise UnavailableError(f"records cannot be read: {error}; {CODECS}") from error
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
        """Return the offset after what was polled, including offsets without records."""
        position: int | None = None
        try:
            position = self.consumer.position(place, timeout_ms=POLL_MS)
        except LogTruncationError as error:
            place = min(error.divergent_offsets)
            raise _shorter(place, self.offsets.get(name_of(place), 0)) from error
        except KafkaError:
            pass  # brokers unavailable
        return self.offsets.get(name_of(place), 0) if position is None else position

    def _tell(self, text: str) -> None:
        """Report a problem once, until it has passed."""
        if text != self._said:
            self.say(text)
        self._said = text

    def _gap(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Skip deleted records, if so configured; else raise DataError."""
        with self.broker.explained():
            starts = bounds(self.consumer.beginning_offsets, list(offsets))
        for place, offset in offsets.items():
            name, start = name_of(place), starts[place]
            if offset > start:
                raise _shorter(place, offset)
            gone = f"{name}: the records {offset} to {start - 1} were deleted before they were read"
            if not self.options.skip_gaps:
                raise DataError(
                    f"{gone}; source.gaps: skip continues after them, and a longer retention "
                    "time prevents it"
                )
            self.say(gone)
            self.lost += start - offset
            self.offsets[name] = start
            self.consumer.seek(place, start)

    def _look(self, now: float) -> None:
        """Check that brokers answer, topics are the same, and no partition is stalled."""
        try:
            self._ends, topics = self.broker.attended(self._ask)
        except (KafkaTimeoutError, UnavailableError) as error:
            name = f"Kafka at {self.broker.bootstrap}: {', '.join(self.options.topics)}"
            away = now - self._heard
            if away > self.options.patience:
                raise UnavailableError(
                    f"{name} unavailable for {away:.0f} s (source.patience): {error}"
                ) from error
            self._tell(f"{name}: unavailable; waiting for it")
            return
        self._compare(self.identities, {topic: identity for topic, (identity, _) in topics.items()})
        self._found = places_of(topics)
        self._said, self._heard = "", time.monotonic()
        behind = {
            place: position
            for place, end in self._ends.items()
            if (position := self._position(place)) < end and place not in self.consumer.paused()
        }
        stalled = sorted(behind.items() & self._suspects.items())
        if stalled and self._chances >= CHANCES:
            names = ", ".join(name_of(place) for place, _ in stalled)
            self.say(f"no records of {names} arrive, though there are some; reconnecting")
            paused = self.consumer.paused()
            self._connect()
            self._seek()
            self.consumer.pause(*paused)
            behind = {}
        self._suspects, self._chances = behind, 0

    def _ask(self) -> tuple[dict[TopicPartition, int], dict[str, tuple[str, list[int]]]]:
        """Return the end offsets of the partitions, and the topics."""
        places = list(self.consumer.assignment())
        ends = bounds(self.consumer.end_offsets, places, ANSWER_MS // 2)
        return ends, self.broker.topics(self.options.topics)

    def after(self, records: Sequence[Record]) -> dict[str, Any]:
        """See ``IteratedSource.after``."""
        return self._position_now() | {"lost": self.lost}

    def _position_now(self) -> dict[str, Any]:
        """Return the position after what was read, with that in the journal, if there is one."""
        offsets = dict(self.offsets)
        past = {} if self.journal is None else {"journal": self.journal.past(offsets)}
        return {"topics": self.identities, "offsets": offsets} | past

    def lag(self) -> dict[str, int]:
        """Return how many offsets each partition is behind its end, as far as known."""
        offsets = self.offsets
        return {
            name_of(place): max(0, end - offsets.get(name_of(place), end))
            for place, end in sorted(self._ends.items())
        }

    def committed(self, position: dict[str, Any], number: int) -> None:
        """Commit the position of a checkpoint to the group, for monitoring."""
        if self.options.group is not None:
            offsets = {
                place_of(name): OffsetAndMetadata(offset, "", -1)
                for name, offset in position["offsets"].items()
            }
            with suppress(KafkaError, Stopped):
                self.broker.attended(lambda: self.consumer.commit(offsets, timeout_ms=ANSWER_MS))

    def close_consumer(self) -> None:
        """Disconnect; closing twice is allowed."""
        if self.consumer is not None:
            consumer, self.consumer = self.consumer, None
            with suppress(KafkaError):
                consumer.close()

    def close(self) -> None:
        """Disconnect, and close the journal."""
        super().close()
        self.close_consumer()
        if self.journal is not None:
            self.journal.close()


def _shorter(place: TopicPartition, offset: int) -> DataError:
    """Return the error for a partition that ends before the next offset."""
    return DataError(
        f"{name_of(place)} ends before offset {offset}, which is the next: it is not the one read "
        "before; read another topic, or start over with --fresh"
    )
