"""Examples from tables, one per predicate, in which a column says which example a row belongs to."""

from __future__ import annotations

import hashlib
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypedDict

import msgspec
import numpy as np

from onlinesrl.core.errors import StorageError, TableError, UsageError
from onlinesrl.core.example import Constant
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.io.config_types import Existing, Name
from onlinesrl.core.io.restoring import Natural
from onlinesrl.logic.tables import (
    FLOATS,
    PARQUET,
    VALUE,
    column_types,
    connect,
    duckdb_errors,
    is_large,
    kind_of,
    plain,
    quoted,
)
from onlinesrl.stream.kernels import sorted_rows as k
from onlinesrl.stream.records import Record
from onlinesrl.stream.source import IteratedSource, Sections, Source, SourceContext, SourceSection
from onlinesrl.stream.sources.files import AGAIN

PARTS = ("evidence", "truth", "query")
CHUNK_ROWS = 4096
_SETTINGS = {"threads": 1, "memory_limit": "512MiB"}
_ORDERED = "read_parquet(?, filename=true, file_row_number=true)"
_PLACE = "filename, file_row_number"


class Range(NamedTuple):
    """Examples by name: from ``first`` on, behind ``after``, and before ``before``; None: no such bound."""

    first: Constant | None = None
    after: Constant | None = None
    before: Constant | None = None

    def condition(self, column: str) -> tuple[str, list[Constant]]:
        """Return the SQL for a column, and its parameters; a null is before all names."""
        bounds = ((self.first, ">="), (self.after, ">"), (self.before, "<"))
        limits = [(bound, op) for bound, op in bounds if bound is not None]
        text = " AND ".join(f"{column} {op} ?" for _, op in limits) or "true"
        nulls = f"{column} IS NULL OR " if self.first is None and self.after is None else ""
        return f"({nulls}{text})", [bound for bound, _ in limits]


class TablePosition(TypedDict):
    """How many examples have been read, the name of the last, and the SHA-256 of its line.

    ``rows`` is how many the tables had in all.
    """

    examples: Natural
    last: Constant
    sha256: str
    rows: Natural


class TableSource(IteratedSource):
    """The examples of a folder of Parquet files, in ascending order of the column ``by``.

    The folders ``evidence`` and, where there are such, ``truth`` and ``query`` in it have a file
    ``PREDICATE.parquet`` each, or a folder of this name with files. An example is made into a line of
    JSON, and its name is the record's offset. Rows of an example keep their order in the files; ``only``
    those of a range are read. Raises StorageError and TableError.
    """

    Position = TablePosition | None
    suffix = PARQUET

    def __init__(self, path: Path, by: str, max_bytes: int, only: Range = Range()) -> None:  # noqa: B008
        self.path = path
        self.only = only
        self.by = by
        self.max_bytes = max_bytes
        self._n_rows = 0
        self._opened = ExitStack()
        with storage_errors(path, "read"):
            self.tables = {
                (part, name): files for part in PARTS for name, files in self._listed(path / part)
            }
        if not any(part == "evidence" for part, _ in self.tables):
            raise StorageError(f"{path / 'evidence'}: no *{self.suffix} file in this folder")
        self.files = [str(file) for files in self.tables.values() for file in files]

    def read(self, position: Any = None) -> Iterator[Record | None]:
        """Yield the examples after a position, whose last example is read again and compared."""
        only = self.only if position is None else self.only._replace(first=position["last"])
        number = 1 if position is None else position["examples"]
        self._opened.close()
        self._opened = ExitStack()
        with self._opened as opened, duckdb_errors(self.path):
            spill = opened.enter_context(tempfile.TemporaryDirectory(prefix="onlinesrl-"))
            connection = opened.enter_context(connect(temp_directory=spill, **_SETTINGS))
            connection.execute("SET enable_progress_bar = false")
            readable = {
                key: [*map(str, files)] for key, files in self._readable(connection, spill).items()
            }
            tables = {
                key: self._rows(connection.cursor(), files, only) for key, files in readable.items()
            }
            self._n_rows = _count(connection, [*chain.from_iterable(readable.values())])
            yield None
            records = self._records(tables, number)
            if position is not None:
                last = next(records, None)
                if (
                    last is None
                    or [last.offset, _hash(last)] != [position["last"], position["sha256"]]
                    or self._n_rows < position["rows"]
                ):
                    raise StorageError(
                        f"{self.path}: the first {number:,} examples are not those that were read "
                        f"before; {AGAIN}"
                    )
            yield from records

    def _readable(self, connection: Any, spill: str) -> Mapping[tuple[str, str], Sequence[Any]]:
        """Return the Parquet files of the tables."""
        return self.tables

    def _records(self, tables: Mapping[tuple[str, str], Rows], first: int) -> Iterator[Record]:
        path, most = str(self.path), self.max_bytes
        parts = [*dict.fromkeys(part for part, _ in tables)]
        for number, (name, line) in enumerate(lines(tables, parts), first):
            yield Record(line[:most], path, number, 0, name, "json", len(line) > most)

    def _rows(self, cursor: Any, files: list[str], only: Range) -> Rows:
        """Yield the rows of a table, by example."""
        kinds = self._types(cursor, files)
        condition, bounds = only.condition(quoted(self.by))
        relation = Relation(f"{_ORDERED} WHERE {condition}", [files, *bounds], _PLACE)
        try:
            yield from rows(cursor, relation, kinds, self.by, self.max_bytes)
        except TableError as error:
            raise TableError(f"{files[0]}, column {self.by}: {error}") from None

    def _types(self, cursor: Any, files: list[str]) -> dict[str, str]:
        relation = Relation("read_parquet(?)", [files], _PLACE)
        return types(cursor, relation, self.by, files[0], " (source.by)")

    def check(self, cursor: Any) -> None:
        """Raise TableError where a table has not the right columns."""
        for files in self.tables.values():
            self._types(cursor, [*map(str, files)])

    def after(self, records: Sequence[Record]) -> dict[str, Any]:
        """See ``IteratedSource.after``."""
        last = records[-1]
        read = TablePosition(
            examples=last.line, last=last.offset, sha256=_hash(last), rows=self._n_rows
        )
        return dict(read)

    def close(self) -> None:
        """Close what is open."""
        super().close()
        self._opened.close()

    def _listed(self, folder: Path) -> Iterator[tuple[str, list[Path]]]:
        """Yield the predicates of a folder, with their files."""
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_dir():
                files = sorted(path.glob(f"*{self.suffix}"))
                if files:
                    yield path.name, files
            elif path.suffix == self.suffix:
                yield path.stem, [path]


def _hash(record: Record) -> str:
    return hashlib.sha256(record.value).hexdigest()


def _count(connection: Any, files: list[str]) -> int:
    """Return how many rows Parquet files have, as they say."""
    query = "SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata(?)"
    [(n_rows,)] = connection.execute(query, [files]).fetchall()
    return int(n_rows)


class ParquetSection(SourceSection):
    """Tables, one per predicate, in Parquet files."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"path"}

    name = "parquet"
    path: Existing
    """a folder with the folders evidence and truth, in which PREDICATE.parquet has a predicate's
    atoms."""
    by: Name = "id"
    """the column that says which example a row belongs to; examples come in ascending order of it."""

    def check(self, config: Sections) -> None:
        """Raise ValueError where labels come later: tables have them beside the evidence."""
        for key in "envelope", "mapping":
            if getattr(self, key) is not None:
                raise ValueError(f"source.{key}: the tables have atoms; leave it out")
        if config.labels is not None:
            raise ValueError(
                "labels: labels of tables are beside the evidence, in the folder truth"
            )

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        return None

    def make(self, setting: SourceContext) -> Source:
        """Return the tables' examples. Raises UsageError for a run without an end."""
        if setting.until == "forever":
            raise UsageError(f"{self.path}: tables have an end; leave out --until forever")
        return TableSource(self.path, self.by, self.max_bytes)


# the lines of examples ---------------------------------------------------------------------------


Rows: TypeAlias = Iterator[tuple[list[Any], list[bytes]]]
"""Names of some examples, in ascending order, and the atoms of each, as JSON between commas."""
_END: tuple[list[Any], list[bytes]] = ([], [])
_encode = msgspec.json.Encoder().encode


class Relation(NamedTuple):
    """A table in DuckDB: what SQL has after FROM, its parameters, and the columns that order its rows."""

    source: str
    given: list[Any]
    order: str


def types(cursor: Any, relation: Relation, by: str, name: str, key: str = "") -> dict[str, str]:
    """Return the types of a table's columns; its ``name`` and the ``key`` that says ``by`` are for messages.

    Raises TableError where a column has not the right type, unless there is no row.
    """
    column_types_ = column_types(cursor, relation.source, relation.given, name)
    if by not in column_types_:
        raise TableError(
            f"{name}: no column {by}, which says the example{key}; it has {', '.join(column_types_)}"
        )
    return column_types_


def lacking(kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield the SQL that says where a column of such a type has a null, or no finite number."""
    for name, kind in kinds.items():
        yield f"{quoted(name)} IS NULL"
        if kind in FLOATS:
            yield f"NOT isfinite({quoted(name)})"


def rows(cursor: Any, relation: Relation, kinds: Mapping[str, str], by: str, most: int) -> Rows:
    """Yield the rows of a table, whose columns have such types, by example; those of one keep their order.

    They are sorted unless they are in order already. Of an example with more than ``most`` bytes some may
    be left out. Raises TableError for a null in ``by``, StorageError where rows change while they are read.
    """
    example, source, kind = quoted(by), relation.source, kind_of(kinds[by])
    ascends = f"{example} IS NOT NULL AND {example} >= coalesce(lag({example}) OVER (), {example})"
    cursor.execute(f"SELECT bool_and(a) FROM (SELECT {ascends} a FROM {source})", relation.given)
    if cursor.fetchall() == [(False,)]:
        source += f" ORDER BY {example} NULLS FIRST, {relation.order}"
    query = f"SELECT {example}::VARCHAR, {_atom(kinds, by)}::VARCHAR || ',' FROM {source}"
    last_example, text = None, b""
    for names, texts in _batches(cursor.sql(query, params=relation.given)):
        examples: list[Any] = [*map(int if kind is int else bytes.decode, names)]
        if examples[0] == last_example:
            texts[0] = text + b"," + texts[0] if len(text) <= most else text
        elif last_example is not None:
            examples.insert(0, last_example)
            texts.insert(0, text)
        if examples != sorted(set(examples)):
            raise StorageError(f"{relation.given}: changed while it was read; {AGAIN}")
        last_example, text = examples.pop(), texts.pop()
        if examples:
            yield examples, texts
    if last_example is not None:
        yield [last_example], [text]


def _atom(kinds: Mapping[str, str], by: str) -> str:
    """Return the SQL for the atom of a row, as JSON."""
    constants = (
        plain(name, sql) + ("::JSON" if is_large(sql) else "")
        for name, sql in kinds.items()
        if name not in {by, VALUE}
    )
    arguments = f"json_array({', '.join(constants)})"
    if VALUE not in kinds:
        return arguments
    value, sql = VALUE, kinds[VALUE]
    if sql == "BOOLEAN":
        value = f"{VALUE}::TINYINT"
    elif sql in FLOATS:
        value = f"CASE WHEN isfinite({VALUE}) THEN {VALUE} END"
    elif is_large(sql) or kind_of(sql) is float:
        value = f"{VALUE}::DOUBLE"
    return f"json_object('args', {arguments}, '{VALUE}', {value})"


def _batches(relation: Any) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield the names of examples in two columns of text, sorted by the first, and the text of each."""
    import nanoarrow

    for batch in nanoarrow.c_array_stream(relation):
        names, texts = (batch.view().child(n) for n in (0, 1))
        if names.null_count:
            raise TableError("expected an example, found a null")
        start, row = np.array(names.buffer(1)), np.array(texts.buffer(1))
        name, text = bytes(names.buffer(2)), bytes(texts.buffer(2))
        first = np.zeros(batch.length, np.int64)
        first = first[: k.first_rows(np.frombuffer(bytearray(name), np.uint8), start, first)]
        stops = [*row[first].tolist(), int(row[-1])]
        yield (
            [
                name[a:b]
                for a, b in zip(start[first].tolist(), start[first + 1].tolist(), strict=True)
            ],
            [text[a : b - 1] for a, b in pairwise(stops)],
        )


def lines(
    tables: Mapping[tuple[str, str], Rows], parts: Sequence[str]
) -> Iterator[tuple[Constant, bytes]]:
    """Yield examples in ascending order of their names, as lines of JSON, from rows by part and predicate.

    Each has all these ``parts``, with or without atoms. Raises TableError where names are numbers in a
    table and text in another.
    """
    numbers = [[n for n, table in enumerate(tables) if table[0] == part] for part in parts]
    line = "".join(f',"{part}":{{%b}}' for part in parts).join(['{"id":%b', "}"]).encode()
    keys = [_encode(predicate) + b":[" for _, predicate in tables]
    blocks = [next(rows, _END) for rows in tables.values()]
    kinds = {
        type(names[0]): " ".join(table)
        for table, (names, _) in zip(tables, blocks, strict=True)
        if names
    }
    if len(kinds) > 1:
        raise TableError(
            f"examples have text as names in {kinds[str]}, and numbers in {kinds[int]}"
        )
    while ends := [names[-1] for names, _ in blocks if names]:
        end, atoms_by_table = min(ends), []
        for n, (rows, (names, texts)) in enumerate(zip(tables.values(), blocks, strict=True)):
            cut = bisect_right(names, end)
            atoms = [keys[n] + text + b"]" for text in texts[:cut]]
            atoms_by_table.append(dict(zip(names[:cut], atoms, strict=True)))
            blocks[n] = (names[cut:], texts[cut:]) if cut < len(names) else next(rows, _END)
        order = sorted(set().union(*atoms_by_table))
        inside = [_together([atoms_by_table[n] for n in table], order) for table in numbers]
        written = zip(map(_encode, order), *inside, strict=True)
        yield from zip(order, map(line.__mod__, written), strict=True)


def _together(tables: Sequence[Mapping[Constant, bytes]], order: Sequence[Constant]) -> list[bytes]:
    """Return what tables have for each example, one after the other."""
    columns = [[*map(table.get, order, repeat(b""))] for table in tables] or [[b""] * len(order)]
    if len(columns) == 1:
        return columns[0]
    return [b",".join(filter(None, parts)) for parts in zip(*columns, strict=True)]
