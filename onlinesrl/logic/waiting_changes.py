"""Changes that wait until the hard rules can hold, and what has to change before they are worth a trial.

A change waits because of a conflict: constraints that cannot all hold in the world with this change. The
conflict stays one as long as no atom is changed on which these constraints depend. So patterns of these
atoms are indexed. The same holds for the world with all that waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from onlinesrl.core.explain.conflict import Pattern
from onlinesrl.logic.atom_index import GroundAtom

TOGETHER = -1
"""The number of the conflict of the world with all that waits."""


Parts: TypeAlias = tuple[Pattern, ...] | None
"""Patterns of the atoms on which a conflict depends; None: they are not known."""


class Conflict(NamedTuple):
    """A change that waits, and why: the smallest conflict."""

    changes: dict[GroundAtom, float | None]
    reason: str
    parts: Parts


class WaitingChanges:
    """Changes that wait, in order, by number. Those that are ``due`` may no longer be in conflict.

    ``together`` are the parts of a conflict of the world with all that waits; None: there may be none.
    """

    def __init__(self, conflicts: Iterable[Conflict] = (), together: Parts = None) -> None:
        self.together = together
        self.due = set[int]()
        self._conflicts = dict[int, Conflict]()
        self._number = dict[GroundAtom, int]()
        self._next = 0
        self._index = dict[str, dict[tuple[int, ...], dict[tuple[str, ...], dict[int, None]]]]()
        for conflict in conflicts:
            self.add(conflict)
        self._list(TOGETHER, together)

    def __len__(self) -> int:
        return len(self._conflicts)

    def __iter__(self) -> Iterator[Conflict]:
        return iter(self._conflicts.values())

    def __getitem__(self, number: int) -> Conflict:
        return self._conflicts[number]

    def numbers(self) -> list[int]:
        """Return the numbers of what waits, in order."""
        return [*self._conflicts]

    def get(self, atom: GroundAtom) -> Conflict | None:
        """Return the change of an atom that waits."""
        return self._conflicts.get(self._number.get(atom, TOGETHER))

    def changing(self, atoms: Iterable[GroundAtom]) -> list[int]:
        """Return the numbers of what waits to change some of these atoms, in order."""
        return sorted({self._number[atom] for atom in atoms if atom in self._number})

    def add(self, conflict: Conflict, number: int | None = None) -> None:
        """Let a change wait, in the place of another one if its ``number`` is given."""
        if number is None:
            number, self._next = self._next, self._next + 1
        else:
            self._unlist(number, self._conflicts[number].parts)
        self._conflicts[number] = conflict
        self._number |= dict.fromkeys(conflict.changes, number)
        self._list(number, conflict.parts)
        self.due.discard(number)
        if conflict.parts is None:
            self.due.add(number)

    def remove(self, number: int) -> Conflict:
        """Take a change off the list."""
        conflict = self._conflicts.pop(number)
        for atom in conflict.changes:
            del self._number[atom]
        self._unlist(number, conflict.parts)
        self.due.discard(number)
        return conflict

    def hold_back(self, together: Parts) -> None:
        """Set the parts of a conflict of the world with all that waits."""
        self._unlist(TOGETHER, self.together)
        self.together = together
        self._list(TOGETHER, together)

    def touch(self, atoms: Collection[GroundAtom], in_world: bool) -> None:
        """Note that atoms are changed in the world with all that waits, and perhaps ``in_world`` as well."""
        numbers = self._depending(atoms)
        if TOGETHER in numbers:
            self.hold_back(None)
        if in_world:
            self.due |= numbers - {TOGETHER}

    def accept(self, number: int) -> None:
        """Note that a change is in the world, and waits no more."""
        self.due |= self._depending(self.remove(number).changes) - {TOGETHER}

    def lasting(self) -> Parts:
        """Return the parts of a conflict that nothing else that waits touches; None if there is none."""
        unsure = {*self.due}
        for number, conflict in self._conflicts.items():
            unsure |= self._depending(conflict.changes) - {number}
        lasting = (x for n, x in reversed(self._conflicts.items()) if n not in unsure)
        return next((conflict.parts for conflict in lasting), None)

    def _depending(self, atoms: Iterable[GroundAtom]) -> set[int]:
        """Return the numbers of the conflicts that depend on some of these atoms."""
        numbers = set[int]()
        for name, constants in atoms:
            for columns, by_cells in self._index.get(name, {}).items():
                cells = tuple([constants[column] for column in columns])
                numbers.update(by_cells.get(cells, ()))
        return numbers

    def _list(self, number: int, parts: Iterable[Pattern] | None) -> None:
        for name, columns, cells in _bound(parts):
            by_cells = self._index.setdefault(name, {}).setdefault(columns, {})
            by_cells.setdefault(cells, {})[number] = None

    def _unlist(self, number: int, parts: Iterable[Pattern] | None) -> None:
        for name, columns, cells in _bound(parts):
            by_cells = self._index[name][columns]
            by_cells[cells].pop(number, None)
            if not by_cells[cells]:
                del by_cells[cells]
            if not by_cells:
                del self._index[name][columns]


def _bound(
    parts: Iterable[Pattern] | None,
) -> Iterator[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    """Yield the predicates of patterns, the columns in which they have constants, and these constants."""
    for name, terms in dict.fromkeys(parts or ()):
        columns = tuple([n for n, term in enumerate(terms) if term is not None])
        yield name, columns, tuple([term for term in terms if term is not None])
