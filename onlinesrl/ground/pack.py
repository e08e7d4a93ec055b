"""Examples packed into a micro-batch: constants become integers, atoms become columns.

Types that plans join on, enumerate or query are numbered anew in each world; types of ``+`` variables
are numbered for the whole stream, because weights are known by them. Nothing else outlives its batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from onlinesrl.errors import ExampleError
from onlinesrl.ground.encode import Layout
from onlinesrl.kernels.ground import Batch
from onlinesrl.lang.example import Atoms, Constant, Example, ValuedAtom


class Domain(dict[Constant, int]):
    """The constants of a type, numbered in order of first appearance; looking one up adds it.

    A frozen domain is not added to: constants it lacks get negative numbers until ``freeze``.
    """

    __slots__ = ("frozen", "names", "unknown")

    def __init__(self, names: Iterable[Constant] = ()):
        self.names: list[Constant] = list(names)
        self.freeze(False)
        super().__init__(zip(map(str, self.names), range(len(self.names)), strict=True))

    def freeze(self, frozen: bool) -> None:
        """Stop or resume adding constants."""
        self.frozen = frozen
        self.unknown: dict[str, int] = {}

    def copy(self) -> Domain:
        """Return a domain that grows on its own."""
        other = Domain()
        other.update(self)
        other.names = self.names.copy()
        return other

    def __missing__(self, constant: Constant) -> int:
        text = constant if isinstance(constant, str) else str(constant)
        number = self.get(text)
        if number is None:
            if self.frozen:
                return self.unknown.setdefault(text, -1 - len(self.unknown))
            number = len(self.names)
            self.names.append(constant)
            self[text] = number
        elif isinstance(constant, int):
            self.names[number] = constant  # declared as text: from now on as the example spells it
        self[constant] = number
        return number


class World:
    """What is remembered of a packed example until its prediction is written."""

    __slots__ = ("domains", "example", "place")

    def __init__(self, example: Example, domains: Sequence[Domain], place: int):
        self.example = example
        self.domains = domains
        self.place = place


Columns: TypeAlias = list[Sequence[Constant]]


class Packer:
    """Packs examples one after another; ``batch()`` hands over what has been packed."""

    def __init__(self, layout: Layout, stream: Mapping[str, Domain], max_atoms: int):
        self.layout = layout
        self.stream = stream
        self.max_atoms = max_atoms
        self.declared = [Domain(layout.constants[t]) for t in layout.types]
        self.own = [t in layout.plan.local for t in layout.types]
        self.types = {
            name: [layout.type_number[t] for t in layout.arguments(name)]
            for name in layout.evidence
        }
        self.clear()

    def clear(self) -> None:
        """Forget the packed worlds."""
        self.worlds: list[World] = []
        self.data = array("i")
        self.names = array("i")
        self.start = array("q")
        self.count = array("q")
        self.domain = array("i")
        self.name_start = array("q")
        self.listed = bytearray()
        self.labelled = bytearray()

    def __len__(self) -> int:
        return len(self.worlds)

    def add(self, example: Example, place: int, learning: bool) -> None:
        """Pack one example. Raises ExampleError, and then nothing of it stays."""
        data, names = len(self.data), len(self.names)
        try:
            self._add(example, place, learning)
        except ExampleError:
            del self.data[data:], self.names[names:]
            raise

    def _add(self, example: Example, place: int, learning: bool) -> None:
        frozen = not learning or example.truth is None
        for domain in self.stream.values():
            domain.freeze(frozen)
        domains = [
            self.declared[number].copy() if self.own[number] else self.stream[kind]
            for number, kind in enumerate(self.layout.types)
        ]
        start, count = [0] * self.layout.slots, [0] * self.layout.slots
        self._evidence(example, domains, start, count)
        self._query(example, domains, start, count)
        name_start = [self._names(n, domains[n]) for n in range(len(domains))]
        self.start.extend(start)
        self.count.extend(count)
        self.domain.extend(len(d.names) for d in domains)
        self.name_start.extend(name_start)
        self.listed.append(example.query is not None)
        self.labelled.append(example.truth is not None)
        self.worlds.append(World(example, domains, place))

    def _names(self, number: int, domain: Domain) -> int:
        """Write the stream-wide numbers of a world's own constants, where templates need them."""
        kind = self.layout.types[number]
        if not self.own[number] or kind not in self.stream:
            return -1
        at = len(self.names)
        self.names.extend(map(self.stream[kind].__getitem__, domain.names))
        return at

    def _evidence(
        self, example: Example, domains: Sequence[Domain], start: list[int], count: list[int]
    ) -> None:
        for name, atoms in example.evidence.items():
            slot = self.layout.evidence.get(name)
            if slot is None:
                raise ExampleError(self._unknown(name, self.layout.evidence, "predicate"))
            columns, false = self._columns(name, atoms, "evidence")
            self._write(slot, name, columns, domains, start, count)
            if false and name in self.layout.false:
                self._write(self.layout.false[name], name, false, domains, start, count)

    def _query(
        self, example: Example, domains: Sequence[Domain], start: list[int], count: list[int]
    ) -> None:
        for where, slots in (("truth", self.layout.truth), ("query", self.layout.listed)):
            atoms_of: Atoms | None = getattr(example, where)
            for name, atoms in (atoms_of or {}).items():
                slot = slots.get(name)
                if slot is None:
                    raise ExampleError(self._unknown(name, slots, f"query predicate in {where}"))
                columns, _ = self._columns(name, atoms, where)
                self._write(slot, name, columns, domains, start, count)

    @staticmethod
    def _unknown(name: str, known: Iterable[str], what: str) -> str:
        return f"unknown {what} {name}; the model has {', '.join(sorted(known))}"

    def _columns(
        self, name: str, atoms: Sequence[list[Constant] | ValuedAtom], where: str
    ) -> tuple[Columns, Columns]:
        """Return the columns of the true and of the false atoms."""
        if len(atoms) > self.max_atoms:
            raise ExampleError(
                f"{where} has {len(atoms)} atoms of {name}; limits.max_atoms is {self.max_atoms}"
            )
        arity = len(self.types[name])
        try:
            flat = list(chain.from_iterable(atoms))  # type: ignore[arg-type]
        except TypeError:
            return self._valued(name, atoms, where)
        if arity == 1 and len(flat) == len(atoms) and [] not in atoms:
            return [flat], []
        if not set(map(len, atoms)) <= {arity}:  # type: ignore[arg-type]
            wrong = next(a for a in atoms if len(a) != arity)  # type: ignore[arg-type]
            raise ExampleError(
                f"{where} atom {show_atom(name, wrong)}: {name} takes {arity} "  # type: ignore[arg-type]
                f"argument{'s' * (arity != 1)}, found {len(wrong)}"  # type: ignore[arg-type]
            )
        return [flat[k::arity] for k in range(arity)] or [[0] * len(atoms)], []

    def _valued(
        self, name: str, atoms: Sequence[list[Constant] | ValuedAtom], where: str
    ) -> tuple[Columns, Columns]:
        """Split atoms that carry values into true and false ones."""
        sides: dict[bool, list[list[Constant]]] = {True: [], False: []}
        for atom in atoms:
            args, value = (atom, 1.0) if isinstance(atom, list) else (atom.args, atom.value)
            if value not in (0.0, 1.0):
                raise ExampleError(
                    f"{where} atom {show_atom(name, args)} has value {value}; "
                    "a Markov logic example takes 1 (true) or 0 (false)"
                )
            sides[value == 1.0].append(args)
        both = {tuple(map(str, a)) for a in sides[True]} & {
            tuple(map(str, a)) for a in sides[False]
        }
        if both:
            atom_ = show_atom(name, min(both))
            raise ExampleError(f"contradiction in {where}: {atom_} is both true and false")
        true, _ = self._columns(name, sides[True], where)
        false, _ = self._columns(name, sides[False], where)
        return true, false

    def _write(
        self,
        slot: int,
        name: str,
        columns: Columns,
        domains: Sequence[Domain],
        start: list[int],
        count: list[int],
    ) -> None:
        start[slot] = len(self.data)
        count[slot] = len(columns[0])
        for column, kind in zip(columns, self.types[name], strict=False):
            self.data.extend(map(domains[kind].__getitem__, column))

    def batch(self) -> Batch:
        """Return the packed worlds as arrays (copies: the packer may go on)."""
        worlds, types = len(self.worlds), len(self.layout.types)
        return Batch(
            np.array(self.start, np.int64).reshape(worlds, self.layout.slots),
            np.array(self.count, np.int64).reshape(worlds, self.layout.slots),
            np.array(self.data, np.int32),
            np.array(self.domain, np.int32).reshape(worlds, types),
            np.array(self.name_start, np.int64).reshape(worlds, types),
            np.array(self.names, np.int32),
            np.frombuffer(bytes(self.listed), np.uint8),
            np.frombuffer(bytes(self.labelled), np.uint8),
        )


def show_atom(name: str, args: Iterable[Constant]) -> str:
    """Return an atom as text."""
    return f"{name}({', '.join(map(str, args))})"


class AtomNames:
    """Turns the number of a grounding back into constants."""

    def __init__(self, layout: Layout, name: str):
        self.name = name
        order = layout.radix_order(name)
        self.kinds = [layout.type_number[layout.arguments(name)[j]] for j in order]
        self.permute = itemgetter(*(order.index(j) for j in range(len(order)))) if order else None
        self.sorted = order == sorted(order)

    def constants(self, keys: Sequence[int], domains: Sequence[Domain]) -> list[list[Constant]]:
        """Return the argument lists of the groundings with these radix numbers."""
        names = [domains[kind].names for kind in self.kinds]
        if len(names) == 2 and self.sorted:
            first, last = names
            n = len(last)
            return [[first[key // n], last[key % n]] for key in keys]
        return [self._one(key, names) for key in keys]

    def _one(self, key: int, names: Sequence[Sequence[Constant]]) -> list[Constant]:
        constants: list[Constant] = []
        for column in reversed(names):
            constants.append(column[key % len(column)])
            key //= len(column)
        constants.reverse()
        if self.permute is None or self.sorted:
            return constants
        return list(self.permute(constants))
