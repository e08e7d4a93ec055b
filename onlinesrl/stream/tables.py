"""Examples from tables, one per predicate, in which a column says which example a row belongs to."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from onlinesrl.core.errors import StorageError, TableError
from onlinesrl.core.example import Constant
from onlinesrl.core.storage import storage_errors
from onlinesrl.logic.tables import PARQUET, VALUE, connect, duckdb_errors
from onlinesrl.stream.files import Record
from onlinesrl.stream.ledger import AGAIN
from onlinesrl.stream.protocols import Source

PARTS = ("evidence", "truth", "query")
CHUNK_ROWS = 4096
_LEAST_BYTES = 4
"""A row's text in an example has at least so many bytes."""
_TYPES = {"VARCHAR": str} | {
    f"{sign}{size}INT": int for sign in ("", "U") for size in ("", "TINY", "SMALL", "BIG", "HUGE")
}
_TYPES["INTEGER"] = _TYPES["UINTEGER"] = int
_NUMBERS = {*_TYPES} - {"VARCHAR"} | {"FLOAT", "DOUBLE", "BOOLEAN"}


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


Rows = Iterable[tuple[Constant, Any]]
"""Pairs of an example's name and an atom, in ascending order of the names."""


def merged(tables: Mapping[tuple[str, str], Rows], most: int) -> Iterator[tuple[Constant, Any]]:
    """Yield examples in ascending order of their names: name, and atoms by part and predicate.

    ``tables`` has rows by part and predicate. Of a table with more rows for an example it takes the first
    ``most``. Raises TableError where names are numbers in a table and text in another.
    """
    parts = dict.fromkeys(part for part, _ in tables)
    grouped = {key: groupby(rows, itemgetter(0)) for key, rows in tables.items()}
    heads = {key: next(groups, None) for key, groups in grouped.items()}
    _check_kinds({key: head[0] for key, head in heads.items() if head is not None})
    while names := [head[0] for head in heads.values() if head is not None]:
        name = min(names)
        atoms: dict[str, dict[str, list[Any]]] = {part: {} for part in parts}
        for (part, predicate), head in heads.items():
            if head is not None and head[0] == name:
                atoms[part][predicate] = [row for _, row in islice(head[1], most)]
                heads[part, predicate] = next(grouped[part, predicate], None)
        yield name, atoms


def _check_kinds(names: Mapping[tuple[str, str], Constant]) -> None:
    kinds = {type(name): key for key, name in names.items()}
    if len(kinds) > 1:
        text, number = (" ".join(kinds[kind]) for kind in (str, int))
        raise TableError(f"examples have text as names in {text}, and numbers in {number}")


class TableSource(Source):
    """The examples of a folder of Parquet files, in ascending order of the column ``by``.

    The folders ``evidence`` and, where there are such, ``truth`` and ``query`` in it have a file
    ``PREDICATE.parquet`` each, or a folder of this name with files. An example is made into a line of
    JSON. Rows of an example keep their order in the files; ``only`` those of a range are read. Raises
    StorageError and TableError.
    """

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
            connection = opened.enter_context(connect(temp_directory=spill))
            connection.execute("SET enable_progress_bar = false")
            tables = {
                key: self._rows(connection.cursor(), files) for key, files in self.tables.items()
            }
            yield None
            yield from self._after(position, self._records(tables))

    def _after(self, position: Any, records: Iterator[Record]) -> Iterator[Record | None]:
        read, found = (0, "") if position is None else (position["examples"], "")
        for record in islice(records, read):
            found = record.sha256
            yield None
        if read and found != position["sha256"]:
            raise StorageError(
                f"{self.path}: the first {read:,} examples are not those that were read before; {AGAIN}"
            )
        yield from records

    def _records(self, tables: Mapping[tuple[str, str], Rows]) -> Iterator[Record]:
        encode, digest = msgspec.json.Encoder().encode, hashlib.sha256()
        examples = merged(tables, self.max_bytes // _LEAST_BYTES + 1)
        for number, (name, atoms) in enumerate(examples, 1):
            self.name = name
            value = encode({"id": name, **atoms})
            digest.update(value)
            too_long = len(value) > self.max_bytes
            yield Record(
                value[: self.max_bytes], str(self.path), number, 0, number, "json", too_long,
                digest.hexdigest(),
            )  # fmt: skip

    def _rows(self, cursor: Any, files: Sequence[Path]) -> Iterator[tuple[Constant, Any]]:
        """Yield the rows of a table, sorted: the example's name, and the atom."""
        listed = [str(file) for file in files]
        columns = self._columns(cursor, listed)
        arguments = [quoted(name) for name in columns if name not in {self.by, VALUE}]
        valued = VALUE in columns
        chosen = ", ".join([quoted(self.by), *arguments, *([VALUE] if valued else [])])
        condition, bounds = self.only.condition(quoted(self.by))
        cursor.execute(
            f"SELECT {chosen} FROM read_parquet(?, filename=true, file_row_number=true) "
            f"WHERE {condition} ORDER BY {quoted(self.by)} NULLS FIRST, filename, file_row_number",
            [listed, *bounds],
        )
        while rows := cursor.fetchmany(CHUNK_ROWS):
            if rows[0][0] is None:
                raise TableError(
                    f"{listed[0]}, column {self.by}: expected an example, found a null"
                )
            for name, *constants in rows:
                if valued:
                    value = constants.pop()
                    yield name, {"args": constants, "value": value}
                else:
                    yield name, constants

    def check(self, cursor: Any) -> None:
        """Raise TableError where a table has not the right columns."""
        for files in self.tables.values():
            self._columns(cursor, [*map(str, files)])

    def _columns(self, cursor: Any, files: Sequence[str]) -> list[str]:
        """Return the names of a table's columns, whose types are checked."""
        cursor.execute("DESCRIBE SELECT * FROM read_parquet(?)", [files])
        found = {name: kind for name, kind, *_ in cursor.fetchall()}
        if self.by not in found:
            raise TableError(
                f"{files[0]}: no column {self.by}, which says the example (source.by); "
                f"it has {', '.join(found)}"
            )
        for name, kind in found.items():
            if kind not in (_NUMBERS if name == VALUE else _TYPES):
                what = "numbers" if name == VALUE else "text or whole numbers"
                raise TableError(f"{files[0]}, column {name}: expected {what}, found {kind}")
        return [*found]

    def after(
        self, position: Any, records: Sequence[Record], more: bool = False, mark: None = None
    ) -> dict[str, Any]:
        """Return the position after records, the next that were read after a position."""
        if not records:
            return position or {"examples": 0, "sha256": ""}
        return {"examples": records[-1].line, "sha256": records[-1].sha256}

    def close(self) -> None:
        """Close what is open."""
        self._opened.close()


def quoted(name: str) -> str:
    """Return a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _listed(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield the predicates of a folder, with their files."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir():
            files = sorted(path.glob(f"*{PARQUET}"))
            if files:
                yield path.name, files
        elif path.suffix == PARQUET:
            yield path.stem, [path]
