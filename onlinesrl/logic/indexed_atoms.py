"""The listed atoms of a world, in arrays over which joins run while atoms come and go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32, enlarged
from onlinesrl.logic.atom_index import GroundAtom
from onlinesrl.logic.compiled_joins import WORLD, CompiledPlan, P, spellings
from onlinesrl.logic.indexed_rows import IndexedRows
from onlinesrl.logic.kernels import join as kernel
from onlinesrl.logic.kernels.join import Loops

FIRST, ROOM = 1 << 8, 1 << 16
"""The rows of a plan's first chunk, and of the largest."""
NO_LIMIT = 1 << 62


class IndexedAtoms(IndexedRows):
    """Numbered atoms with values, NaN for a target, and the indexes that plans look atoms up in.

    ``arities`` are those of predicates, ``key_width`` the most columns of lists of keys. ``value``
    float64[room] is that of an atom, ``variable`` int32[room] its number where it is a target, else -1. The
    constants of plans stay.
    """

    def __init__(
        self, arities: Mapping[str, int], plans: Sequence[CompiledPlan[Any]], key_width: int
    ) -> None:
        self._number: dict[GroundAtom, int] = {}
        self._atom = list[GroundAtom | None]()
        self.constants: list[str] = []
        """By number; that of a number without a constant is empty."""
        self._constant: dict[str, int] = {}
        self._mentions = np.zeros(0, np.int64)
        self._idle = list[int]()
        self._letters = 0
        super().__init__([*arities.values()], self._asked(arities, plans), key_width)
        self._intern_constants(plans)

    def under_plans(
        self, arities: Mapping[str, int], plans: Sequence[CompiledPlan[Any]], key_width: int
    ) -> IndexedAtoms:
        """Return a copy for other plans, with the same numbers; it has its own and the other predicates."""
        every = dict(zip(self.predicates, self.widths, strict=True)) | {**arities}
        other = copy(self)
        other = other.under([*every.values()], other._asked(every, plans), key_width)
        other._number, other._constant = {**self._number}, {**self._constant}
        other._atom, other.constants, other._idle = [*self._atom], [*self.constants], [*self._idle]
        other._mentions = self._mentions.copy()
        if other._ordered:
            other._spell_all()
        other._intern_constants(plans)
        return other

    def _asked(
        self, arities: Mapping[str, int], plans: Iterable[CompiledPlan[Any]]
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Return the indexes that plans ask for beside those on all columns, and number all."""
        self.predicates = [*arities]
        self.relation_of = {name: n for n, name in enumerate(arities)}
        self._arities = np.array([*arities.values()], np.int64)
        whole = {(name, tuple(range(n))): self.relation_of[name] for name, n in arities.items()}
        keys = dict.fromkeys(key for plan in plans for key in plan.indexes if key[0] != WORLD)
        more = [key for key in keys if key not in whole]
        self._index = whole | {key: n for n, key in enumerate(more, len(arities))}
        self._ordered = any(np.any(plan.code.condition[:, 0] == kernel.BEFORE) for plan in plans)
        return [(self.relation_of[name], columns) for name, columns in more]

    def _intern_constants(self, plans: Iterable[CompiledPlan[Any]]) -> None:
        numbers = self._interned(dict.fromkeys(name for plan in plans for name in plan.constants))
        self._mentions[numbers] += 1

    def bound(self, plan: CompiledPlan[P]) -> CompiledPlan[P]:
        """Return a plan with the numbers of the indexes, for ``run``."""
        index = [self.scratch if key[0] == WORLD else self._index[key] for key in plan.indexes]
        probes = np.array(index, np.int32)[plan.code.probe_index]
        return replace(plan, code=replace(plan.code, probe_index=probes))

    def run(
        self, plan: CompiledPlan[Any], loops: Loops, limit: int = NO_LIMIT
    ) -> Iterator[tuple[Ints32, Ints32]]:
        """Yield the atoms and bindings of a bound plan's rows, in chunks; see ``kernels.join.rows``."""
        constant = np.array([self._constant[name] for name in plan.constants], np.int32)
        relations, capacity = self.relations, FIRST
        while loops.depth[0] >= 0:
            atoms = np.empty((len(loops.atom) - 1, capacity), np.int32)
            bindings = np.empty((plan.slots, capacity), np.int32)
            n = kernel.rows(relations, plan.code, loops, constant, limit, atoms, bindings)
            capacity = min(4 * capacity, ROOM)
            if n:
                yield atoms[:, :n], bindings[:, :n]

    def get(self, atom: GroundAtom) -> float | None:
        """Return the value of an atom; None if it is not listed."""
        number = self._number.get(atom)
        return None if number is None else float(self.value[number])

    def find_atoms(self, atoms: Collection[GroundAtom]) -> Ints:
        """Return the numbers of atoms, -1 for those that are not listed."""
        numbers = (self._number.get(atom, -1) for atom in atoms)
        return np.fromiter(numbers, np.int64, len(atoms))

    def number(self, atom: GroundAtom) -> int:
        """Return the number of a listed atom."""
        return self._number[atom]

    def atom(self, number: int) -> GroundAtom:
        """Return a listed atom, or one that was removed after the last ``release``."""
        atom = self._atom[number]
        assert atom is not None
        return atom

    def numbered(self) -> dict[GroundAtom, int]:
        """Return the numbers of listed atoms, and of those removed after the last ``release``."""
        return {atom: number for number, atom in enumerate(self._atom) if atom is not None}

    def items(self) -> Iterator[tuple[GroundAtom, float]]:
        """Yield the atoms and their values."""
        for atom, number in self._number.items():
            yield atom, float(self.value[number])

    def constant(self, name: str) -> int:
        """Return the number of a constant."""
        return self._constant[name]

    def insert(self, atoms: Sequence[GroundAtom]) -> Ints:
        """List atoms that are not listed, as observed with the value 0; return their numbers."""
        relation = np.array([self.relation_of[name] for name, _ in atoms], np.int64)
        arity = self._arities[relation]
        constants = self._interned([*chain.from_iterable(row for _, row in atoms)])
        np.add.at(self._mentions, constants, 1)
        row = np.repeat(np.arange(len(atoms)), arity)
        column = np.arange(len(row)) - np.repeat(np.cumsum(arity) - arity, arity)
        cells = np.zeros((self._width, len(atoms)), np.int32)
        cells[column, row] = constants
        numbers = self.add(relation, cells)
        self._atom += [None] * (self._end - len(self._atom))
        for atom, number in zip(atoms, numbers.tolist(), strict=True):
            self._number[atom] = number
            self._atom[number] = atom
        self.value[numbers], self.variable[numbers] = 0.0, -1
        return numbers

    def set_values(self, numbers: Ints, values: Floats) -> None:
        """Give atoms their values."""
        self.value[numbers] = values
        self.variable[numbers] = np.where(np.isnan(self.value[numbers]), numbers, -1)

    def remove(self, numbers: Ints) -> None:
        """Take atoms off the list; see ``release``."""
        for number in numbers.tolist():
            del self._number[self.atom(number)]
        self.variable[numbers] = -1
        super().remove(numbers)

    def restore(self, numbers: Ints, relation: Ints) -> None:
        """List atoms again that were removed after the last ``release``."""
        for number in numbers.tolist():
            self._number[self.atom(number)] = number
        self.set_values(numbers, self.value[numbers])
        super().restore(numbers, relation)

    def release(self) -> list[int]:
        """Free the numbers of atoms that were removed, and of constants that no atom mentions."""
        gone = super().release()
        constants = [self._constant[name] for number in gone for name in self.atom(number)[1]]
        np.subtract.at(self._mentions, constants, 1)
        for constant in {*constants}:
            if not self._mentions[constant]:
                del self._constant[self.constants[constant]]
                self.constants[constant] = ""
                self._idle.append(constant)
        for number in gone:
            self._atom[number] = None
        return gone

    def _interned(self, names: Collection[str]) -> Ints:
        """Return the numbers of constants, new ones as well."""
        of, new = self._constant, list[str]()
        for name in names:
            if name not in of:
                if self._idle:
                    of[name] = self._idle.pop()
                    self.constants[of[name]] = name
                else:
                    of[name] = len(self.constants)
                    self.constants.append(name)
                new.append(name)
        if len(self.constants) > len(self._mentions):
            self._mentions = enlarged(self._mentions, 2 * len(self.constants))
        if self._ordered:
            self._spell(new)
        return np.fromiter(map(of.__getitem__, names), np.int64, len(names))

    def _spell(self, names: Sequence[str]) -> None:
        """Write the letters of constants behind all others, or of all where there is no room."""
        new, begins, stops, values = spellings(names)
        letter, start, stop, number = self._spellings
        begin, end = self._letters, self._letters + len(new)
        if end > len(letter) or len(self.constants) > len(start):
            self._spell_all()
            return
        numbers = np.array([self._constant[name] for name in names], np.int64)
        letter[begin:end], self._letters = new, end
        start[numbers], stop[numbers], number[numbers] = begin + begins, begin + stops, values

    def _spell_all(self) -> None:
        """Write the letters of all constants, with room for as many again."""
        letter, *places = spellings(self.constants)
        self._letters, room = len(letter), 2 * len(self.constants) + 64
        letter = enlarged(letter, 2 * len(letter) + 64)
        start, stop, number = (enlarged(part, room) for part in places)
        self.spell((letter, start, stop, number))

    def _extend(self, room: int) -> None:
        present = len(self.value)
        self.value, self.variable = enlarged(self.value, room), enlarged(self.variable, room)
        self.variable[present:] = -1
