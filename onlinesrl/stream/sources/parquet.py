"""Examples from tables, one per predicate, in which a column says which example a row belongs to."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from onlinesrl.core.errors import StorageError, TableError
from onlinesrl.core.example import Constant
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.io.restoring import Natural
from onlinesrl.logic.tables import PARQUET, connect, duckdb_errors, quoted
from onlinesrl.stream.source import Source
from onlinesrl.stream.sources.files import Record
from onlinesrl.stream.sources.read_log import AGAIN
from onlinesrl.stream.sources.table_rows import Relation, Rows, lines, rows, types

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
        given = [(bound, op) for bound, op in bounds if bound is not None]
        text = " AND ".join(f"{column} {op} ?" for _, op in given) or "true"
        nulls = f"{column} IS NULL OR " if self.first is None and self.after is None else ""
        return f"({nulls}{text})", [bound for bound, _ in given]


class TablePosition(TypedDict):
    """How many examples have been read, and the SHA-256 of their lines."""

    examples: Natural
    sha256: str


class TableSource(Source):
    """The examples of a folder of Parquet files, in ascending order of the column ``by``.

    The folders ``evidence`` and, where there are such, ``truth`` and ``query`` in it have a file
    ``PREDICATE.parquet`` each, or a folder of this name with files. An example is made into a line of
    JSON. Rows of an example keep their order in the files; ``only`` those of a range are read. Raises
    StorageError and TableError.
    """

    Position = TablePosition | None
    ahead = True

    def __init__(self, path: Path, by: str, max_bytes: int, only: Range = Range()) -> None:  # noqa: B008
        self.path = path
        self.only = only
        self.by = by
        self.max_bytes = max_bytes
        self.name: Constant = ""
        """The name of the example that was read last."""
        self._opened = ExitStack()
        with storage_errors(path, "read"):
            self.tables = {
                (part, name): files for part in PARTS for name, files in _listed(path / part)
            }
        if not any(part == "evidence" for part, _ in self.tables):
            raise StorageError(f"{path / 'evidence'}: no *{PARQUET} file in this folder")
        self.files = [str(file) for files in self.tables.values() for file in files]

    def read(self, position: Any = None) -> Iterator[Record | None]:
        """Yield the examples after a position; what comes before is read again and compared."""
        self._opened.close()
        self._opened = ExitStack()
        with self._opened as opened, duckdb_errors(self.path):
            spill = opened.enter_context(tempfile.TemporaryDirectory(prefix="onlinesrl-"))
            connection = opened.enter_context(connect(temp_directory=spill, **_SETTINGS))
            connection.execute("SET enable_progress_bar = false")
            tables = {
                key: self._rows(connection.cursor(), [*map(str, files)])
                for key, files in self.tables.items()
            }
            yield None
            yield from self._after(position, self._records(tables))

    def _after(self, position: Any, records: Iterator[Record]) -> Iterator[Record | None]:
        read, self._digest = 0 if position is None else position["examples"], hashlib.sha256()
        for record in islice(records, read):
            self._digest.update(record.value)
            yield None
        if read and self._digest.hexdigest() != position["sha256"]:
            raise StorageError(
                f"{self.path}: the first {read:,} examples are not those that were read before; {AGAIN}"
            )
        yield from records

    def _records(self, tables: Mapping[tuple[str, str], Rows]) -> Iterator[Record]:
        path, most, parts = str(self.path), self.max_bytes, dict.fromkeys(of for of, _ in tables)
        for number, (name, line) in enumerate(lines(tables, [*parts]), 1):
            self.name = name
            yield Record(line[:most], path, number, 0, number, "json", len(line) > most)

    def _rows(self, cursor: Any, files: list[str]) -> Rows:
        """Yield the rows of a table, by example."""
        kinds = self._types(cursor, files)
        condition, bounds = self.only.condition(quoted(self.by))
        of = Relation(f"{_ORDERED} WHERE {condition}", [files, *bounds], _PLACE)
        try:
            yield from rows(cursor, of, kinds, self.by, self.max_bytes)
        except TableError as error:
            raise TableError(f"{files[0]}, column {self.by}: {error}") from None

    def _types(self, cursor: Any, files: list[str]) -> dict[str, str]:
        of = Relation("read_parquet(?)", [files], _PLACE)
        return types(cursor, of, self.by, files[0], " (source.by)")

    def check(self, cursor: Any) -> None:
        """Raise TableError where a table has not the right columns."""
        for files in self.tables.values():
            self._types(cursor, [*map(str, files)])

    def after(
        self, position: Any, records: Sequence[Record], more: bool = False, mark: None = None
    ) -> dict[str, Any]:
        """Return the position after records, the next that were read after a position."""
        if not records:
            return position or {"examples": 0, "sha256": ""}
        self._digest.update(b"".join(record.value for record in records))
        return {"examples": records[-1].line, "sha256": self._digest.hexdigest()}

    def close(self) -> None:
        """Close what is open."""
        self._opened.close()


def _listed(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield the predicates of a folder, with their files."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir():
            files = sorted(path.glob(f"*{PARQUET}"))
            if files:
                yield path.name, files
        elif path.suffix == PARQUET:
            yield path.stem, [path]
