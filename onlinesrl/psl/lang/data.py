"""PSL's data: tab-separated files of atoms with optional truth values, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.errors import DatabaseError, LocatedError
from onlinesrl.logic.ast import Position
from onlinesrl.logic.source import Source, read_text, source
from onlinesrl.logic.tables import PARQUET

BLANKS = "".join(map(chr, range(ord(" ") + 1)))
"""What PSL trims from both ends of a line: blanks, tabs and control characters."""

UNDECLARED = "a line such as `Knows/2` declares a predicate that no rule uses"
"""What to do about evidence of a predicate that the model does not have."""
UNMATCHED = "the constant '{}' of the model is nowhere in the {}"
"""The warning for a constant of a rule that no atom has."""


@dataclass(frozen=True, slots=True)
class AtomTable:
    """Distinct atoms of one predicate, in the order of the data.

    ``columns`` (arity, n) are numbers of constants, ``values`` (n,) truth values in [0, 1], NaN for a
    target without initial value.
    """

    columns: Ints32
    values: Floats

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Relation:
    """The data of one predicate: observed atoms, targets, and true values.

    No atom is both observed and a target. Truth may lack targets and have other atoms. A predicate
    without targets is closed: unobserved atoms have value 0.
    """

    observed: AtomTable
    targets: AtomTable
    truth: AtomTable

    @property
    def closed(self) -> bool:
        """Whether the predicate has no targets."""
        return len(self.targets) == 0

    def target_truth(self) -> Floats:
        """Return the true value of every target, float64[targets]; NaN if none is given."""
        target = equal_rows(self.truth.columns, self.targets.columns)
        values = np.full(len(self.targets), np.nan)
        values[target[target >= 0]] = self.truth.values[target >= 0]
        return values


@dataclass(frozen=True, slots=True)
class Database:
    """The data of a model; ``constants[i]`` is the name of constant i, in all predicates."""

    constants: tuple[str, ...]
    relations: Mapping[str, Relation]


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The data files of one predicate; the default value is 1."""

    arity: int
    observations: tuple[Path, ...] = ()
    targets: tuple[Path, ...] = ()
    truth: tuple[Path, ...] = ()


def read_database(predicates: Mapping[str, DataFiles]) -> Database:
    """Read the data of predicates by name.

    Raises DatabaseError for a line with a wrong number of fields or a value outside [0, 1], and for an
    atom with two values or that is both observed and a target; StorageError if a file cannot be read.
    Repetitions of an atom with the same value are ignored.
    """
    constants: dict[str, int] = {}
    relations = {}
    for name, files in predicates.items():
        observed, targets, truth = (
            [_read(path, name, files.arity, missing, constants) for path in paths]
            for paths, missing in (
                (files.observations, 1.0),
                (files.targets, np.nan),
                (files.truth, 1.0),
            )
        )
        relations[name] = Relation(
            *(_united(tables, files.arity) for tables in (observed, targets, truth))
        )
        if observed and targets:
            target_columns, observed_columns = (
                np.concatenate([rows.columns for rows in tables], axis=1)
                for tables in (targets, observed)
            )
            equal = equal_rows(target_columns, observed_columns)
            for row in np.flatnonzero(equal >= 0).tolist():
                (file, index), (other, before) = (
                    _located(targets, row),
                    _located(observed, equal[row]),
                )
                raise file.error(index, f"this target is observed in {other.place(before)}")
    return Database(tuple(constants), relations)


@dataclass(frozen=True, slots=True)
class _FileRows:
    """The rows of one file; ``lines`` (n,) are their numbers from 1."""

    text: Source
    columns: Ints32
    values: Floats
    lines: Ints

    def error(self, row: int, message: str, field: int = 0) -> LocatedError:
        """Return the error for a field of a row."""
        return _error(self.text, int(self.lines[row]), field, message)

    def place(self, row: int) -> str:
        return f"{self.text.file}:{self.lines[row]}"


def _read(
    path: Path, name: str, arity: int, missing: float, constants: dict[str, int]
) -> _FileRows:
    if path.suffix == PARQUET:
        return _read_parquet(path, name, arity, missing, constants)
    text = source(read_text(path), str(path), DatabaseError)
    stripped = [line.strip(BLANKS) for line in text.text.split("\n")]
    numbers = [number for number, line in enumerate(stripped, 1) if line]
    lines = [stripped[number - 1] for number in numbers]
    tabs = [line.count("\t") for line in lines]
    if {*tabs} - {arity - 1, arity}:
        row = next(i for i, count in enumerate(tabs) if count not in {arity - 1, arity})
        fields = f"{arity} constant{'' if arity == 1 else 's'} and optionally a value"
        message = f"a line for {name} has {fields}, separated by tabs, not {tabs[row] + 1} fields"
        raise _error(text, numbers[row], 0, message)
    if arity in tabs and arity - 1 in tabs:
        lines = [
            line if count == arity else f"{line}\t" for line, count in zip(lines, tabs, strict=True)
        ]
    width = max(tabs, default=arity - 1) + 1
    cells = "\t".join(lines).split("\t") if lines else []
    columns = np.empty((arity, len(lines)), np.int32)
    for index in range(arity):
        names = cells[index::width]
        if "" in names:
            raise _error(text, numbers[names.index("")], index, "this constant is empty")
        columns[index] = interned(names, constants)
    values = np.full(len(lines), missing)
    if width > arity:
        values[:] = _values(cells[arity::width], missing, text, numbers, arity)
    return _FileRows(text, columns, values, np.array(numbers, np.int64))


def _read_parquet(
    path: Path, name: str, arity: int, missing: float, constants: dict[str, int]
) -> _FileRows:
    from onlinesrl.logic.tables import VALUE, read_parquet

    text, table = Source(str(path), "", DatabaseError), read_parquet(path)
    values = table.pop(VALUE, None)
    if len(table) != arity:
        names = ", ".join(table) or "none"
        message = (
            f"{name} has {arity} arguments; expected as many columns, and {VALUE}; found {names}"
        )
        raise text.error(message, 0)
    count = len(next(iter(table.values()), ()))
    columns = np.empty((arity, count), np.int32)
    for index, column in enumerate(table.values()):
        columns[index] = interned([*map(str, column)], constants)
    truth = np.full(count, missing) if values is None else np.array(values, np.float64)
    wrong = np.flatnonzero((truth < 0) | (truth > 1))
    if len(wrong):
        row = int(wrong[0])
        raise _error(text, row + 1, 0, f"a truth value is a number from 0 to 1, not {truth[row]:g}")
    return _FileRows(text, columns, truth, np.arange(1, count + 1))


def interned(names: Sequence[str], constants: dict[str, int]) -> Ints32:
    """Return the numbers of constants; number new ones in order of occurrence."""
    for name in dict.fromkeys(names):
        constants.setdefault(name, len(constants))
    return np.fromiter(map(constants.__getitem__, names), np.int32, len(names))


def _values(
    fields: list[str], missing: float, text: Source, lines: list[int], arity: int
) -> Floats:
    """Return truth values, ``missing`` for empty fields."""
    try:
        values = np.fromiter(map(float, fields), np.float64, len(fields))
    except ValueError:
        values = np.array([_value(field, missing) for field in fields])
    present = np.array([bool(field) for field in fields]) if "" in fields else True
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)) & present)
    if len(wrong):
        row = int(wrong[0])
        message = f"a truth value is a number from 0 to 1, not {fields[row]}"
        raise _error(text, lines[row], arity, message)
    return values


def _value(field: str, missing: float) -> float:
    if not field:
        return missing
    try:
        return float(field)
    except ValueError:
        return np.nan


def _error(text: Source, line: int, field: int, message: str) -> LocatedError:
    """Return the error for a field of a line, or for a row of a Parquet file; they count from 1."""
    if not text.text:
        return text.error(message, Position(line, 1))
    start = 0
    for _ in range(line - 1):
        start = text.text.index("\n", start) + 1
    for _ in range(field):
        start = text.text.index("\t", start) + 1
    return text.error(message, start)


def _united(files: Sequence[_FileRows], arity: int) -> AtomTable:
    """Join the distinct rows of files; raises DatabaseError if an atom has two values."""
    if not files:
        return no_atoms(arity)

    def conflict(row: int, earlier: int) -> LocatedError:
        (file, index), (other, before) = _located(files, row), _located(files, earlier)
        message = f"this atom has another value, {other.values[before]:g}, in {other.place(before)}"
        return file.error(index, message)

    columns = np.concatenate([rows.columns for rows in files], axis=1)
    return distinct_atoms(columns, np.concatenate([rows.values for rows in files]), conflict)


def no_atoms(arity: int) -> AtomTable:
    """Return a table without atoms."""
    return AtomTable(np.empty((arity, 0), np.int32), np.empty(0))


def distinct_atoms(
    columns: Ints32, values: Floats, conflict: Callable[[int, int], Exception]
) -> AtomTable:
    """Return each atom once, in the order of first occurrences.

    Raises ``conflict(row, earlier row)`` at the first atom that has another value in an earlier row.
    """
    first = first_rows(columns)
    repeated = np.flatnonzero(first != np.arange(len(first)))
    if not len(repeated):
        return AtomTable(columns, values)
    earlier, later = values[first[repeated]], values[repeated]
    differ = repeated[(earlier != later) & ~(np.isnan(earlier) & np.isnan(later))]
    if len(differ):
        raise conflict(int(differ[0]), int(first[differ[0]]))
    distinct = np.delete(np.arange(len(first)), repeated)
    return AtomTable(columns[:, distinct], values[distinct])


def equal_rows(columns: Ints32, others: Ints32) -> Ints:
    """Return for each row the index of the first equal row among others, -1 if there is none."""
    n = others.shape[1]
    first = first_rows(np.concatenate((others, columns), axis=1))[n:]
    return np.where(first < n, first, -1)


def first_rows(columns: Ints32) -> Ints:
    """Return for each row the index of the first equal row."""
    if not len(columns):
        return np.zeros(columns.shape[1], np.int64)
    order = np.lexsort(columns)
    ordered = columns[:, order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    first = np.empty(len(order), np.int64)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    return first


def _located(files: Iterable[_FileRows], row: int) -> tuple[_FileRows, int]:
    """Return the file of a row of joined files, and the row's index in it."""
    for file in files:
        if row < len(file.values):
            return file, row
        row -= len(file.values)
    raise IndexError(row)
