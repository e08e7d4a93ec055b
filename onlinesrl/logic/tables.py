"""Tables of atoms, one per predicate, and their Parquet files.

The columns are the predicate's arguments in order; a column ``value`` has truth values or numbers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.core.errors import StorageError, TableError
from onlinesrl.core.example import GroundAtom, show_ground_atom
from onlinesrl.core.io.atomic_write import storage_errors, sync_folder
from onlinesrl.logic.database import Domains, Signature, load_db, valued_atom
from onlinesrl.logic.dialect import Dialect

PARQUET = ".parquet"
"""The suffix of Parquet files."""
VALUE = "value"
"""The column of truth values or numbers; without it, the value of every row is 1."""


def argument_names(types: Iterable[str | None], reserved: Sequence[str] = (VALUE,)) -> list[str]:
    """Return column names: the types of the arguments, numbered if a type is missing or repeated.

    The names are distinct, also from ``reserved``, without regard to case, because DuckDB ignores case.
    """
    names: list[str] = []
    for n, kind in enumerate(types, 1):
        name = kind or f"argument_{n}"
        while name.lower() in map(str.lower, (*names, *reserved)):
            name = f"{name}_{n}"
        names.append(name)
    return names


def with_names(
    types: Iterable[str | None], arguments: Iterable[Sequence[Any]], values: Sequence[float]
) -> dict[str, Sequence[Any]]:
    """Return the columns of atoms: arguments, named by their types, and values."""
    return {**dict(zip(argument_names(types), arguments, strict=True)), VALUE: values}


def unexpected(name: str, column: str, row: int, value: Any) -> TableError:
    """Return the error for a table value that is no constant (or no number, in the column ``value``)."""
    expected = "a number" if column == VALUE else "text or a whole number"
    value_text = "a null" if value is None else value
    return TableError(
        f"{name}, column {column}, row {row}: expected {expected}, found {value_text}"
    )


# columns in DuckDB -------------------------------------------------------------------------------

FLOATS = {"FLOAT", "DOUBLE"}
_WHOLE = {"INTEGER", "UINTEGER"} | {
    f"{sign}{size}INT" for sign in ("", "U") for size in ("", "TINY", "SMALL", "BIG", "HUGE")
}
_LARGE = re.compile(r"U?HUGEINT|DECIMAL\(\d+,0\)")
_DECIMAL = re.compile(r"DECIMAL\(\d+,\d+\)")
_ENUM = re.compile(r"ENUM\(.*\)", re.DOTALL)


def kind_of(sql: str) -> type | None:
    """Return the Python type of a DuckDB type: str, int or float; None for other types."""
    if sql in {"VARCHAR", "JSON"} or _ENUM.fullmatch(sql):
        return str
    if sql in _WHOLE or _LARGE.fullmatch(sql):
        return int
    return float if sql in FLOATS or sql == "BOOLEAN" or _DECIMAL.fullmatch(sql) else None


def is_large(sql: str) -> bool:
    """Tell whether integers of a DuckDB type may have more than 64 bits."""
    return _LARGE.fullmatch(sql) is not None


def column_types(cursor: Any, source: str, parameters: Sequence[Any], name: str) -> dict[str, str]:
    """Return DuckDB's types of the columns of a table; a table without rows may have any types.

    ``source`` is the SQL after FROM, with its ``parameters``; ``name`` is for messages. Raises TableError
    for a column of another type than text or integers (or numbers, in the column ``value``).
    """
    cursor.execute(f"DESCRIBE SELECT * FROM {source}", parameters)
    types = {column: sql for column, sql, *_ in cursor.fetchall()}
    for column, sql in types.items():
        if kind_of(sql) not in ({int, float} if column == VALUE else {str, int}):
            cursor.execute(f"SELECT {quoted(column)}::VARCHAR FROM {source} LIMIT 1", parameters)
            for (value,) in cursor.fetchall():
                value_text = repr(value) if kind_of(sql) is str else f"{value} ({sql})"
                raise unexpected(name, column, 0, None if value is None else value_text)
    return types


def columns_in(
    cursor: Any, source: str, parameters: Sequence[Any], name: str
) -> dict[str, list[Any]]:
    """Return the columns of a table in DuckDB.

    Raises TableError as in ``column_types``, and for a null or a number that is not finite.
    """
    types = column_types(cursor, source, parameters, name)
    selected = ", ".join(
        f"{plain(*column_type)} AS {quoted(column_type[0])}" for column_type in types.items()
    )
    arrays = cursor.execute(f"SELECT {selected} FROM {source}", parameters).fetchnumpy()
    columns: dict[str, list[Any]] = {}
    for column, array in arrays.items():
        values, bad = array.tolist(), np.ma.getmaskarray(array)
        if column == VALUE:
            bad |= ~np.isfinite(array)
        if bad.any():
            row = int(bad.argmax())
            raise unexpected(name, column, row, values[row])
        large = is_large(types[column]) and column != VALUE
        columns[column] = [*map(int, values)] if large else values
    return columns


def plain(column: str, sql: str) -> str:
    """Return the SQL that casts a column to a type of NumPy: text (also for large integers) or numbers."""
    if column == VALUE:
        return f"{quoted(column)}::DOUBLE"
    text = kind_of(sql) is str or is_large(sql)
    return f"{quoted(column)}::VARCHAR" if text else quoted(column)


def quoted(name: str) -> str:
    """Return a quoted name for SQL."""
    return '"' + name.replace('"', '""') + '"'


# Parquet -----------------------------------------------------------------------------------------


@contextmanager
def duckdb_errors(path: Path) -> Iterator[None]:
    """Turn an error of DuckDB or its Arrow stream into a StorageError with the path."""
    import duckdb

    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        message = str(error).partition("\n")[0]
        raise StorageError(f"{path}: {message}") from error


def connect(**settings: Any) -> Any:
    """Return a connection to an empty in-memory database that loads no extensions."""
    import duckdb

    settings["autoload_known_extensions"] = settings["autoinstall_known_extensions"] = False
    return duckdb.connect(config={"python_enable_replacements": False, **settings})


def read_parquet(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a Parquet file. Raises StorageError, and TableError as in ``columns_in``."""
    with storage_errors(path, "read"):
        path.stat()
    with duckdb_errors(path), connect() as connection:
        return columns_in(connection, "read_parquet(?)", [[str(path)]], str(path))


def load_atoms(
    path: Path, program: Signature, dialect: Dialect, domains: Domains | None = None
) -> list[GroundAtom]:
    """Read the atoms of a program from a database or a Parquet file, depending on the suffix.

    A Parquet file's name is the predicate, and the ``line`` of its atoms is their row, from 0. Raises
    DatabaseError, TableError, StorageError.
    """
    if path.suffix != PARQUET:
        return load_db(path, program, dialect, domains)
    columns = read_parquet(path)
    values = columns.pop(VALUE, None) or [None] * len(next(iter(columns.values()), ()))
    name = path.name.removesuffix(PARQUET)
    atoms: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for row, (value, *arguments) in enumerate(zip(values, *columns.values(), strict=True)):
        try:
            atom = valued_atom(name, arguments, value, row, program)
        except ValueError as error:
            raise TableError(f"{path}, row {row}: {error}") from None
        first = atoms.setdefault(atom[:2], atom)
        if first.value != atom.value:
            atom_text = show_ground_atom(*atom[:2])
            raise TableError(
                f"{path}, row {row}: {atom_text} has another value in row {first.line}"
            )
    return [*atoms.values()]


def write_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns to a Parquet file atomically. Raises StorageError."""
    with duckdb_errors(path), connect() as connection:
        connection.register("columns", {name: _array(column) for name, column in columns.items()})
        write_relation(path, connection.sql("SELECT * FROM columns"))


def write_relation(path: Path, relation: Any) -> None:
    """Write a relation of DuckDB to a Parquet file atomically. Raises StorageError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with storage_errors(path, "write"), duckdb_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        relation.write_parquet(str(temporary))
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - as in core.storage
        sync_folder(path.parent)


def _array(column: Sequence[Any]) -> Any:
    """Return a column as an array of one type: integers, floats, or text."""
    kinds = {*map(type, column)} - {type(None)}
    if kinds <= {int, float, bool}:
        return np.array(column, None if type(None) not in {*map(type, column)} else object)
    return np.array([None if value is None else str(value) for value in column], object)
