"""Tables in Parquet cut into shards: ranges of the names of examples, dealt in turn.

A shard reads its range only: DuckDB passes over the groups of rows that have none of it, so files should
be sorted by the example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from onlinesrl.core.example import Constant
from onlinesrl.core.io.restoring import Natural, converted
from onlinesrl.core.parallel.executors import Pool
from onlinesrl.logic.tables import connect, duckdb_errors, quoted
from onlinesrl.stream.distributed.file_splits import (
    DEALT,
    Cut,
    CutPosition,
    Pieces,
    Stamp,
    check_same,
)
from onlinesrl.stream.records import Record
from onlinesrl.stream.sources.line_reader import size_of, tail_of
from onlinesrl.stream.sources.parquet import CHUNK_ROWS, Range, TableSource


class TablePiece(NamedTuple):
    """Examples of a shard, from a name on and before another (None: without end).

    ``examples`` are those before it.
    """

    shard: int
    first: Any
    before: Any
    examples: int


_Name: TypeAlias = Constant | float | None
_Piece: TypeAlias = tuple[Natural, _Name, _Name, Natural]


class TableShards(Cut):
    """The shards of a folder of tables. Raises what ``TableSource`` raises."""

    Position = CutPosition[list[Any], Constant] | None

    def __init__(self, path: Path, by: str, max_bytes: int, count: int) -> None:
        self._source = TableSource(path, by, max_bytes)
        self._count, self.max_bytes = count, max_bytes
        self.path, self.by, self.files = path, by, self._source.files
        self.pieces: list[TablePiece] = []

    def begin(self, known_stamp: Stamp | None, pool: Pool) -> Stamp:
        """Compare the files with what they were, and cut them. Raises StorageError, TableError."""
        stamp: Stamp = [[-1, Path(file).name, tail_of(file, size_of(file))] for file in self.files]
        if known_stamp is not None:
            check_same([entry for entry in known_stamp if len(entry) == 3], stamp)
            pieces = converted([entry for entry in known_stamp if len(entry) != 3], list[_Piece])
            self.pieces = [TablePiece(*entry) for entry in pieces]
        else:
            evidence = [
                str(file)
                for (part, _), table_files in self._source.tables.items()
                if part == "evidence"
                for file in table_files
            ]
            read = "FROM read_parquet(?, union_by_name=true)"
            names = f"SELECT {quoted(self.by)}, count(*) {read} GROUP BY 1 ORDER BY 1 NULLS FIRST"
            with duckdb_errors(self.path), connect() as connection:
                self._source.check(connection.cursor())
                [total] = connection.execute(f"SELECT count(*) {read}", [evidence]).fetchone()
                rows = _rows(connection.execute(names, [evidence]))
                self.pieces = _pieces(rows, total, self._count)
        return [*stamp, *map(list, self.pieces)]


def _rows(result: Any) -> Iterator[tuple[Any, int]]:
    while rows := result.fetchmany(CHUNK_ROWS):
        for name, count in rows:
            yield int(name) if isinstance(name, Decimal) else name, count


def _pieces(examples: Iterator[tuple[Any, int]], total: int, count: int) -> list[TablePiece]:
    """Cut examples in ascending order, each with its rows, into so many shards; some may be empty."""
    firsts, pieces = list[tuple[int, Any, int]](), count * DEALT
    rows = number = 0
    for number, (name, example_rows) in enumerate(examples):
        place = min(rows * pieces // max(total, 1), pieces - 1)
        if not firsts or place > firsts[-1][0]:
            firsts.append((place, name if firsts else None, number))
        rows += example_rows
    ends = [name for _, name, _ in firsts[1:]] + [None]
    return [
        TablePiece(n % count, first, end, before)
        for n, ((_, first, before), end) in enumerate(zip(firsts, ends, strict=True))
    ]


class TablePieces(Pieces):
    """The examples of ranges of tables. Raises what ``TableSource`` raises."""

    def __init__(self, path: Path, by: str, pieces: Sequence[TablePiece], max_bytes: int) -> None:
        super().__init__(pieces, max_bytes)
        self.path, self.by = path, by

    def records(self, number: int, piece: TablePiece, offset: Any, line: int) -> Iterator[Record]:
        """See ``Pieces.records``; the offset is the name of an example."""
        first, before = (piece.first, piece.examples) if offset is None else (None, line)
        only = Range(first, offset, piece.before)
        with closing(TableSource(self.path, self.by, self.max_bytes, only)) as source:
            for record in source.read():
                if record is not None:
                    line = before + record.line
                    yield replace(record, line=line, index=number)
