"""Ground atoms and their values, found by the constants of any of their columns, while atoms come and go."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import TypeAlias

Constants: TypeAlias = tuple[str, ...]
GroundAtom: TypeAlias = tuple[str, Constants]
"""A predicate and its constants."""
Change: TypeAlias = tuple[float | None, float | None]
"""The old and the new value of an atom that facts leave open; None: it was, or is, not open."""
_Index: TypeAlias = dict[Constants, dict[Constants, None]]


def same_value(first: float | None, second: float | None) -> bool:
    """Tell whether two values are the same, or both are NaN, or both None."""
    if first is None or second is None:
        return first is second
    return first == second or (isnan(first) and isnan(second))


def add_changes(changed: dict[GroundAtom, Change], later: Mapping[GroundAtom, Change]) -> None:
    """Add later changes of values to earlier ones: the oldest value and the newest stay, if they differ."""
    for atom, (old, new) in later.items():
        first, _ = changed.pop(atom, (old, new))
        if not same_value(first, new):
            changed[atom] = first, new


class AtomIndex:
    """Atoms and their values.

    The atoms of a predicate are indexed by any of their columns that a join asks for; an index is made when
    it is first used, and follows the changes.
    """

    def __init__(self) -> None:
        self._values: dict[str, dict[Constants, float]] = {}
        self._indexes: dict[str, dict[tuple[int, ...], _Index]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def get(self, atom: GroundAtom) -> float | None:
        """Return the value of an atom; None if it is not listed."""
        return self._values.get(atom[0], {}).get(atom[1])

    def sorted(self) -> dict[GroundAtom, float]:
        """Return the atoms with their values, in the order of their names."""
        pairs = (
            ((predicate, constants), value)
            for predicate, values in self._values.items()
            for constants, value in values.items()
        )
        return dict(sorted(pairs, key=lambda pair: pair[0]))

    def set(self, atom: GroundAtom, value: float | None) -> None:
        """Give an atom another value; None takes it off the list."""
        predicate, constants = atom
        values = self.values(predicate)
        if value is not None:
            values[constants] = value
        elif values.pop(constants, None) is None:
            return
        for columns, index in self._indexes.get(predicate, {}).items():
            cells = _cells(constants, columns)
            if value is not None:
                index.setdefault(cells, {})[constants] = None
                continue
            del index[cells][constants]
            if not index[cells]:
                del index[cells]

    def values(self, predicate: str) -> dict[Constants, float]:
        """Return the constants and values of a predicate's atoms, which follow the changes."""
        return self._values.setdefault(predicate, {})

    def index(self, predicate: str, columns: tuple[int, ...]) -> _Index:
        """Return the constants of a predicate's atoms by those of some columns; they follow the changes."""
        indexes = self._indexes.setdefault(predicate, {})
        if columns not in indexes:
            index = indexes[columns] = _Index()
            for constants in self.values(predicate):
                index.setdefault(_cells(constants, columns), {})[constants] = None
        return indexes[columns]

    def matching(
        self, predicate: str, columns: tuple[int, ...], cells: Constants
    ) -> Mapping[Constants, object]:
        """Return the constants of the atoms that have these cells in these columns."""
        return self.index(predicate, columns).get(cells, {}) if columns else self.values(predicate)


def _cells(constants: Constants, columns: tuple[int, ...]) -> Constants:
    return tuple([constants[column] for column in columns])
