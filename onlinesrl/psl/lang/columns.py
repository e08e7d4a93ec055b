"""PSL's data from columns in memory, as ``data`` reads them from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import DataError
from onlinesrl.psl.lang.data import (
    UNDECLARED,
    AtomTable,
    Database,
    Relation,
    distinct_atoms,
    equal_rows,
    interned,
    no_atoms,
)


class Columns(NamedTuple):
    """Atoms of one predicate: their constants by argument, and values, float64[atoms]; None: not given."""

    constants: Sequence[Sequence[str | int]]
    values: Floats | None = None


Data = Mapping[str, Columns]
"""Atoms by predicate."""


def database_of(
    predicates: Mapping[str, int], observed: Data, targets: Data, truth: Data
) -> Database:
    """Return the data of predicates, given with their arities; a value not given is 1.

    Raises DataError, with the row from 0, for a predicate that there is not, another number of
    arguments, a value outside [0, 1], an atom with two values, and one both observed and a target.
    """
    parts = {"evidence": observed, "query": targets, "truth": truth}
    for part, data in parts.items():
        for name, columns in data.items():
            if name not in predicates:
                names = ", ".join(sorted(predicates))
                hint = f"; {UNDECLARED}" if part == "evidence" else ""
                raise DataError(f"{part}: the model has no predicate {name}; it has {names}{hint}")
            n_columns, arity = len(columns.constants), predicates[name]
            if n_columns != arity and any(map(len, columns.constants)):
                raise DataError(
                    f"{part}: {name} has {arity} arguments in the model, here {n_columns}"
                )
    constants: dict[str, int] = {}
    relations = {}
    for name, arity in predicates.items():
        tables = (
            _table(data.get(name), arity, 1.0 if part != "query" else np.nan, name, constants)
            for part, data in parts.items()
        )
        relations[name] = relation = Relation(*tables)
        equal = equal_rows(relation.targets.columns, relation.observed.columns)
        if np.any(equal >= 0):
            row = int(np.argmax(equal >= 0))
            raise DataError(
                f"{name}: row {row} of the query is observed, in row {equal[row]} of the evidence"
            )
    return Database(tuple(constants), relations)


def _table(
    columns: Columns | None, arity: int, missing: float, name: str, constants: dict[str, int]
) -> AtomTable:
    """Return the atoms, each once."""
    if columns is None or not any(map(len, columns.constants)):
        return no_atoms(arity)
    numbers = np.stack([interned([*map(str, c)], constants) for c in columns.constants])
    values = np.full(numbers.shape[1], missing) if columns.values is None else columns.values
    wrong = np.flatnonzero((values < 0) | (values > 1))
    if len(wrong):
        reason = f"a truth value is a number from 0 to 1, not {values[wrong[0]]:g}"
        raise DataError(f"{name}, row {wrong[0]}: {reason}")

    def conflict(row: int, earlier: int) -> DataError:
        other = f"{values[earlier]:g} in row {earlier}"
        return DataError(f"{name}, row {row}: the value is {values[row]:g} here and {other}")

    return distinct_atoms(numbers, values, conflict)
