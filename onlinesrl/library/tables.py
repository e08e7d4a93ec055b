"""Tables in and out: one per predicate, its columns the arguments.

Read are pandas' data frames and those of any library that has the Arrow PyCapsule interface (Polars,
PyArrow, DuckDB and others). Given are ``Table``s, which these libraries read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from onlinesrl.core.errors import TableError
from onlinesrl.core.example import Constant, ValuedAtom
from onlinesrl.library.notebook import table_html
from onlinesrl.logic.tables import VALUE, columns_in, connect, quoted, unexpected
from onlinesrl.stream.sources.parquet import Relation, Rows, lacking, rows, types


class Table:
    """Columns of equal length by name, readable by what reads Arrow's streams.

    >>> table = Table({"person": ["Anna", "Bob"], "value": [0.9, 0.2]})
    >>> len(table), table["value"]
    (2, [0.9, 0.2])
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]):
        self.columns = {name: [*column] for name, column in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        return zip(*self.columns.values(), strict=True)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import nanoarrow as na
        from nanoarrow.c_array_stream import CArrayStream

        arrays = {name: _arrow_array(column) for name, column in self.columns.items()}
        schema = na.struct({name: array.schema for name, array in arrays.items()})
        whole = na.c_array_from_buffers(schema, len(self), [None], children=[*arrays.values()])
        return CArrayStream.from_c_arrays([whole], whole.schema).__arrow_c_stream__()

    def __repr__(self) -> str:
        return f"<Table of {len(self):,} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        return table_html(f"{len(self):,} rows", [*self.columns], [*self.rows()])


def _arrow_array(column: Sequence[Any]) -> Any:
    """Return a column of whole numbers of 64 bits, of numbers, or of text, which has what is neither."""
    import nanoarrow as na

    kinds = {*map(type, column)} - {type(None)}
    if kinds <= {int} and all(value is None or -(2**63) <= value < 2**63 for value in column):
        return na.c_array(column, na.int64())
    if kinds <= {float, int} and float in kinds:
        return na.c_array(column, na.float64())
    return na.c_array([None if v is None else str(v) for v in column], na.string())


# reading -----------------------------------------------------------------------------------------


def is_table(value: object) -> bool:
    """Tell whether a value can be read as a table of columns."""
    return hasattr(value, "__arrow_c_stream__") or _is_pandas(value)


def _is_pandas(value: object) -> bool:
    return hasattr(value, "columns") and hasattr(value, "iloc")


def columns_of(frame: Any, name: str) -> dict[str, list[Any]]:
    """Return the columns of a table, whose ``name`` is for messages.

    Raises TableError for a null (a NaN in a column of numbers is one) and, where there are rows, for columns
    that are no text, whole numbers or, the column ``value``, numbers.
    """
    with connect() as connection, _read_errors(name):
        _register(connection, frame, name)
        return columns_in(connection, "frame", [], name)


def _register(connection: Any, frame: Any, name: str) -> None:
    """Let DuckDB read a table, by the name of frame. Raises TableError for objects that are no constants."""
    if _is_pandas(frame):
        connection.execute(f"SET pandas_analyze_sample = {max(1, len(frame))}")
        connection.register("frame", _of_pandas(frame, name))
    else:
        polars = sys.modules.get("polars")
        if polars is not None and isinstance(frame, polars.DataFrame):
            # DuckDB does not read these types
            whole = polars.Decimal(38, 0)
            others = {polars.Int128: whole, polars.UInt128: whole, polars.Null: polars.String}
            frame = frame.cast(others)
        connection.register("frame", _Stream(frame))


def _of_pandas(frame: Any, name: str) -> Any:
    """Return a data frame after looking at its objects, whose types DuckDB would guess."""
    for at, label in enumerate(map(str, frame.columns)):
        column = frame.iloc[:, at]
        if object in (column.dtype, getattr(column.dtype, "categories", column).dtype):
            for row, (value, null) in enumerate(zip(column, column.isna(), strict=True)):
                if null or not _fits(value, label == VALUE):
                    raise unexpected(name, label, row, None if null else repr(value))
            frame = frame.copy(deep=False)
            objects = column.astype(object).map(float if label == VALUE else _constant)
            frame.isetitem(at, objects)
    return frame


def _constant(value: Any) -> Constant:
    return str(value) if isinstance(value, str) else int(value)


def _fits(value: Any, number: bool) -> bool:
    """Tell whether an object is a number, or else a constant."""
    if number:
        return isinstance(value, Real | Decimal)
    if isinstance(value, Decimal):
        return value.as_tuple().exponent == 0
    return isinstance(value, str | Integral) and not isinstance(value, bool)


@contextmanager
def _read_errors(name: str) -> Iterator[None]:
    """Turn an error of DuckDB into a TableError that names the table."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise TableError(f"{name}: cannot be read as a table: {reason}") from error


class _Stream:
    """The Arrow stream of a table, and no more of it."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


# atoms -------------------------------------------------------------------------------------------


def atoms_of_table(frame: Any, name: str) -> list[list[Constant] | ValuedAtom]:
    """Return a table's rows as atoms, the columns other than ``value`` as arguments in their order."""
    columns = columns_of(frame, name)
    count = len(next(iter(columns.values()), ()))
    values = columns.pop(VALUE, None)
    rows: list[Any] = [list(row) for row in zip(*columns.values(), strict=True)]
    rows = rows or [[] for _ in range(count)]
    if values is None:
        return rows
    return [ValuedAtom(row, float(value)) for row, value in zip(rows, values, strict=True)]


def rows_by(cursor: Any, frame: Any, name: str, by: str, copy: str) -> Rows:
    """Return a table's rows by the value in the column ``by``, from a copy of it in DuckDB.

    Raises TableError as ``columns_of`` does, and where there is no such column.
    """
    relation = Relation(copy, [], "rowid")
    with _read_errors(name):
        _register(cursor, frame, name)
        cursor.execute(f"CREATE TABLE {copy} AS SELECT * FROM frame")
        for column, kind, *_ in cursor.execute(f"DESCRIBE {copy}").fetchall():
            if kind.startswith("ENUM"):
                cursor.execute(f"ALTER TABLE {copy} ALTER {quoted(column)} TYPE VARCHAR")
        kinds = types(cursor, relation, by, name)
        lacks = " OR ".join(lacking(kinds))
        if cursor.execute(f"SELECT 1 FROM {copy} WHERE {lacks} LIMIT 1").fetchall():
            columns_in(cursor, copy, [], name)
    return rows(cursor, relation, kinds, by, sys.maxsize)
