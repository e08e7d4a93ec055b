"""Atoms as people give them in Python, to examples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import count
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import DataError, ExampleError
from onlinesrl.core.example import (
    Atoms,
    Constant,
    Example,
    GroundAtom,
    ValuedAtom,
    arguments,
    number_of,
    show_ground_atom,
)
from onlinesrl.library.tables import atoms_of_table, columns_of, is_table
from onlinesrl.logic.database import valued_atom
from onlinesrl.logic.tables import VALUE

Given: TypeAlias = Mapping[str, Any]
"""Atoms by predicate: rows of constants (a lone constant is a row of one), a mapping from rows to
values, or a table."""

_NUMBERS = count(1)


def example(x: Example | Given, y: Given | None = None, query: Given | None = None) -> Example:
    """Return the example of evidence ``x`` and truth ``y``, with only the atoms of ``query`` open.

    An Example is taken as it is, with ``y`` as its truth if that is given. Raises ExampleError.
    """
    if isinstance(x, Example):
        if y is None and query is None:
            return x
        return Example(
            id=x.id,
            evidence=x.evidence,
            truth=x.truth if y is None else atoms(y, "truth"),
            query=x.query if query is None else atoms(query, "query"),
            group=x.group,
            dup_of=x.dup_of,
            time=x.time,
        )
    return Example(
        id=next(_NUMBERS),
        evidence=atoms(x, "evidence"),
        truth=None if y is None else atoms(y, "truth"),
        query=None if query is None else atoms(query, "query"),
    )


def atoms(given: Given, where: str) -> Atoms:
    """Return atoms by predicate; ``where`` they stand is for messages. Raises ExampleError, TableError."""
    if not isinstance(given, Mapping):
        raise ExampleError(
            f"{where}: expected a mapping from predicates to their atoms, found {_kind(given)}",
            "schema",
        )
    found: Atoms = {}
    for name, rows in given.items():
        if not isinstance(name, str):
            raise ExampleError(f"{where}: expected a predicate's name, found {name!r}", "schema")
        found[name] = _atoms(rows, name)
    return found


def facts(given: Given, where: str, program: Any) -> list[GroundAtom]:
    """Return the atoms one by one: truth True or False where their value is 1 or 0, or a Number.

    Raises DataError for an atom that is none of the program's, or has two values.
    """
    found: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for name, rows in atoms(given, where).items():
        for row in rows:
            try:
                atom = valued_atom(name, arguments(row), number_of(row), 0, program)
            except ValueError as error:
                raise DataError(f"{where}: {error}") from None
            if found.setdefault(atom[:2], atom).value != atom.value:
                raise DataError(f"{where}: {show_ground_atom(*atom[:2])} has two values")
    return [*found.values()]


def _atoms(rows: Any, name: str) -> list[list[Constant] | ValuedAtom]:
    if is_table(rows):
        return atoms_of_table(rows, name)
    if isinstance(rows, Mapping):
        return [
            ValuedAtom(_constants(row, name, n), _value(value, name, n))
            for n, (row, value) in enumerate(rows.items())
        ]
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise ExampleError(f"{name}: expected rows of constants, found {_kind(rows)}", "schema")
    return [
        row if isinstance(row, ValuedAtom) else _constants(row, name, n)
        for n, row in enumerate(sorted(rows, key=repr) if isinstance(rows, Set) else rows)
    ]


def _constants(row: Any, name: str, n: int) -> list[Constant]:
    """Return a row of constants; n is its number, from 0."""
    listed: Any = [row] if isinstance(row, str | Integral) else row
    if not isinstance(listed, Sequence) and not hasattr(listed, "tolist"):
        raise ExampleError(f"{name}, row {n}: expected constants, found {_kind(row)}", "schema")
    return [value if type(value) in {str, int} else _constant(value, name, n) for value in listed]


def _constant(value: Any, name: str, n: int) -> Constant:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    raise ExampleError(
        f"{name}, row {n}: expected a text or a whole number, found {value!r}", "schema"
    )


def _value(value: Any, name: str, n: int) -> float:
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    raise ExampleError(f"{name}, row {n}: expected a finite number, found {value!r}", "schema")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def columns(rows: Any, name: str) -> tuple[list[list[Constant]], Floats | None]:
    """Return atoms of a predicate as columns of constants, and their values if any are given."""
    if is_table(rows):
        found = columns_of(rows, name)
        values = found.pop(VALUE, None)
        return [*found.values()], None if values is None else np.array(values, np.float64)
    listed = _atoms(rows, name)
    valued = [row.value if isinstance(row, ValuedAtom) else 1.0 for row in listed]
    given = any(isinstance(row, ValuedAtom) for row in listed)
    lengths = {len(arguments(row)) for row in listed}
    if len(lengths) > 1:
        raise ExampleError(
            f"{name}: expected rows of one length, found {sorted(lengths)}", "schema"
        )
    constants = [[*column] for column in zip(*map(arguments, listed), strict=True)]
    return constants, np.array(valued) if given else None
