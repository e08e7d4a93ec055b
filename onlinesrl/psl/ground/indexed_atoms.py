"""The listed atoms of a PSL world, in arrays over which joins run while atoms come and go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, enlarged
from onlinesrl.logic.atom_index import GroundAtom
from onlinesrl.psl.ground.form_assembly import spellings
from onlinesrl.psl.ground.indexed_rows import IndexedRows
from onlinesrl.psl.lang.data import AtomTable, Database, Relation, no_atoms


class IndexedAtoms(IndexedRows):
    """Numbered atoms with values, NaN for a target.

    ``indexes`` are pairs of a predicate and some columns; ``named`` are constants that stay. ``value``
    float64[room] is that of an atom, ``variable`` int32[room] its number where it is a target, else -1.
    With ``ordered``, joins compare constants, letter by letter.
    """

    def __init__(
        self,
        arities: Mapping[str, int],
        indexes: Iterable[tuple[str, tuple[int, ...]]],
        named: Iterable[str],
        ordered: bool,
        key_width: int,
    ) -> None:
        self.predicates = [*arities]
        self.relation_of = {name: n for n, name in enumerate(arities)}
        self._arities, self._ordered = np.array([*arities.values()], np.int64), ordered
        self._number: dict[GroundAtom, int] = {}
        self._atom = list[GroundAtom | None]()
        self.constants: list[str] = []
        """By number; that of a number without a constant is empty."""
        self._constant: dict[str, int] = {}
        self._mentions = np.zeros(0, np.int64)
        self._idle = list[int]()
        self._letters = 0
        super().__init__(
            [*arities.values()],
            [(self.relation_of[name], columns) for name, columns in indexes],
            key_width,
        )
        numbers = self._interned([*named])
        self._mentions[numbers] = 1

    def under_rules(
        self,
        arities: Mapping[str, int],
        indexes: Iterable[tuple[str, tuple[int, ...]]],
        named: Iterable[str],
        ordered: bool,
        key_width: int,
    ) -> IndexedAtoms:
        """Return a copy for other rules, with the same numbers; it has its own and the other predicates."""
        every = dict(zip(self.predicates, self._arities.tolist(), strict=True)) | {**arities}
        relation_of = {name: n for n, name in enumerate(every)}
        numbered = [(relation_of[name], columns) for name, columns in indexes]
        other = self.under([*every.values()], numbered, key_width)
        other.predicates, other.relation_of = [*every], relation_of
        other._arities, other._ordered = np.array([*every.values()], np.int64), ordered
        other._number, other._constant = {**self._number}, {**self._constant}
        other._atom, other.constants, other._idle = [*self._atom], [*self.constants], [*self._idle]
        other._mentions = self._mentions.copy()
        if ordered:
            other._spell_all()
        numbers = other._interned([*named])
        other._mentions[numbers] += 1
        return other

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

    def database(self) -> tuple[Database, Ints, Ints]:
        """Return the listed atoms as a database.

        Returns also the numbers of its atoms, predicate by predicate with observed ones before targets, and
        those of its constants.
        """
        constants = np.flatnonzero(self._mentions)
        place = np.zeros(len(self._mentions), np.int32)
        place[constants] = np.arange(len(constants))
        relations, numbers = {}, [np.empty(0, np.int64)]
        for relation, name in enumerate(self.predicates):
            every, arity = self.numbers(relation), int(self._arities[relation])
            is_target = self.variable[every] >= 0
            parts = every[~is_target], every[is_target]
            observed, targets = (
                AtomTable(place[self.cells(part)[:arity]], self.value[part]) for part in parts
            )
            relations[name] = Relation(observed, targets, no_atoms(arity))
            numbers += parts
        names = tuple([self.constants[n] for n in constants.tolist()])
        return Database(names, relations), np.concatenate(numbers), constants

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
        new, begins, stops = spellings(names)
        letter, start, stop = self._spellings
        begin, end = self._letters, self._letters + len(new)
        if end > len(letter) or len(self.constants) > len(start):
            self._spell_all()
            return
        numbers = [self._constant[name] for name in names]
        letter[begin:end], self._letters = new, end
        start[numbers], stop[numbers] = begin + begins, begin + stops

    def _spell_all(self) -> None:
        """Write the letters of all constants, with room for as many again."""
        parts = spellings(self.constants)
        self._letters = len(parts[0])
        letter, start, stop = (enlarged(part, 2 * len(part) + 64) for part in parts)
        self.spell(letter, start, stop)

    def _extend(self, room: int) -> None:
        present = len(self.value)
        self.value, self.variable = enlarged(self.value, room), enlarged(self.variable, room)
        self.variable[present:] = -1
