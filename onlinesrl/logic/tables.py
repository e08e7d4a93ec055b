"""Atoms as tables, one per predicate, and their Parquet files.

The columns are the predicate's arguments in their order; a column ``value`` has truth values, or numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.core.errors import StorageError, TableError
from onlinesrl.core.example import GroundAtom, show_ground_atom
from onlinesrl.core.storage import storage_errors, sync_folder
from onlinesrl.logic.database import Signature, load_db, valued_atom
from onlinesrl.logic.dialect import Dialect

PARQUET = ".parquet"
"""The suffix of files of tables."""
VALUE = "value"
"""The column with truth values, or with numbers; without it every row's value is 1."""


def argument_names(types: Iterable[str | None]) -> list[str]:
    """Return column names: the types of the arguments, numbered where they repeat or lack."""
    names: list[str] = []
    for n, kind in enumerate(types, 1):
        name = kind or f"argument_{n}"
        names.append(f"{name}_{n}" if name in names or name == VALUE else name)
    return names


def with_names(
    types: Iterable[str | None], arguments: Iterable[Sequence[Any]], values: Sequence[float]
) -> dict[str, Sequence[Any]]:
    """Return the columns of atoms: their arguments, named after their types, and their values."""
    return {**dict(zip(argument_names(types), arguments, strict=True)), VALUE: values}


def checked(columns: Mapping[str, list[Any]], name: str) -> dict[str, list[Any]]:
    """Return the columns of the table called ``name``.

    Raises TableError for a null (a NaN in a column of numbers is one) and for a column that is no text,
    whole numbers or, the column ``value``, numbers.
    """
    return {column: _checked(of, column, name) for column, of in columns.items()}


def _checked(column: list[Any], at: str, name: str) -> list[Any]:
    number = at == VALUE
    expected = {float, int, bool} if number else {str, int}
    kinds = {*map(type, column)}
    if kinds - expected:
        row = next(n for n, value in enumerate(column) if type(value) not in expected)
        what = "a number" if number else "text or a whole number"
        found = "a null" if _null(column[row]) else repr(column[row])
        raise TableError(f"{name}, column {at}, row {row}: expected {what}, found {found}")
    if number and not np.isfinite(np.array(column, np.float64)).all():
        row = int(np.flatnonzero(~np.isfinite(np.array(column, np.float64)))[0])
        raise TableError(f"{name}, column {at}, row {row}: expected a number, found {column[row]}")
    return column


def _null(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 - NaN


# Parquet -----------------------------------------------------------------------------------------


@contextmanager
def duckdb_errors(path: Path) -> Iterator[None]:
    """Turn an error of DuckDB, or of its Arrow stream, into a StorageError that names the file or folder."""
    import duckdb

    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        said = str(error).partition("\n")[0]
        raise StorageError(f"{path}: {said}") from error


def connect(**settings: Any) -> Any:
    """Return a connection to an empty database in memory, which looks for no extensions."""
    import duckdb

    settings["autoload_known_extensions"] = settings["autoinstall_known_extensions"] = False
    return duckdb.connect(config={"python_enable_replacements": False, **settings})


def read_parquet(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a Parquet file. Raises StorageError, and TableError as ``checked``."""
    with storage_errors(path, "read"):
        path.stat()
    with duckdb_errors(path), connect() as connection:
        connection.execute("SELECT * FROM read_parquet(?)", [[str(path)]])
        found = connection.fetchnumpy()
    return checked({name: column.tolist() for name, column in found.items()}, str(path))


def load_atoms(path: Path, program: Signature, dialect: Dialect) -> list[GroundAtom]:
    """Read the atoms of a program from a database or, by its suffix, a Parquet file.

    Raises DatabaseError, TableError, StorageError.
    """
    if path.suffix == PARQUET:
        return _load_parquet(path, program)
    return load_db(path, program, dialect)


def _load_parquet(path: Path, program: Signature) -> list[GroundAtom]:
    """Read the atoms of the predicate that a Parquet file is named after; a row is their ``line``, from 0.

    Raises TableError, StorageError.
    """
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
            shown = show_ground_atom(*atom[:2])
            raise TableError(f"{path}, row {row}: {shown} has another value in row {first.line}")
    return [*atoms.values()]


def write_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns to a Parquet file, whole or not at all. Raises StorageError."""
    with duckdb_errors(path), connect() as connection:
        connection.register("columns", {name: _array(of) for name, of in columns.items()})
        write_relation(path, connection.sql("SELECT * FROM columns"))


def write_relation(path: Path, relation: Any) -> None:
    """Write a relation of DuckDB to a Parquet file, whole or not at all. Raises StorageError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with storage_errors(path, "write"), duckdb_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        relation.write_parquet(str(temporary))
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - as in core.storage
        sync_folder(path.parent)


def _array(column: Sequence[Any]) -> Any:
    """Return a column as an array of one type: whole numbers, numbers, or text."""
    kinds = {*map(type, column)} - {type(None)}
    if kinds <= {int, float, bool}:
        return np.array(column, None if type(None) not in {*map(type, column)} else object)
    return np.array([None if value is None else str(value) for value in column], object)
