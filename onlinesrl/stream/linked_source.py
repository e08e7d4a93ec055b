"""Rows of several sources, merged by their times, as linked examples.

A row comes out when all sources have come past its time: the least of their latest times, less the lateness,
is later. Rows of the same time come out with labels first, then in the order of the sources and of their
rows. So the order depends on the rows alone. Rows of one source come out at once, in their order.

Only earlier rows of its own source make a row late. One with a time before that of a row that has come out
counts from the time of that row on: so does each row of one source, and a label there is never late. In
several sources there are such rows where a run had ended, or where their source was idle.

A source with nothing new holds the others back, until it has been idle for the declared time. Then its floor
rises to what the others have come to, and its later rows come out after that. The floor, and the number of
rows from which it holds, are noted before a row comes out, and are read there when rows are read again. So
the clock decides once.

A time further ahead of all before it in its source than rows are remembered is believed when that of the next
row is too. Until then it makes no row late. Where rows come out at once it is refused, and else when the next
one is back at the old times, or there is none.

A position has that of each source before the oldest batch with a row that has not come out, and the numbers
of such rows. The others are passed over when the batch is read again.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, NotRequired, TypeAlias, TypedDict

import msgspec
import numpy as np

from onlinesrl.core.errors import ConfigError, ExampleError, StorageError
from onlinesrl.core.io.located_yaml import Place
from onlinesrl.core.io.restoring import Expected, Natural, restored
from onlinesrl.stream.csv_rows import columns
from onlinesrl.stream.linked_config import LinkedSection, seconds
from onlinesrl.stream.linked_rows import ARRAY, LATEST, Label, LinkedRows, Row, Waiting
from onlinesrl.stream.read_order import Journal, Stretch
from onlinesrl.stream.record_form import RecordForm, place_of
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.source import READ_BYTES, Source

_encode = msgspec.json.Encoder().encode
READ = 256
"""So many rows of a source are read at once."""
BEFORE = -1e300
"""A time before all rows."""
Order: TypeAlias = tuple[float, int, int, int]
"""The time of a row, whether it is no label, the number of its source, and its own number there."""
Event: TypeAlias = tuple[Order, Record, Row | Label | ExampleError | None]
"""A row and what it is; None: a tombstone."""


class InputPosition(TypedDict):
    """Where a source is read again: its position, the rows before it, and their latest time.

    Of the rows from there to the number ``read``, those of the numbers ``waiting`` have not come out. No row
    from there on comes out before the ``floor``. The last row had the time ``ahead``, which is doubted.
    """

    at: Any
    rows: Natural
    latest: float
    read: Natural
    waiting: list[Natural]
    floor: NotRequired[float]
    ahead: NotRequired[float]


class LinkedPosition(TypedDict):
    """Where rows are read again, the latest time of one that came out, and what is remembered."""

    inputs: list[InputPosition]
    time: float
    linked: dict[str, int]
    journal: NotRequired[Natural]


class Input:
    """Rows that come in one order, with the numbers of those that wait to come out."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.batches = deque[InputPosition]()
        """Where the batches begin that have a row that waits."""
        self.waiting: dict[int, None] = {}
        self.rows = self.read = 0
        self.latest = self.floor = self.ahead = BEFORE
        self.notes = deque[tuple[int, float]]()
        """Floors that were noted, and the number of rows from which each holds."""
        self.again = set[int]()
        self.ended = self._dry = False
        self.heard = time.monotonic()

    def restore(self, position: InputPosition) -> None:
        """Go on from a position."""
        self.rows, self.latest = position["rows"], position["latest"]
        self.read, self.again = position["read"], set(position["waiting"])
        self.floor, self.ahead = position.get("floor", BEFORE), position.get("ahead", BEFORE)

    def records(self, room: int) -> Sequence[Record] | None:
        """Return the next rows, as ``Source.next_batch``."""
        raise NotImplementedError

    def at(self) -> Any:
        """Return how far rows have been read."""
        raise NotImplementedError

    def count(self, record: Record) -> None:
        """Note the number of the next row, and raise the floor to that noted for it."""
        self.rise_to_noted(self.rows)
        self.rows += 1

    def rise_to_noted(self, number: int) -> None:
        """Raise the floor to what was noted for a row, or one before it."""
        while self.notes and self.notes[0][0] <= number:
            self.rise(self.notes.popleft()[1])

    def rise(self, floor: float) -> None:
        """Raise the floor; a time before it is not doubted any more, since others have come past it."""
        self.floor = max(self.floor, floor)
        if self.ahead < self.floor:
            self.latest, self.ahead = max(self.latest, self.ahead), BEFORE

    def is_dry(self) -> bool:
        """Tell whether there were no rows when they were read last."""
        return self._dry

    def bound(self, lateness: float) -> float:
        """Return the time before which no row comes out any more."""
        return max(self.latest - lateness, self.floor)

    def next_batch(self, room: int) -> Sequence[Record] | None:
        """Return the next rows, as ``Source.next_batch``."""
        start = self.here()
        records = self.records(room)
        self._dry = not records
        if records:
            self.batches.append(start)
            self.heard = time.monotonic()
        else:
            self.rise_to_noted(self.rows)
        return records

    def here(self) -> InputPosition:
        """Return the position after what was read."""
        return {
            "at": self.at(),
            "rows": self.rows,
            "latest": self.latest,
            "read": max(self.read, self.rows),
            "waiting": [],
            "floor": self.floor,
            "ahead": self.ahead,
        }

    def came(self, number: int) -> None:
        """Note that a row has come out."""
        del self.waiting[number]
        first = next(iter(self.waiting), self.rows + 1)
        while len(self.batches) > 1 and self.batches[1]["rows"] < first:
            self.batches.popleft()

    def position(self) -> InputPosition:
        """Return where to read again."""
        again = sorted(number for number in self.again if number > self.rows)
        if not self.waiting:
            return {**self.here(), "waiting": again}
        start, read = self.batches[0], max(self.read, self.rows)
        return {**start, "read": read, "waiting": [*self.waiting, *again]}


class SourceInput(Input):
    """The rows of a source."""

    def __init__(self, source: Source, number: int) -> None:
        super().__init__(f"file {number + 1}", number)
        self.source = source

    def records(self, room: int) -> Sequence[Record] | None:
        """See ``Input.records``."""
        return self.source.next_batch(room)

    def at(self) -> Any:
        """See ``Input.at``."""
        return self.source.snapshot()


class LinkedSource(Source):
    """The linked examples of rows, and their truths."""

    Position: ClassVar[Any] = LinkedPosition | None

    def __init__(
        self,
        sources: Sequence[Source],
        form: RecordForm,
        rows: LinkedRows,
        journal: Path | None = None,
    ) -> None:
        self.sources = sources
        self.inputs: list[Input] = [SourceInput(source, n) for n, source in enumerate(sources)]
        self.form, self.rows = form, rows
        self.lateness, self.idle = seconds(rows.section.lateness), seconds(rows.section.idle)
        self.journal: Journal | None = None
        self._journal = journal
        self.at_once = len(sources) == 1
        self.answers = any(source.answers for source in sources)
        self.files = [file for source in sources for file in source.files]
        self.live = any(source.live for source in sources)
        self.retention = next((source.retention for source in sources), None)
        self._events: list[Event] = []
        self.time = BEFORE
        self._done: Callable[[], None] | None = None
        self._headers = set[bytes]()

    def open(self, position: LinkedPosition | None) -> None:
        """See ``Source.open``."""
        self._begin(position)
        for n, (one, source) in enumerate(zip(self.inputs, self.sources, strict=True)):
            at = None if position is None else position["inputs"][n]
            source.open(None if at is None else at["at"])
            if at is not None:
                one.restore(at)
        self._restore_floors(self._noted({one.name: one.rows for one in self.inputs}))

    def _begin(self, position: LinkedPosition | None) -> None:
        """Open the files of changes and of floors. Raises StorageError."""
        self.rows.journal.begin()
        if self._journal is not None:
            start = 0 if position is None else position.get("journal", 0)
            self.journal = Journal(self._journal, start)
        if position is not None:
            self.time = position["time"]

    def _noted(self, offsets: Mapping[str, int]) -> list[Stretch]:
        """Return the floors that were noted after a position. Raises StorageError."""
        return [] if self.journal is None else [*self.journal.after(offsets)]

    def _restore_floors(self, noted: Sequence[Stretch]) -> None:
        """Let the inputs rise to noted floors. Raises StorageError."""
        inputs = {one.name: one for one in self.inputs}
        for name, floor, offset in noted:
            if name not in inputs:
                raise StorageError(f"{self._journal}: damaged: there is no {name}")
            inputs[name].notes.append((offset, floor))

    def next_batch(self, room: int) -> Sequence[Record] | None:
        """See ``Source.next_batch``. Raises ConfigError for a CSV file without a column that rows need.

        Where clients wait for answers, nothing is read before what was read is out.
        """
        records, size = list[Record](), 0
        while len(records) < room and size < READ_BYTES:
            self._finish()
            if self.answers and records and not self._events:
                break
            event = self._event(room)
            if event is None:
                return records or (None if self._over() else records)
            record = self._record(*event)
            if record is not None:
                records.append(record)
                size += len(record.value)
        return records

    def snapshot(self) -> LinkedPosition:
        """See ``Source.snapshot``; what the last row changes is done."""
        self._finish()
        inputs, past = [one.position() for one in self.inputs], 0
        if self.journal is not None:
            offsets = zip(self.inputs, inputs, strict=True)
            past = self.journal.past({one.name: at["rows"] for one, at in offsets})
        return {"inputs": inputs, "time": self.time, "linked": self.rows.line(), "journal": past}

    def state(self) -> dict[str, Any]:
        """See ``Source.state``."""
        return {ARRAY: self.rows.save()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """See ``Source.restore``."""
        expected = {ARRAY: Expected(np.uint8, ("bytes",), 0, 255)}
        self.rows.restore(restored(arrays, expected)[ARRAY])

    def complaints(self) -> list[str]:
        """See ``Source.complaints``; rows may wait for those of another source."""
        said, n = self.rows.complaints(), self._n_waiting()
        if self.live and n and self.rows.section.idle is None:
            slowest = min(self.inputs, key=self._bound).name
            said.append(
                f"{n} rows wait for later ones of {slowest} (source.linked.idle: for how long)"
            )
        return said

    def _n_waiting(self) -> int:
        """Return how many rows were read and have not come out."""
        return len(self._events)

    def accepts(self, position: LinkedPosition | None, number: int) -> bool:
        """See ``Source.accepts``."""
        positions = self._positions(position)
        if len(positions) != len(self.sources):
            raise ConfigError(
                [
                    Place("source.path").problem(
                        f"{len(self.sources)} files of rows, and the run has read {len(positions)}; give the "
                        "same files, or start over with --fresh"
                    )
                ]
            )
        pairs = zip(self.sources, positions, strict=True)
        accepted = [source.accepts(at, number) for source, at in pairs]
        return all(accepted)

    def has_more(self, position: LinkedPosition | None) -> bool:
        """See ``Source.has_more``."""
        pairs = zip(self.sources, self._positions(position), strict=True)
        return any(source.has_more(at) for source, at in pairs)

    def _positions(self, position: LinkedPosition | None) -> list[Any]:
        """Return the positions of the sources."""
        nowhere = [None] * len(self.sources)
        return nowhere if position is None else [x["at"] for x in position["inputs"]]

    def committed(self, position: LinkedPosition | None, number: int) -> None:
        """See ``Source.committed``."""
        self.rows.journal.committed(number)
        for source, at in zip(self.sources, self._positions(position), strict=True):
            source.committed(at, number)

    def lag(self) -> dict[str, int]:
        """See ``Source.lag``."""
        return {name: n for source in self.sources for name, n in source.lag().items()}

    def close(self) -> None:
        """See ``Source.close``."""
        self.rows.journal.close()
        if self.journal is not None:
            self.journal.close()
        for source in self.sources:
            source.close()

    # rows in the order of their times --------------------------------------------------------------

    def _event(self, room: int) -> Event | None:
        """Return the next row, which stays the next until it is ``_passed``; None: there is none for now."""
        while not (self._events and (self.at_once or self._events[0][0][0] < self._mark())):
            if not self._more(min(room, READ)):
                return self._events[0] if self._events and self._over() else None
        return self._events[0]

    def _over(self) -> bool:
        """Tell whether there are no more rows to read."""
        return all(one.ended for one in self.inputs)

    def _mark(self) -> float:
        """Return the time before which no row of any source comes out any more."""
        return min((self._bound(one) for one in self.inputs if not one.ended), default=math.inf)

    def _bound(self, one: Input) -> float:
        return one.bound(self.lateness)

    def _is_idle(self, one: Input) -> bool:
        """Tell whether an input has had nothing new for the declared time."""
        return one.is_dry() and time.monotonic() - one.heard >= self.idle

    def _more(self, room: int) -> bool:
        """Raise the floor of idle inputs, or read on; tell whether that did anything."""
        by_bound = sorted((one for one in self.inputs if not one.ended), key=self._bound)
        idle = [*takewhile(self._is_idle, by_bound)]
        first = by_bound[len(idle) : len(idle) + 1]
        if first:
            limit = self._bound(first[0])
        else:
            latest = max(max(one.latest, one.floor) for one in self.inputs)
            times = (order[0] for order, _, _ in self._events if order[0] <= latest)
            limit = math.nextafter(max(times, default=-math.inf), math.inf)
        behind = [one for one in idle if self._bound(one) < limit]
        if behind and self._news(behind, room):
            return True
        return self._raise(behind, limit) or self._read_any(first or idle, room)

    def _news(self, inputs: Sequence[Input], room: int) -> bool:
        """Look whether inputs that seem idle have rows after all."""
        return self._read_any(inputs, room)

    def _raise(self, inputs: Sequence[Input], limit: float) -> bool:
        """Raise the floor of inputs to a time; tell whether there are any."""
        if self.journal is not None and inputs:
            self.journal.append((one.name, limit, one.rows) for one in inputs)
        for one in inputs:
            one.rise(limit)
        return bool(inputs)

    def _read_any(self, inputs: Sequence[Input], room: int) -> bool:
        """Read the next rows of inputs; tell whether that did anything."""
        return any(self._read_on(one, room) for one in inputs)

    def _read_on(self, one: Input, room: int) -> bool:
        """Read the next rows of an input; tell whether there were some, or it has ended."""
        records = one.next_batch(room)
        one.ended = records is None
        for record in records or ():
            self._add(one, record)
        return one.ended or bool(records)

    def _add(self, one: Input, record: Record) -> None:
        """Put a row among those that come out, unless it has come out before."""
        one.count(record)
        came = one.rows <= one.read and one.rows not in one.again
        now = max(one.latest, one.floor)
        row: Row | Label | ExampleError | None = None
        try:
            if record.kind != "tombstone":
                row = self._read(record)
                self._check_late(row, one)
                if isinstance(row, Row) or not self.at_once:
                    now = max(row.time, one.floor)
                    self._note_time(one, row.time)
                if self.at_once and self._is_doubted(one, row.time):
                    raise self._ahead(row)
        except ExampleError as error:
            row = error
        if came:
            return
        one.waiting[one.rows] = None
        order = (now, int(isinstance(row, Row)), one.number, one.rows)
        if self.at_once:
            self._events.append((order, record, row))
        else:
            heappush(self._events, (order, record, row))

    def _is_doubted(self, one: Input, at: float) -> bool:
        """Tell whether a time is further ahead in its input than rows are remembered."""
        return -LATEST <= max(one.latest, one.floor) < at - self.rows.within

    def _confirms(self, one: Input, at: float) -> bool:
        """Tell whether the time of a row says the same as that of the one before it, which is doubted."""
        return BEFORE < one.ahead <= at + self.rows.within and self._is_doubted(one, at)

    def _note_time(self, one: Input, at: float) -> None:
        """Note the time of a row that is not late."""
        if self._confirms(one, at):
            one.latest = at if self.at_once else one.ahead
        elif one.ahead > BEFORE:
            self._strike(one)
        one.ahead = at if self._is_doubted(one, at) else BEFORE
        if one.ahead == BEFORE:
            one.latest = max(one.latest, at)

    def _strike(self, one: Input) -> None:
        """Make a bad row of the one whose time was ahead alone; it comes out at the latest time before."""
        for n, (order, record, row) in enumerate(self._events):
            if order[0] == one.ahead and order[2] == one.number and isinstance(row, Row | Label):
                now = max(one.latest, one.floor)
                self._events[n] = (now, *order[1:]), record, self._ahead(row)
                heapify(self._events)
                return

    def _ahead(self, row: Row | Label) -> ExampleError:
        """Return the error of a row whose time is not believed."""
        return ExampleError(
            f"linked.{_part(row)}.time: further ahead of all before it than rows are remembered "
            f"(linked.within: {self.rows.section.within}), and the next one does not say the same",
            "ahead",
            row.id,
        )

    def _read(self, record: Record) -> Row | Label:
        """Return the row or label that a record is. Raises ExampleError."""
        if record.too_long:
            raise ExampleError("longer than source.max_bytes", "too_long")
        value = self.form.value(record)
        self._check(record, value)
        return self.rows.read(value, place_of(record))

    def _check_late(self, row: Row | Label, one: Input) -> None:
        """Raise ExampleError if a row is late."""
        early = one.latest - self.lateness - row.time
        if early > 0 and not (self.at_once and isinstance(row, Label)):
            raise ExampleError(
                f"linked.{_part(row)}.time: {early:g} s earlier than what was read before it may be "
                f"(linked.lateness: {self.rows.section.lateness})",
                "late",
                row.id,
            )

    def example(self, record: Record) -> bytes:
        """Return the line of the example that a row would be now. Raises ExampleError."""
        row = self._read(record)
        if isinstance(row, Label):
            raise ExampleError("it is a label: there is nothing to predict", example_id=row.id)
        one = self.inputs[0]
        self._check_late(row, one)
        if self._is_doubted(one, row.time) and not self._confirms(one, row.time):
            raise self._ahead(row)
        row.time = max(row.time, self.time)
        return self.rows.example(row)

    def _check(self, record: Record, value: Any) -> None:
        """Raise ConfigError if the header of a CSV file lacks a column that its rows need."""
        if not record.header or record.header in self._headers or self.rows.is_label(value):
            return
        names = columns(record.header, self.form.encoding)
        for name, key in self.rows.required.items():
            if name not in names:
                labels = ", ".join(map(str, self.rows.of_labels))
                raise ConfigError(
                    [
                        Place(record.file, 1, 1).problem(
                            f"source.linked.{key}: {name} is no column; this file has {', '.join(names)}. A "
                            f"file of labels has {labels} (source.linked.labels)"
                        )
                    ]
                )
        self._headers.add(record.header)

    # what becomes of a row --------------------------------------------------------------------------

    def _record(
        self, order: Order, record: Record, row: Row | Label | ExampleError | None
    ) -> Record | None:
        """Return the record that the next row becomes, if it becomes one, or that of a label given up."""
        if row is None:
            self._done = lambda: self._pass(order, None)
            return record
        now = self.time
        if not isinstance(row, ExampleError):
            row.time = max(row.time, now)
            if not (self.at_once and isinstance(row, Label)):
                now = row.time
            one = self.inputs[order[2]]
            if now == one.ahead and now > max(other.latest for other in self.inputs):
                row = self._ahead(row)
        if not isinstance(row, ExampleError) and (waiting := self.rows.expired(row)) is not None:
            section, name = self.rows.section, waiting.label.id
            reason = (
                f"linked.labels: no row with this id came within {section.within} (linked.within), or more "
                f"than {section.most} labels waited (linked.most)"
            )
            self._done = lambda: self.rows.drop(waiting)
            fault = ExampleError(reason, example_id=name)
            return Record(waiting.value, waiting.file, waiting.line, 0, 0, fault=fault)

        def waits(label: Label) -> Waiting:
            return Waiting(label, record.value, record.file, record.line)

        line, then = None, None
        try:
            if isinstance(row, ExampleError):
                raise row
            line, then = self.rows.take(row, waits)
        except ExampleError as error:
            made = Record(
                record.value, record.file, record.line, record.index, record.offset, fault=error
            )
            self._done = lambda: self._pass(order, None)
            return made
        if line is None:
            told = _encode(self.rows.told(row.id))
            self._pass(order, None, now)
            return Record(told, record.file, record.line, 0, 0, "note") if self.answers else None
        self._done = lambda: self._pass(order, then, now)
        return Record(line, record.file, record.line, record.index, record.offset)

    def _pass(self, order: Order, then: Callable[[], None] | None, now: float = BEFORE) -> None:
        """Take the next row, of the time ``now``, from those that wait, and do what it changes."""
        if self.at_once:
            self._events.pop(0)
        else:
            heappop(self._events)
        self.time = max(self.time, now)
        self.inputs[order[2]].came(order[3])
        if then is not None:
            then()

    def _finish(self) -> None:
        """Do what the last row changes."""
        done, self._done = self._done, None
        if done is not None:
            done()


def _part(row: Row | Label) -> str:
    """Return the section that a row is read by."""
    return "rows" if isinstance(row, Row) else "labels"


class RowForm(RecordForm):
    """Makes of a row the example that it would be now, see ``LinkedSource.example``."""

    def __init__(self, source: LinkedSource) -> None:
        super().__init__(None, encoding=source.form.encoding)
        self.source = source

    def line(self, record: Record) -> bytes:
        """Return the line of a row's example. Raises ExampleError."""
        return self.source.example(record)


def linked_source(
    section: LinkedSection,
    sources: Sequence[Source],
    encoding: str,
    folder: RunFolder | None = None,
) -> LinkedSource:
    """Return the linked examples of sources of rows; a run has a ``folder``, and checkpoints."""
    has_floors = folder is not None and (section.idle is not None or folder.order.exists())
    journal = folder.order if folder is not None and has_floors else None
    form = RecordForm(None, encoding=encoding)
    return LinkedSource(sources, form, LinkedRows(section, folder), journal)
