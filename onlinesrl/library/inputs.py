"""Atoms as people give them in Python, to examples."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import count
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar

import numpy as np
from msgspec import UNSET

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import DataError, ExampleError, shown
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
"""Atoms by predicate: rows of constants (a lone constant is a row of one), atoms as JSON has them, a mapping
from rows to values, or a table."""

Unknown: TypeAlias = Given | Sequence[str]
"""Atoms whose truth is not known; a predicate stands for all its atoms that the truth does not list."""

Place: TypeAlias = str | tuple[str, int]
"""A field of an example, or a predicate and the number of a row, from 0."""
T = TypeVar("T")

_NUMBERS = count(1)


def example(
    x: Example | Given,
    y: Given | None = None,
    query: Given | None = None,
    unlabelled: Unknown | None = None,
) -> Example:
    """Return the example of evidence ``x`` and truth ``y``, with only the atoms of ``query`` open.

    ``unlabelled`` has the open atoms whose truth is not known, or their predicates. An Example is checked as
    mappings are; it has its own truth, query and unlabelled atoms where others are not given. Raises
    ExampleError.
    """
    if not isinstance(x, Example):
        return Example(
            id=next(_NUMBERS),
            evidence=atoms(x, "evidence"),
            truth=None if y is None else atoms(y, "truth"),
            query=None if query is None else atoms(query, "query"),
            unlabelled=unlabelled_of(unlabelled),
        )
    y, query = x.truth if y is None else y, x.query if query is None else query
    unlabelled = x.unlabelled if unlabelled is None else unlabelled
    return Example(
        id=constant(x.id, "id"),
        evidence=atoms(x.evidence, "evidence"),
        truth=None if y is None else atoms(y, "truth"),
        query=None if query is None else atoms(query, "query"),
        asked=None if x.asked is None else atoms(x.asked, "asked"),
        unlabelled=unlabelled_of(unlabelled),
        group=None if x.group is None else str(constant(x.group, "group")),
        dup_of=None if x.dup_of is None else constant(x.dup_of, "dup_of"),
        time=None if x.time is None else _value(x.time, "time"),
    )


def unlabelled_of(given: Unknown | None) -> Atoms | list[str] | None:
    """Return the unlabelled atoms, or their predicates, of an example. Raises ExampleError, TableError."""
    if given is None or isinstance(given, Mapping):
        return None if given is None else atoms(given, "unlabelled")
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise _wrong(
            "unlabelled", "a mapping from predicates to atoms, or a list of predicates", given
        )
    return [*given]


def atoms(mapping: Given, place: str) -> Atoms:
    """Return atoms by predicate; ``place`` they stand is for messages. Raises ExampleError, TableError."""
    if not isinstance(mapping, Mapping):
        raise ExampleError(
            f"{place}: expected a mapping from predicates to their atoms, found {_kind(mapping)}",
            "schema",
        )
    result: Atoms = {}
    for name, rows in mapping.items():
        if not isinstance(name, str):
            raise _wrong(place, "a predicate's name", name)
        result[name] = _atoms(rows, name)
    return result


def facts(given: Atoms, place: str, program: Any) -> list[GroundAtom]:
    """Return atoms by predicate one by one: truth True or False where their value is 1 or 0, or a Number.

    Raises DataError for an atom that is none of the program's, or has two values.
    """
    by_atom: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for name, rows in given.items():
        for row in rows:
            try:
                atom = valued_atom(name, arguments(row), number_of(row), 0, program)
            except ValueError as error:
                raise DataError(f"{place}: {error}") from None
            if by_atom.setdefault(atom[:2], atom).value != atom.value:
                raise DataError(f"{place}: {show_ground_atom(*atom[:2])} has two values")
    return [*by_atom.values()]


def _atoms(rows: Any, name: str) -> list[list[Constant] | ValuedAtom]:
    if is_table(rows):
        return atoms_of_table(rows, name)
    if isinstance(rows, Mapping):
        return [
            ValuedAtom(_constants(row, place), _value(value, place))
            for place, (row, value) in _placed(rows.items(), name)
        ]
    iterable = isinstance(rows, Iterable) and getattr(rows, "ndim", 1) > 0
    if isinstance(rows, str | bytes | bytearray) or not iterable:
        raise ExampleError(f"{name}: expected rows of constants, found {_kind(rows)}", "schema")
    listed = sorted(rows, key=repr) if isinstance(rows, Set) else rows
    return [
        _valued(row, place) if isinstance(row, ValuedAtom | Mapping) else _constants(row, place)
        for place, row in _placed(listed, name)
    ]


def _placed(rows: Iterable[T], name: str) -> Iterator[tuple[Place, T]]:
    """Yield rows with their places, which are written out only for a message."""
    return (((name, n), row) for n, row in enumerate(rows))


def _valued(row: ValuedAtom | Mapping[str, Any], place: Place) -> ValuedAtom:
    """Return a checked atom, which may be as JSON has it: ``{"args": [...], "value": 0.7}``."""
    if isinstance(row, Mapping):
        if not {"args"} <= row.keys() <= {"args", "value"}:
            raise _wrong(place, "constants, or an atom's args and value", row)
        row = ValuedAtom(row["args"], row.get("value", UNSET))
    number = UNSET if row.number is UNSET else _value(row.number, place)
    return ValuedAtom(_constants(row.args, place), number)


def _constants(row: Any, place: Place) -> list[Constant]:
    listed: Any = [row] if isinstance(row, str | Integral) else row
    if getattr(listed, "ndim", 0) == 1:
        listed = listed.tolist()
    if not isinstance(listed, Sequence) or isinstance(listed, bytes | bytearray):
        raise _wrong(place, "constants", row)
    return [
        value if type(value) is str and value.isascii() else constant(value, place)
        for value in listed
    ]


def constant(value: Any, place: Place) -> Constant:
    """Return a text that is Unicode, or a whole number that can be written. Raises ExampleError."""
    try:
        if isinstance(value, str):
            value.encode()
            return str(value)
        if isinstance(value, Integral) and not isinstance(value, bool):
            str(number := int(value))
            return number
    except UnicodeEncodeError:
        raise _wrong(place, "Unicode without lone surrogates", value) from None
    except ValueError:
        most = sys.get_int_max_str_digits()
        reason = f"expected a whole number of at most {most} digits, found a longer one"
        raise ExampleError(f"{_named(place)}: {reason}", "schema") from None
    raise _wrong(place, "a text or a whole number", value)


def _value(value: Any, place: Place) -> float:
    with suppress(OverflowError, TypeError):
        if isinstance(value, Real) and math.isfinite(number := float(value)):
            return number
    raise _wrong(place, "a finite number", value)


def _wrong(place: Place, expected: str, value: object) -> ExampleError:
    """Return the error for a value that is not what was expected."""
    value_text = "nothing" if value is None else shown(value)
    return ExampleError(f"{_named(place)}: expected {expected}, found {value_text}", "schema")


def _named(place: Place) -> str:
    return place if isinstance(place, str) else "{}, row {}".format(*place)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def columns(rows: Any, name: str) -> tuple[list[list[Constant]], Floats | None]:
    """Return atoms of a predicate as columns of constants, and their values if any are given."""
    if is_table(rows):
        by_column = columns_of(rows, name)
        values = by_column.pop(VALUE, None)
        return [*by_column.values()], None if values is None else np.array(values, np.float64)
    listed = _atoms(rows, name)
    valued = [row.value if isinstance(row, ValuedAtom) else 1.0 for row in listed]
    has_values = any(isinstance(row, ValuedAtom) for row in listed)
    lengths = {len(arguments(row)) for row in listed}
    if len(lengths) > 1:
        raise ExampleError(
            f"{name}: expected rows of one length, found {sorted(lengths)}", "schema"
        )
    constants = [[*column] for column in zip(*map(arguments, listed), strict=True)]
    return constants, np.array(valued) if has_values else None
