"""A world to count in: its constants by type, and the true atoms of its predicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.example import GroundAtom
from onlinesrl.logic.ast import Atom, Constant, Program, Variable
from onlinesrl.mln.counting.disjoint_conjunctions import SAME
from onlinesrl.mln.counting.factors import Factor, Sparse


class Table:
    """The distinct true atoms of a predicate, int64[atoms, arguments], and its arguments' types.

    It remembers what was selected.
    """

    def __init__(self, rows: Ints, types: tuple[str, ...]) -> None:
        self.rows = rows
        self.types = types
        self._selected: dict[tuple[int, ...], Sparse] = {}

    def select(self, pattern: tuple[int, ...]) -> Sparse:
        """Return the rows that match a pattern, without their constants and repetitions.

        For each argument it has a constant, or -1 - k for the k-th variable.
        """
        if pattern not in self._selected:
            first = {argument: k for k, argument in reversed([*enumerate(pattern)]) if argument < 0}
            fits = np.ones(len(self.rows), np.bool_)
            for k, argument in enumerate(pattern):
                if argument >= 0:
                    fits &= self.rows[:, k] == argument
                elif first[argument] != k:
                    fits &= self.rows[:, k] == self.rows[:, first[argument]]
            rows: Ints = self.rows[fits][:, sorted(first.values())]
            self._selected[pattern] = Sparse(rows)
        return self._selected[pattern]


@dataclass(frozen=True)
class World:
    """Constants by type (numbered in this order), and tables by predicate; no atom elsewhere is true.

    The tables that two worlds share are selected from and sorted once.
    """

    domains: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Table]

    @cached_property
    def numbers(self) -> Mapping[str, Mapping[str, int]]:
        """The constants' numbers by type."""
        return {t: {name: n for n, name in enumerate(names)} for t, names in self.domains.items()}

    @cached_property
    def base(self) -> int:
        """A number above those of all constants."""
        return max((2, *map(len, self.domains.values())))

    @cached_property
    def derived(self) -> dict[str, Table]:
        """The tables of existentials that were found true here, by their text."""
        return {}

    def size(self, type_: str) -> int:
        """Return the number of constants of a type."""
        return len(self.domains.get(type_, ()))

    def changed(self, rows: Mapping[str, Ints]) -> World:
        """Return the world with other true atoms of some predicates: distinct rows of constants' numbers."""
        tables = {
            name: Table(np.asarray(rows_of_name, np.int64), self.tables[name].types)
            for name, rows_of_name in rows.items()
        }
        return replace(self, tables={**self.tables, **tables})

    def table(self, name: str) -> Table:
        """Return the true atoms of a predicate, of an existential, or of ``=`` for a type."""
        if name.startswith(SAME) and name not in self.derived:
            type_ = name.removeprefix(SAME)
            n = np.arange(self.size(type_))
            self.derived[name] = Table(np.stack([n, n], axis=1), (type_, type_))
        return self.derived[name] if name in self.derived else self.tables[name]

    def factor(self, atom: Atom) -> Factor:
        """Return the factor that is 1 where an atom is true."""
        table = self.table(atom.predicate)
        scope = tuple(dict.fromkeys(t.name for t in atom.terms if isinstance(t, Variable)))
        pattern = []
        for type_, term in zip(table.types, atom.terms, strict=True):
            assert isinstance(term, Variable | Constant)
            if isinstance(term, Variable):
                pattern.append(-1 - scope.index(term.name))
            else:
                pattern.append(self.numbers.get(type_, {}).get(term.name, self.base))
        return Factor(scope, table.select(tuple(pattern)))


def world_of(program: Program, atoms: Iterable[GroundAtom]) -> World:
    """Return the world whose true atoms are those that are given as true.

    Its constants are the program's, then those of the atoms, false ones too.
    """
    numbers = {t: {name: n for n, name in enumerate(names)} for t, names in program.types.items()}
    types = {name: declaration.types for name, declaration in program.predicates.items()}
    rows: dict[str, dict[tuple[int, ...], None]] = {name: {} for name in types}
    for atom in atoms:
        numbering = (numbers.setdefault(t, {}) for t in types[atom.predicate])
        row = tuple(n.setdefault(c, len(n)) for n, c in zip(numbering, atom.arguments, strict=True))
        if atom.value is True:
            rows[atom.predicate][row] = None
    tables = {
        name: Table(
            np.array([*tuples], np.int64).reshape(len(tuples), len(types[name])), types[name]
        )
        for name, tuples in rows.items()
    }
    return World({t: (*names,) for t, names in numbers.items()}, tables)
