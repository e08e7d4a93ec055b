"""Rows of several topics, merged by their times, as linked examples.

Each partition is an input of its own, in the order of its offsets. So how brokers answer decides nothing: the
order is that of the times in the rows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from onlinesrl.core.errors import DataError
from onlinesrl.core.io.restoring import Misfit, Natural
from onlinesrl.stream.kafka.source import KafkaSource
from onlinesrl.stream.linked_config import LinkedSection
from onlinesrl.stream.linked_rows import LinkedRows
from onlinesrl.stream.linked_source import BEFORE, READ, Input, LinkedPosition, LinkedSource
from onlinesrl.stream.record_form import RecordForm
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.shutdown import Stopped


class TopicsPosition(LinkedPosition):
    """Where rows are read again; the rest is that of ``KafkaPosition``."""

    topics: dict[str, str]
    offsets: dict[Annotated[str, Meta(pattern=r"\[[0-9]{1,9}\]$")], Natural]
    lost: Natural


class Partition(Input):
    """The rows of a partition, of which those are buffered that were polled and not read yet.

    The number of a row is the next offset, and floors are noted by the offset from which they hold.
    """

    def __init__(self, name: str, number: int, offset: int) -> None:
        super().__init__(name, number)
        self.rows = offset
        self.buffer = deque[Record]()

    def records(self, room: int) -> Sequence[Record]:
        """See ``Input.records``; it does not end."""
        return [self.buffer.popleft() for _ in range(min(room, len(self.buffer)))]

    def is_dry(self) -> bool:
        """See ``Input.is_dry``."""
        return not self.buffer

    def at(self) -> int:
        """Return the next offset."""
        return self.rows

    def count(self, record: Record) -> None:
        """See ``Input.count``."""
        self.rise_to_noted(record.line)
        self.rows = record.offset


class LinkedTopics(LinkedSource):
    """The linked examples of the rows of topics, which are read by one ``reader`` without an order."""

    Position = TopicsPosition | None

    def __init__(
        self,
        section: LinkedSection,
        reader: KafkaSource,
        journal: Path | None,
        folder: RunFolder | None,
    ) -> None:
        super().__init__([], RecordForm(None), LinkedRows(section, folder), journal)
        self.live, self.reader = True, reader
        self.partitions: dict[str, Partition] = {}
        self._error: DataError | Stopped | None = None

    def open(self, position: Any) -> None:
        """See ``Source.open``. Raises as ``KafkaSource.open``; Misfit, StorageError."""
        self.reader.open(position)
        self._begin(position)
        if position is not None:
            self._restore(position)
        self._widen(self.reader.offsets)

    def _restore(self, position: TopicsPosition) -> None:
        offsets = position["offsets"]
        if len(position["inputs"]) != len(offsets):
            raise Misfit("a position has other partitions than offsets")
        for (name, offset), at in zip(offsets.items(), position["inputs"], strict=True):
            self._add_partition(name, offset).restore(at)
        self.at_once = len(self.partitions) == 1
        noted = self._noted(offsets)
        self._widen(self.reader.offsets)
        self._restore_floors(noted)

    def _add_partition(self, name: str, offset: int) -> Partition:
        one = self.partitions[name] = Partition(name, len(self.inputs), offset)
        self.inputs.append(one)
        return one

    def _widen(self, offsets: Mapping[str, int]) -> None:
        """Add the partitions that are new; their rows are not before what has come out. Raises DataError."""
        fresh = [name for name in self.reader.offsets if name not in self.partitions]
        if not fresh:
            return
        if self.partitions and self.at_once:
            raise DataError(
                f"{fresh[0]} is new: rows of one partition come out in their order, and those of several by "
                "their times; start over with --fresh"
            )
        mark = self._mark() if self.partitions else BEFORE
        added = [self._add_partition(name, offsets.get(name, 0)) for name in fresh]
        self._raise([one for one in added if self._bound(one) < mark], mark)
        self.at_once = len(self.partitions) == 1

    def next_batch(self, room: int) -> Sequence[Record] | None:
        """See ``Source.next_batch``. Raises as ``KafkaSource.polled``."""
        if self._error is not None:
            raise self._error
        return super().next_batch(room)

    def snapshot(self) -> TopicsPosition:
        """See ``Source.snapshot``."""
        position, reader = super().snapshot(), self.reader
        pairs = zip(self.partitions, position["inputs"], strict=True)
        offsets = {name: one["at"] for name, one in pairs}
        return TopicsPosition(
            **position, topics=reader.identities, offsets=offsets, lost=reader.lost
        )

    def _n_waiting(self) -> int:
        """See ``LinkedSource``."""
        return super()._n_waiting() + sum(len(one.buffer) for one in self.partitions.values())

    def accepts(self, position: Any, number: int) -> bool:
        """See ``Source.accepts``."""
        return True

    def has_more(self, position: Any) -> bool:
        """See ``Source.has_more``."""
        return False

    def committed(self, position: Any, number: int) -> None:
        """See ``Source.committed``."""
        self.rows.journal.committed(number)
        self.reader.committed(position, number)

    def lag(self) -> dict[str, int]:
        """See ``Source.lag``."""
        return self.reader.lag()

    def close(self) -> None:
        """See ``Source.close``."""
        self.reader.close()
        super().close()

    # rows in the order of their times --------------------------------------------------------------

    def _over(self) -> bool:
        """See ``LinkedSource``: all of a run that ends is read."""
        ended = (not one.buffer and self.reader.over(one.name) for one in self.partitions.values())
        return all(ended)

    def _is_idle(self, one: Input) -> bool:
        """See ``LinkedSource``; a partition that has ended is idle."""
        return super()._is_idle(one) or (one.is_dry() and self.reader.over(one.name))

    def _news(self, inputs: Sequence[Input], room: int) -> bool:
        """See ``LinkedSource``: ask brokers; a partition that is not known to have nothing is awake."""
        asked = [one.name for one in inputs if not self.reader.over(one.name)]
        behind = {*asked}
        try:
            behind -= {*self.reader.at_end(asked)}
        except (DataError, Stopped) as error:
            self._error = error
        for one in inputs:
            if one.name in behind:
                one.heard = time.monotonic()
        if behind:
            self._poll()
        return bool(behind)

    def _read_any(self, inputs: Sequence[Input], room: int) -> bool:
        """See ``LinkedSource``; partitions without rows are polled first."""
        if all(one.is_dry() for one in inputs):
            self._poll()
        return super()._read_any(inputs, room)

    def _poll(self) -> None:
        """Put into the buffers what is polled of the partitions that have few rows there."""
        few = [name for name, one in self.partitions.items() if len(one.buffer) < READ]
        try:
            records = self.reader.polled(few)
            self._widen({})
        except (DataError, Stopped) as error:  # what was read before can still be learned from
            records, self._error = [], error
        for record in records:
            self.partitions[record.file].buffer.append(record)
