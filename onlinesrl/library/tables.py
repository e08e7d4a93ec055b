"""Tables in and out: one per predicate, its columns the arguments.

Read are data frames of any library that has the Arrow PyCapsule interface (Polars, pandas, PyArrow, DuckDB
and others), pandas' without it, and mappings of columns. Given are ``Table``s, which these libraries read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.example import Constant, ValuedAtom
from onlinesrl.library.display import table_html

VALUE = "value"
"""The column with truth values, or with numbers; without it every row's value is 1."""


class TableError(OnlinesrlError):
    """A table whose columns or rows are not those of its predicate."""

    exit_code = 65


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

        arrays = {name: na.c_array(of, _arrow_type(of)) for name, of in self.columns.items()}
        schema = na.struct({name: array.schema for name, array in arrays.items()})
        whole = na.c_array_from_buffers(schema, len(self), [None], children=[*arrays.values()])
        return CArrayStream.from_c_arrays([whole], whole.schema).__arrow_c_stream__()

    def __repr__(self) -> str:
        return f"<Table of {len(self):,} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        return table_html(f"{len(self):,} rows", [*self.columns], [*self.rows()])


def _arrow_type(column: Sequence[Any]) -> Any:
    import nanoarrow as na

    kinds = {*map(type, column)}
    if kinds <= {int}:
        return na.int64()
    return na.float64() if kinds <= {float, int} else na.string()


# reading -----------------------------------------------------------------------------------------


def is_table(value: object) -> bool:
    """Tell whether a value can be read as a table of columns."""
    return hasattr(value, "__arrow_c_stream__") or _is_pandas(value)


def _is_pandas(value: object) -> bool:
    return hasattr(value, "columns") and hasattr(value, "iloc")


def columns_of(frame: Any, name: str) -> dict[str, list[Any]]:
    """Return the columns of a table, whose ``name`` is for messages.

    Raises TableError for a null (a NaN in a column of numbers is one) and for columns that are no text,
    whole numbers or, the column ``value``, numbers.
    """
    columns = _pandas_columns(frame) if _is_pandas(frame) else _arrow_columns(frame, name)
    return {column: _checked(of, column, name) for column, of in columns.items()}


def _pandas_columns(frame: Any) -> dict[str, list[Any]]:
    names = [str(column) for column in frame.columns]
    return {name: frame.iloc[:, n].tolist() for n, name in enumerate(names)}


def _arrow_columns(frame: Any, name: str) -> dict[str, list[Any]]:
    import nanoarrow as na

    with na.ArrayStream(frame) as stream:
        schema = stream.schema
        if schema.type.name != "STRUCT":
            raise TableError(f"{name}: expected a table, found a column of {schema.type.name}")
        whole = stream.read_all()
    return {field.name: whole.child(n).to_pylist() for n, field in enumerate(schema.fields)}


def _checked(column: list[Any], at: str, name: str) -> list[Any]:
    number = at == VALUE
    expected = {float, int} if number else {str, int}
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


# atoms -------------------------------------------------------------------------------------------


def atoms_of_table(frame: Any, name: str) -> list[list[Constant] | ValuedAtom]:
    """Return a table's rows as atoms, the columns other than ``value`` as arguments in their order."""
    columns = columns_of(frame, name)
    values = columns.pop(VALUE, None)
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    if values is None:
        return rows  # type: ignore[return-value]
    return [
        row if value == 1 else ValuedAtom(row, float(value))
        for row, value in zip(rows, values, strict=True)
    ]


def argument_names(types: Sequence[str | None]) -> list[str]:
    """Return column names: the types of the arguments, numbered where they repeat or lack."""
    names: list[str] = []
    for n, kind in enumerate(types, 1):
        name = kind or f"argument_{n}"
        names.append(f"{name}_{n}" if name in names or name == VALUE else name)
    return names
