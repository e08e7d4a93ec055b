"""Examples packed into a micro-batch: constants become integers, atoms become columns.

Types that plans join on, enumerate or query are numbered anew in each world; types of ``+`` variables
are numbered for the whole stream, because weights are known by them. Nothing else outlives its batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from onlinesrl.errors import ExampleError
from onlinesrl.ground.encode import Layout
from onlinesrl.kernels.ground import Batch, localise
from onlinesrl.lang.example import Atoms, Constant, Example, ValuedAtom


KEPT_NAMES = 1 << 16


class Domain(dict[Constant, int]):
    """The constants of a type, numbered in order of first appearance; looking one up adds it.

    ``3`` and ``"3"`` are one constant, and its name is the number. A frozen domain is not added to:
    constants it lacks get negative numbers, from -1 down, until it is frozen or thawed again.
    """

    __slots__ = ("declared", "frozen", "names", "unknown")

    def __init__(self, names: Iterable[Constant] = ()):
        super().__init__()
        self.names: list[Constant] = []
        self.frozen = False
        self.unknown: list[Constant] = []
        for name in names:
            self[name]
        self.declared = len(self.names)

    def __missing__(self, constant: Constant) -> int:
        text = constant if isinstance(constant, str) else str(constant)
        number = self.get(text)
        if number is None:
            if self.frozen:
                return self._unknown(_name(text))
            number = len(self.names)
            self.names.append(_name(text))
            self[text] = number
        self[constant] = number
        return number

    def _unknown(self, name: Constant) -> int:
        if name not in self.unknown:
            self.unknown.append(name)
        return -1 - self.unknown.index(name)

    def forget(self, first: int) -> None:
        """Remove the constants from number ``first`` on."""
        for name in self.names[first:]:
            self.pop(name, None)
            self.pop(str(name), None)
        del self.names[first:]

    def name(self, number: int) -> Constant:
        """Return the constant of a number."""
        return self.names[number] if number >= 0 else self.unknown[-1 - number]


def _name(text: str) -> Constant:
    """Return a whole number as such, anything else as it is."""
    if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19:
        number = int(text)
        return number if str(number) == text else text
    return text


class World(NamedTuple):
    """A packed example and its place among those given."""

    example: Example
    place: int


Columns: TypeAlias = list[Sequence[Constant]]


class Packer:
    """Packs examples one after another; ``batch()`` hands over what has been packed.

    A type known stream-wide is packed with its stream's numbers, any other with numbers that last
    until ``clear``; where plans need a world's own dense numbers, ``localise`` makes them.
    """

    def __init__(self, layout: Layout, stream: Mapping[str, Domain], max_atoms: int):
        self.layout = layout
        self.max_atoms = max_atoms
        self.types = {
            name: [layout.type_number[t] for t in layout.arguments(name)]
            for name in layout.evidence
        }
        slots = [self.types[name] for name in layout.slot_predicates()]
        self.slot_start = np.cumsum([0, *map(len, slots)]).astype(np.int32)
        self.slot_type = np.asarray([t for types in slots for t in types], np.int32)
        self.local = np.asarray([t in layout.plan.local for t in layout.types], np.uint8)
        self.declared = np.asarray([len(layout.constants[t]) for t in layout.types], np.int32)
        self.stamps = [np.zeros(16, np.int64) for _ in layout.types]
        self.places = [np.zeros(16, np.int32) for _ in layout.types]
        self.worlds_ever = 0
        self.set_stream(stream)
        self.clear()

    def set_stream(self, stream: Mapping[str, Domain]) -> None:
        """Use these numbers for the types that are known stream-wide."""
        self.stream = stream
        self.domains = [
            stream[t] if t in stream else Domain(self.layout.constants[t])
            for t in self.layout.types
        ]
        self.getters = [d.__getitem__ for d in self.domains]

    def clear(self) -> None:
        """Forget the packed worlds."""
        self.worlds: list[World] = []
        self.data = array("i")
        self.start = array("q")
        self.count = array("q")
        self.listed = bytearray()
        self.labelled = bytearray()
        for kind, domain in zip(self.layout.types, self.domains, strict=True):
            domain.unknown = []
            if kind not in self.stream and len(domain.names) > domain.declared + KEPT_NAMES:
                domain.forget(domain.declared)

    def __len__(self) -> int:
        return len(self.worlds)

    def add(self, example: Example, place: int, learning: bool) -> None:
        """Pack one example. Raises ExampleError, and then nothing of it stays."""
        frozen = not learning or example.truth is None
        for domain in self.stream.values():
            domain.frozen = frozen
        data, names = len(self.data), [len(d.names) for d in self.domains]
        start, count = [0] * self.layout.slots, [0] * self.layout.slots
        try:
            self._evidence(example, start, count)
            self._query(example, start, count)
        except ExampleError:
            del self.data[data:]
            for domain, n in zip(self.domains, names, strict=True):
                domain.forget(n)
            raise
        self.start.extend(start)
        self.count.extend(count)
        self.listed.append(example.query is not None)
        self.labelled.append(example.truth is not None)
        self.worlds.append(World(example, place))

    def _evidence(self, example: Example, start: list[int], count: list[int]) -> None:
        for name, atoms in example.evidence.items():
            slot = self.layout.evidence.get(name)
            if slot is None:
                raise ExampleError(self._unknown(name, self.layout.evidence, "predicate"))
            columns, false = self._columns(name, atoms, "evidence")
            self._write(slot, name, columns, start, count)
            if false:
                slot = self.layout.false.get(name, self.layout.mentioned[name])
                self._write(slot, name, false, start, count)

    def _query(self, example: Example, start: list[int], count: list[int]) -> None:
        for where, slots in (("truth", self.layout.truth), ("query", self.layout.listed)):
            atoms_of: Atoms | None = getattr(example, where)
            for name, atoms in (atoms_of or {}).items():
                slot = slots.get(name)
                if slot is None:
                    raise ExampleError(self._unknown(name, slots, f"query predicate in {where}"))
                columns, false = self._columns(name, atoms, where)
                self._write(slot, name, columns, start, count)
                if false:
                    self._write(self.layout.mentioned[name], name, false, start, count)

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
        self, slot: int, name: str, columns: Columns, start: list[int], count: list[int]
    ) -> None:
        start[slot] = len(self.data)
        count[slot] = len(columns[0])
        for column, kind in zip(columns, self.types[name], strict=False):
            self.data.extend(map(self.getters[kind], column))

    def batch(self) -> Batch:
        """Return the packed worlds as arrays."""
        worlds, types = len(self.worlds), len(self.layout.types)
        data = np.array(self.data, np.int32)
        batch = Batch(
            np.array(self.start, np.int64).reshape(worlds, self.layout.slots),
            np.array(self.count, np.int64).reshape(worlds, self.layout.slots),
            data,
            np.zeros((worlds, types), np.int32),
            np.full((worlds, types), -1, np.int64),
            np.zeros(len(data), np.int32),
            np.frombuffer(bytes(self.listed), np.uint8),
            np.frombuffer(bytes(self.labelled), np.uint8),
        )
        at = 0
        for kind in np.flatnonzero(self.local).tolist():
            at = self._localise(batch, kind, at)
        self.worlds_ever += worlds
        return batch

    def _localise(self, batch: Batch, kind: int, at: int) -> int:
        """Number one type's constants anew in every world."""
        domain = self.domains[kind]
        size = len(domain.names) + len(domain.unknown)
        if size > len(self.stamps[kind]):
            self.stamps[kind] = np.zeros(2 * size, np.int64)
            self.places[kind] = np.zeros(2 * size, np.int32)
        return localise(
            batch,
            kind,
            at,
            int(self.declared[kind]),
            len(domain.names),
            self.slot_start,
            self.slot_type,
            self.worlds_ever,
            self.stamps[kind],
            self.places[kind],
        )

    def names(self, batch: Batch, w: int, kind: int) -> list[Constant]:
        """Return the constants of a local type in one world, by their number there."""
        domain, declared = self.domains[kind], int(self.declared[kind])
        first = int(batch.member_start[w, kind])
        own = batch.member[first : first + int(batch.domain[w, kind]) - declared]
        return domain.names[:declared] + list(map(domain.name, own.tolist()))


def show_atom(name: str, args: Iterable[Constant]) -> str:
    """Return an atom as text."""
    return f"{name}({', '.join(map(str, args))})"


class AtomNames:
    """Turns the number of a grounding back into constants."""

    def __init__(self, layout: Layout, name: str):
        self.name = name
        order = layout.radix_order(name)
        self.kinds = [layout.type_number[layout.arguments(name)[j]] for j in order]
        self.place = [order.index(j) for j in range(len(order))]
        self.sorted = order == sorted(order)

    def constants(
        self, keys: Sequence[int], names: Sequence[Sequence[Constant]]
    ) -> list[list[Constant]]:
        """Return the argument lists of groundings; ``names`` are those of ``kinds`` in their world."""
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
        return [constants[place] for place in self.place]
