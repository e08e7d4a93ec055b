"""Tables in and out: one per predicate, its columns the arguments.

Read are pandas' data frames and those of any library that has the Arrow PyCapsule interface (Polars,
PyArrow, DuckDB and others). Given are ``Table``s, which these libraries read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from onlinesrl.core.errors import TableError
from onlinesrl.core.example import Constant, ValuedAtom
from onlinesrl.library.display import table_html
from onlinesrl.logic.tables import VALUE, checked, connect


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

    kinds = {*map(type, column)} - {type(None)}
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
    import duckdb

    try:
        with connect() as connection:
            connection.register("frame", frame if _is_pandas(frame) else _Stream(frame))
            connection.execute("SELECT * FROM frame")
            found = connection.fetchnumpy()
    except duckdb.Error as error:
        said = str(error).partition("\n")[0]
        raise TableError(f"{name}: cannot be read as a table: {said}") from error
    return checked({column: of.tolist() for column, of in found.items()}, name)


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
    return _rows(columns, len(next(iter(columns.values()), ())))


def rows_by(frame: Any, name: str, by: str) -> list[tuple[Constant, list[Constant] | ValuedAtom]]:
    """Return pairs of the value in the column ``by`` and the atom in the others, sorted by the former.

    Raises TableError where there is no such column.
    """
    columns = columns_of(frame, name)
    if by not in columns:
        found = ", ".join(columns)
        raise TableError(f"{name}: no column {by}, which says the example; it has {found}")
    names = columns.pop(by)
    return sorted(zip(names, _rows(columns, len(names)), strict=True), key=itemgetter(0))


def _rows(columns: dict[str, list[Any]], count: int) -> list[list[Constant] | ValuedAtom]:
    values = columns.pop(VALUE, None)
    rows: list[Any] = [list(row) for row in zip(*columns.values(), strict=True)]
    rows = rows or [[] for _ in range(count)]
    if values is None:
        return rows
    return [ValuedAtom(row, float(value)) for row, value in zip(rows, values, strict=True)]
