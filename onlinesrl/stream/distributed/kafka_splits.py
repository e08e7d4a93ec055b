"""What a topic has, cut into shards: ranges of offsets of its partitions, dealt in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec.structs import replace

from onlinesrl.core.errors import DataError, UnavailableError
from onlinesrl.core.io.restoring import Natural
from onlinesrl.core.parallel.executors import Pool
from onlinesrl.stream.distributed.file_splits import DEALT, Cut, CutPosition, Pieces, Stamp
from onlinesrl.stream.kafka.client import place_of
from onlinesrl.stream.kafka.source import KafkaSource
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import Stopped
from onlinesrl.stream.source import SourcePosition


class Span(NamedTuple):
    """The offsets of a partition from ``start`` to ``end``, which is not among them."""

    shard: int
    partition: str
    start: int
    end: int


def spans(ranges: Mapping[str, tuple[int, int]], count: int) -> list[Span]:
    """Cut the offsets of partitions into so many shards, in the order of the partitions."""
    total, pieces = sum(end - start for start, end in ranges.values()), count * DEALT
    ends = [total * n // pieces for n in range(1, pieces)]
    spans_, first = list[Span](), 0
    for partition, (start, end) in ranges.items():
        place = sum(bound <= first for bound in ends)
        inside = [start + bound - first for bound in ends if first < bound < first + end - start]
        for n, (low, high) in enumerate(pairwise([start, *inside, end])):
            if low < high:
                spans_.append(Span((place + n) % count, partition, low, high))
        first += end - start
    return spans_


class History(Cut):
    """The shards of what a topic has when the run begins. Raises what ``KafkaSource`` raises."""

    Position = CutPosition[tuple[Natural, str, Natural, Natural, str], Natural] | None

    def __init__(self, source: Callable[[], KafkaSource], topic: str, count: int) -> None:
        self._source, self._topic, self._count = source, topic, count
        self.max_bytes = 0
        self.pieces: list[Span] = []

    def begin(self, known_stamp: Stamp | None, pool: Pool) -> Stamp:
        """Ask the brokers what there is; a run that has begun goes on with what there was.

        Raises DataError where the topic was created again.
        """
        with closing(self._source()) as source:
            source.open(None)
            offsets = dict(source.offsets)
            identity = source.identities[self._topic]
            lag = source.lag()
        if known_stamp is not None:
            if any(topic_id != identity for *_, topic_id in known_stamp):
                raise DataError(
                    f"the topic {self._topic} is not the one read before: it was deleted and created "
                    "again; read another topic, or start over with --fresh"
                )
            self.pieces = [Span(*piece) for *piece, _ in known_stamp]
        else:
            names = sorted(offsets, key=place_of)
            ranges = {name: (offsets[name], offsets[name] + lag[name]) for name in names}
            self.pieces = spans(ranges, self._count)
        return [[*piece, identity] for piece in self.pieces]

    def committed(self, position: Any, number: int) -> None:
        """Commit to the group up to where each partition has been learned, for monitoring."""
        if position is None:
            return
        with closing(self._source()) as source, suppress(UnavailableError, Stopped):
            if source.options.group is not None:
                source.open(None)
                offsets = reached(self.pieces, position["shards"])
                source.committed({"offsets": offsets}, number)


def reached(spans: Sequence[Span], positions: Sequence[SourcePosition]) -> dict[str, int]:
    """Return of each partition the first offset that is still to be learned, or where the last span ends."""
    offsets = {span.partition: span.end for span in spans}
    for shard, at in enumerate(positions):
        if at is None:
            continue
        spans_left = [span for span in spans if span.shard == shard][at["piece"] :]
        for n, span in enumerate(spans_left):
            first = span.start if n or at["offset"] is None else at["offset"]
            if first < span.end:
                offsets[span.partition] = min(offsets[span.partition], first)
    return offsets


class Spans(Pieces):
    """The records of some spans. Raises what ``KafkaSource`` raises."""

    def __init__(
        self, source: Callable[[], KafkaSource], pieces: Sequence[Span], max_bytes: int
    ) -> None:
        super().__init__(pieces, max_bytes)
        self._source = source

    def records(self, number: int, piece: Span, offset: int | None, line: int) -> Iterator[Record]:
        """See ``Pieces.records``."""
        start = piece.start if offset is None else offset
        if start == piece.end:
            return
        with closing(self._source()) as source:
            source.open_span(piece.partition, start, piece.end)
            for record in source.read():
                if record is not None:
                    yield replace(record, index=number)
