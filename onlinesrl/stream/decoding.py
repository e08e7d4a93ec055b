"""From records to examples: decoding, databases, and the choice of groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from onlinesrl.core.errors import ExampleError, OnlinesrlError
from onlinesrl.core.example import (
    Atoms,
    Constant,
    Example,
    Label,
    ValuedAtom,
    decode,
    decode_label,
    decoded,
    show_ground_atom,
)
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.record_form import JsonValues, RecordForm
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import Stopped
from onlinesrl.stream.source import Source

Content: TypeAlias = Example | ExampleError | Label | None
"""The decoded content of a record; None for a tombstone or a note."""
Decoded: TypeAlias = tuple[Record, Content]
"""A record and its decoded content."""

BATCH = 1024
"""How many records are read at once where nothing depends on it."""


class Contents(NamedTuple):
    """What stands next in a source, decoded, without groups that are left out."""

    items: list[Decoded]
    records: int
    """How many records were read."""


class Decoder(Protocol):
    """Decodes lines of JSON; a learner does it in the form that its ``step`` takes."""

    def decode(self, line: bytes) -> Example:
        """Return the example of a line. Raises ExampleError."""
        ...

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        """Return the example of each line, or why it is none."""
        ...


class _WholeExamples(Decoder):
    """Decodes lines to examples with all their atoms in memory."""

    def decode(self, line: bytes) -> Example:
        return decode(line)

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        return [*map(decoded, lines)]


class RecordDecoder:
    """Decodes records to examples, and tells which of them are of the ``choice`` of groups.

    A record that is no example is an ExampleError, whatever the choice, since its group is not known. With
    ``labels`` a record may also be a Label. A tombstone or note decodes to None. The ``form`` makes records
    to lines of examples; None: they are such lines.
    """

    def __init__(
        self,
        query: Collection[str],
        max_bytes: int,
        choice: Choice | None = None,
        labels: bool = False,
        dialect: Dialect = ALCHEMY,
        decoder: Decoder | None = None,
        form: RecordForm | None = None,
    ):
        self.choice = choice or Choice()
        self.query = frozenset(query)
        self.max_bytes = max_bytes
        self.labels = labels
        self.dialect = dialect
        self.decoder = decoder or _WholeExamples()
        self.form = form

    @property
    def waits(self) -> bool:
        """Whether decoding may wait for others, as for a schema registry, and then raise Stopped."""
        return self.form is not None and not isinstance(self.form.values, JsonValues)

    def contents(self, records: Sequence[Record]) -> list[Content]:
        """Return the content of each record. Raises Stopped."""
        if any(record.kind != "json" or record.too_long or record.fault for record in records):
            return [*map(self.content, records)]
        lines = [*map(self._line, records)]
        examples = iter(self.decoder.decode_all([x for x in lines if isinstance(x, bytes)]))
        decoded_lines = [next(examples) if isinstance(x, bytes) else x for x in lines]
        return [
            self._label(record) or content if isinstance(content, ExampleError) else content
            for record, content in zip(records, decoded_lines, strict=True)
        ]

    def content(self, record: Record) -> Content:
        """Return the example or label of a record, or the error."""
        if record.kind in ("tombstone", "note"):
            return None
        if record.fault is not None:
            return record.fault
        if record.too_long:
            reason = f"longer than source.max_bytes ({self.max_bytes})"
            return ExampleError(reason, "too_long")
        try:
            if record.kind == "db":
                return self._world(record)
            line = self._line(record)
            return self.decoder.decode(line) if isinstance(line, bytes) else line
        except ExampleError as error:
            return self._label(record) or error

    def chooses(self, content: Content) -> bool:
        """Tell whether what a record is must not be left out."""
        return not isinstance(content, Example) or self.choice.has(content.group)

    def _line(self, record: Record) -> bytes | Label | ExampleError | None:
        """Return the line of an example, or what else a record is; labels are never mapped."""
        if self.form is None:
            return record.value
        try:
            return self._label(record) or self.form.line(record)
        except ExampleError as error:
            return error

    def _label(self, record: Record) -> Label | None:
        with suppress(ExampleError):
            return decode_label(record.value) if self.labels else None
        return None

    def _world(self, record: Record) -> Example:
        """Return a database as an example; atoms of query predicates are its truth."""
        from onlinesrl.logic.database import parse_db

        try:
            atoms = parse_db(record.value.decode(), record.file, self.dialect)
        except (OnlinesrlError, UnicodeDecodeError) as error:
            raise ExampleError(str(error).partition("\n")[0]) from None
        evidence: Atoms = {}
        truth: Atoms = {}
        for name, args, value, _ in atoms:
            constants: list[Constant] = list(args)
            if value is None:
                raise ExampleError(f"atom {show_ground_atom(name, args)} is given as unknown (?)")
            atom = constants if value is True else ValuedAtom(constants, float(value))
            (truth if name in self.query else evidence).setdefault(name, []).append(atom)
        stem = os.fsencode(Path(record.file).stem).decode(errors="backslashreplace")
        return Example(id=stem, evidence=evidence, truth=truth or None)


class ExampleReader:
    """Reads and decodes a source."""

    def __init__(self, source: Source, decoder: RecordDecoder):
        self.source = source
        self.decoder = decoder
        self.choice = decoder.choice
        self._ahead: Contents | None = None
        self._before: Any = None
        """The position before what is read ahead, or was read and not decoded."""
        self._undecoded = False

    def open(self, position: Any = None) -> None:
        """Open the source at a position, None: its start, unless ``more`` has."""
        if self._ahead is None:
            self.source.open(position)

    def snapshot(self) -> Any:
        """Return the position after the last batch, or where reading starts."""
        waits = self._ahead is not None or self._undecoded
        return self._before if waits else self.source.snapshot()

    def next_batch(self, room: int, condemned: str | None = None) -> Contents | None:
        """Return what stands next, of at most so many records.

        It has no items where there are no more for now, or where all are left out. None: at the end. A record
        that does not fit into memory is bad if it has been ``condemned``, for this reason; otherwise
        MemoryError is raised. Raises Stopped; nothing is read after it.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            return ahead
        if self.decoder.waits:
            self._before = self.source.snapshot()
        records = self.source.next_batch(room)
        if records is None:
            return None
        try:
            contents = self.decoder.contents(records)
        except Stopped:
            self._undecoded = True
            raise
        except MemoryError:
            if condemned is None:
                raise
            contents = [ExampleError(condemned, "crash") for _ in records]
        self.choice.note([content.group for content in contents if isinstance(content, Example)])
        decoded_records = zip(records, contents, strict=True)
        if self.choice.all:
            return Contents([*decoded_records], len(contents))
        items = [item for item in decoded_records if self.decoder.chooses(item[1])]
        return Contents(items, len(contents))

    def more(self, position: Any, stopping: Callable[[], bool]) -> bool:
        """Tell whether there is more after a position; ``next_batch`` then begins with it.

        Waits until that is known, or until the run is ``stopping`` to stop.
        """
        self.source.open(position)
        while not stopping() and (batch := self.next_batch(1)) is not None:
            if batch.items:
                self._ahead, self._before = batch, position
                return True
        return False

    def read(self, room: int = BATCH) -> Iterator[list[Decoded]]:
        """Yield all items from the start, in batches of at most ``room`` records, and close the source.

        An empty batch: there are no more for now.
        """
        with closing(self.source):
            self.open()
            while (batch := self.next_batch(room)) is not None:
                if batch.items or not batch.records:
                    yield batch.items

    def good(
        self, refuse: Callable[[Record, ExampleError], object]
    ) -> Iterator[tuple[Record, Example | Label]]:
        """Yield the examples and labels of the source with their records; ``refuse`` gets bad records."""
        for record, content in chain.from_iterable(self.read()):
            if isinstance(content, ExampleError):
                refuse(record, content)
            elif content is not None:
                yield record, content
