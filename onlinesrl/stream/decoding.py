"""From records to examples: decoding, databases, and the choice of groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from onlinesrl.core.errors import DataError, ExampleError, OnlinesrlError
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
from onlinesrl.stream.record_form import RecordForm
from onlinesrl.stream.records import Record
from onlinesrl.stream.source import Source

Content: TypeAlias = Example | ExampleError | Label | None
"""The decoded content of a record; None for a tombstone."""
Decoded: TypeAlias = tuple[Record, Content]
"""A record and its decoded content."""

READ_BYTES = 4 << 20
"""The most bytes of a micro-batch; decoded, they take some twenty times as much memory."""


class Batch(NamedTuple):
    """The next micro-batch. If ``dry``, the source has no more for now; empty and not dry, it has ended.

    ``mark`` is the source's, ``groups`` those of all examples that were read.
    """

    batch: list[Decoded]
    dry: bool
    mark: Any
    groups: list[str | None]
    size: int = 0
    """Bytes of all records that were read."""


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


def micro_batch(items: Iterator[Decoded | None], room: int) -> tuple[list[Decoded], bool]:
    """Take the next items: at most ``room``, until their bytes reach READ_BYTES.

    Also return whether the source has no more for now. An empty batch and False mean that it has ended.
    """
    batch: list[Decoded] = []
    size = 0
    for item in islice(items, room):
        if item is None:
            return batch, True
        batch.append(item)
        size += len(item[0].value)
        if size >= READ_BYTES:
            break
    return batch, False


class ExampleReader:
    """Decodes a source's records to examples, of the groups in ``only`` and not in ``without``.

    With ``labels`` a record may also be a Label. A tombstone decodes to None. A record that is no
    example becomes an ExampleError, whatever the choice of groups, since its group is not known. The
    ``form`` makes records to lines of examples; None: they are such lines.
    """

    def __init__(
        self,
        source: Source,
        query: Collection[str],
        only: Sequence[str] | None = None,
        without: Sequence[str] | None = None,
        labels: bool = False,
        dialect: Dialect = ALCHEMY,
        decoder: Decoder | None = None,
        form: RecordForm | None = None,
    ):
        self.source = source
        self.query = frozenset(query)
        self.choice = Choice(only, without)
        self.labels = labels
        self._begun: Iterator[Record | None] | None = None
        self.dialect = dialect
        self.decoder = decoder or _WholeExamples()
        self.form = form

    def read(self, position: dict[str, Any] | None = None) -> Iterator[Decoded | None]:
        """Yield records and examples after a position, and None where the source has no more for now."""
        for record in self.records(position):
            if record is None:
                yield None
                continue
            example = self.example(record)
            if self._taken(example):
                yield record, example
            del example  # before the next one is read

    def records(self, position: dict[str, Any] | None) -> Iterator[Record | None]:
        """Yield the records after a position, and None where the source has no more for now.

        Where the source ends with a DataError, what was read before can still be learned from.
        """
        begun, self._begun = self._begun, None
        try:
            yield from self.source.read(position) if begun is None else begun
        except DataError:
            yield None
            raise

    def more(self, position: dict[str, Any] | None, stopping: Callable[[], bool]) -> bool:
        """Tell whether there is more after a position; ``records`` then starts with it.

        Waits until that is known, or until the run is ``stopping`` to stop.
        """
        records = self.source.read(position)
        for record in records:
            if record is None and not stopping():
                continue
            if record is None or self._taken(self.example(record)):
                self._begun = chain([record], records)
                return record is not None
        self._begun = records
        return False

    def take(self, records: Iterator[Record | None], room: int) -> Batch:
        """Take the next micro-batch from a source's records: at most ``room`` examples, READ_BYTES of bytes.

        Another thread may call it: nothing of the reader changes, and groups are not noted.
        """
        batch: list[Decoded] = []
        groups: list[str | None] = []
        dry, size = False, 0
        while len(batch) < room and size < READ_BYTES and not dry:
            piece: list[Record] = []
            for record in islice(records, room - len(batch)):
                if record is None:
                    dry = True
                    break
                piece.append(record)
                size += len(record.value)
                if size >= READ_BYTES:
                    break
            if not piece:
                break
            contents = self._contents(piece)
            groups += [content.group for content in contents if isinstance(content, Example)]
            decoded_records = zip(piece, contents, strict=True)
            batch += decoded_records if self.choice.all else filter(self._chosen, decoded_records)
        mark = self.source.mark() if batch or groups else None
        return Batch(batch, dry or (size >= READ_BYTES and not batch), mark, groups, size)

    def _contents(self, records: Sequence[Record]) -> list[Content]:
        if any(record.kind != "json" or record.too_long for record in records):
            return [*map(self.example, records)]
        lines = [*map(self._line, records)]
        examples = iter(self.decoder.decode_all([x for x in lines if isinstance(x, bytes)]))
        decoded_lines = [next(examples) if isinstance(x, bytes) else x for x in lines]
        return [
            self._label(record) or content if isinstance(content, ExampleError) else content
            for record, content in zip(records, decoded_lines, strict=True)
        ]

    def _line(self, record: Record) -> bytes | Label | ExampleError | None:
        """Return the line of an example, or what else a record is; labels are never mapped."""
        if self.form is None:
            return record.value
        try:
            return self._label(record) or self.form.line(record)
        except ExampleError as error:
            return error

    def _chosen(self, item: Decoded) -> bool:
        return not isinstance(item[1], Example) or self.choice.has(item[1].group)

    def _taken(self, content: Content) -> bool:
        return not isinstance(content, Example) or self.choice.takes(content.group)

    def example(self, record: Record) -> Example | ExampleError | Label | None:
        """Return the example of a record, or the error."""
        if record.kind == "tombstone":
            return None
        if record.too_long:
            reason = f"longer than source.max_bytes ({self.source.max_bytes})"
            return ExampleError(reason, "too_long")
        try:
            if record.kind == "db":
                return self._world(record)
            line = self._line(record)
            return self.decoder.decode(line) if isinstance(line, bytes) else line
        except ExampleError as error:
            return self._label(record) or error

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
