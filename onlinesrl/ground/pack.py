"""Examples packed into a micro-batch: constants become integers, atoms become rows of them.

Types that plans join on, enumerate or query are numbered anew in each world; types of ``+`` variables
are numbered for the whole stream, because weights are known by them. Nothing else is kept for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.errors import ExampleError
from onlinesrl.ground.encode import Layout
from onlinesrl.kernels.ground import NO_NUMBER, Batch, localise
from onlinesrl.kernels.network import Ints, Ints32
from onlinesrl.lang.example import Atoms, Constant, Example, ValuedAtom

KEPT_NAMES = 1 << 16


class Domain(dict[Constant, int]):
    """Constants numbered in order of first appearance; looking one up adds it.

    ``3`` and ``"3"`` are one constant, and its name is the number.
    """

    __slots__ = ("names",)

    def __init__(self, names: Iterable[Constant] = ()):
        super().__init__()
        self.names: list[Constant] = []
        for name in names:
            self[name]

    def __missing__(self, constant: Constant) -> int:
        text = constant if isinstance(constant, str) else str(constant)
        number = self.get(text)
        if number is None:
            number = len(self.names)
            self.names.append(_name(text))
            self[text] = number
        self[constant] = number
        return number


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


class Packer:
    """Packs examples one after another; ``batch()`` hands over what has been packed.

    Constants of all types are numbered together as they come, in ``constants``, which is begun anew
    now and then; the kernel ``localise`` turns these numbers into a world's own and the stream's.
    """

    def __init__(self, layout: Layout, stream: Mapping[str, Domain], max_atoms: int):
        self.layout = layout
        self.max_atoms = max_atoms
        predicates = layout.slot_predicates()
        self.arity = {name: len(layout.arguments(name)) for name in layout.evidence}
        self.slot_start = np.cumsum([0, *(self.arity[n] for n in predicates)]).astype(np.int32)
        types = [layout.type_number[t] for name in predicates for t in layout.arguments(name)]
        self.slot_type = np.asarray(types, np.int32)
        self.local = [t in layout.plan.local for t in layout.types]
        self.declared_names = [Domain(layout.constants[t]).names for t in layout.types]
        self.worlds_ever = 0
        self.set_stream(stream)
        self.clear()

    def set_stream(self, stream: Mapping[str, Domain]) -> None:
        """Use these numbers for the types that are known stream-wide."""
        self.stream = stream
        self._begin()

    def _begin(self) -> None:
        """Begin to number constants: the declared ones come first."""
        layout = self.layout
        self.constants = Domain(chain.from_iterable(layout.constants[t] for t in layout.types))
        first = len(self.constants.names)
        self.declared_number = np.full((len(layout.types), first), -1, np.int32)
        for number, kind in enumerate(layout.types):
            for place, name in enumerate(layout.constants[kind]):
                self.declared_number[number, self.constants[name]] = place
        self.known = 0
        self.stamps = [np.zeros(0, np.int64) for _ in layout.types]
        self.places = [np.zeros(0, np.int32) for _ in layout.types]
        self.stream_ids = [np.zeros(0, np.int32) for _ in layout.types]
        self.stream_size = [0] * len(layout.types)

    def clear(self) -> None:
        """Forget the packed worlds."""
        self.worlds: list[World] = []
        self.data: list[int] = []
        self.start: list[int] = []
        self.count: list[int] = []
        self.listed = bytearray()
        self.labelled = bytearray()
        if len(self.constants.names) > self.declared_number.shape[1] + KEPT_NAMES:
            self._begin()

    def __len__(self) -> int:
        return len(self.worlds)

    def add(self, example: Example, place: int) -> None:
        """Pack one example. Raises ExampleError, and then nothing of it stays."""
        at = len(self.data)
        start, count = [0] * self.layout.slots, [0] * self.layout.slots
        try:
            self._relations(example.evidence, "evidence", self.layout.evidence, start, count)
            if example.truth is not None:
                self._relations(example.truth, "truth", self.layout.truth, start, count)
            if example.query is not None:
                opened = self._opened(example.query, example.evidence)
                self._relations(opened, "query", self.layout.listed, start, count)
        except ExampleError:
            del self.data[at:]
            raise
        self.start += start
        self.count += count
        self.listed.append(example.query is not None)
        self.labelled.append(example.truth is not None)
        self.worlds.append(World(example, place))

    def _opened(self, listed: Atoms, evidence: Atoms) -> Atoms:
        """Return the listed open atoms with those that evidence fixes: joins must find both."""
        opened: Atoms = {name: [*atoms] for name, atoms in listed.items()}
        for name in self.layout.plan.query:
            opened.setdefault(name, []).extend(evidence.get(name, ()))
        return {
            name: [atom if isinstance(atom, list) else atom.args for atom in atoms]
            for name, atoms in opened.items()
        }

    def _relations(
        self,
        atoms_of: Atoms,
        where: str,
        slots: Mapping[str, int],
        start: list[int],
        count: list[int],
    ) -> None:
        """Pack the atoms of one part of an example, predicate after predicate."""
        at = len(self.data)
        for name, atoms in atoms_of.items():
            slot = slots.get(name)
            if slot is None:
                raise ExampleError(self._unknown(name, slots, where), "schema")
            arity = self.arity[name]
            try:
                fits = set(map(len, atoms)) <= {arity}  # type: ignore[arg-type]
            except TypeError:
                plain = self._plain(atoms_of, where, start, count)
                return self._relations(plain, where, slots, start, count)
            if not fits or len(atoms) > self.max_atoms:
                raise ExampleError(self._wrong(name, atoms, where), "limit" if fits else "schema")
            start[slot], count[slot] = at, len(atoms)
            at += arity * len(atoms)
        rows = chain.from_iterable(atoms_of.values())
        self.data += map(self.constants.__getitem__, chain.from_iterable(rows))  # type: ignore[arg-type]
        return None

    @staticmethod
    def _unknown(name: str, known: Iterable[str], where: str) -> str:
        what = "predicate" if where == "evidence" else f"query predicate in {where}"
        return f"unknown {what} {name}; the model has {', '.join(sorted(known))}"

    def _wrong(self, name: str, atoms: Sequence[list[Constant] | ValuedAtom], where: str) -> str:
        """Say which atom has the wrong number of arguments, or that there are too many."""
        arity = self.arity[name]
        for atom in atoms:
            args = atom.args if isinstance(atom, ValuedAtom) else atom
            if len(args) != arity:
                return (
                    f"{where} atom {show_atom(name, args)}: {name} takes {arity} "
                    f"argument{'s' * (arity != 1)}, found {len(args)}"
                )
        return f"{where} has {len(atoms)} atoms of {name}; limits.max_atoms is {self.max_atoms}"

    def _plain(
        self, atoms_of: Atoms, where: str, start: list[int], count: list[int]
    ) -> dict[str, list[list[Constant] | ValuedAtom]]:
        """Return the true atoms without their values; the false ones are packed.

        Those of query predicates in the evidence are fixed, of others only the constants matter.
        """
        true: dict[str, list[list[Constant] | ValuedAtom]] = {}
        false: dict[str, list[list[Constant] | ValuedAtom]] = {}
        for name, atoms in atoms_of.items():
            true[name] = []
            for atom in atoms:
                args, value = (atom, 1.0) if isinstance(atom, list) else (atom.args, atom.value)
                if value not in (0.0, 1.0):
                    raise ExampleError(
                        f"{where} atom {show_atom(name, args)} has value {value}; "
                        "a Markov logic example takes 1 (true) or 0 (false)",
                        "schema",
                    )
                (true if value else false).setdefault(name, []).append(args)
            _check_consistent(name, true[name], false.get(name, ()), where)
        fixed = self.layout.false if where == "evidence" else {}
        self._relations(false, where, {**self.layout.mentioned, **fixed}, start, count)
        return true

    def batch(self, learning: bool) -> Batch:
        """Return the packed worlds as arrays; ``learning`` adds constants of labelled ones to the stream."""
        worlds, types = len(self.worlds), len(self.layout.types)
        data = np.array(self.data, np.int32)
        batch = Batch(
            np.array(self.start, np.int64).reshape(worlds, self.layout.slots),
            np.array(self.count, np.int64).reshape(worlds, self.layout.slots),
            data,
            np.zeros((worlds, types), np.int32),
            np.full((worlds, types), -1, np.int64),
            np.zeros(len(data), np.int32),
            np.zeros(len(data), np.int32),
            np.zeros(0, np.int64),
            np.frombuffer(bytes(self.listed), np.uint8),
            np.frombuffer(bytes(self.labelled), np.uint8),
        )
        self._make_room()
        at = 0
        for kind in range(types):
            at = self._localise(batch, kind, at, learning)
        self.worlds_ever += worlds
        if self.layout.plan.numeric:
            return batch._replace(number=self._numbers()[batch.member])
        return batch

    def _numbers(self) -> Ints:
        """Return the whole number that each constant is, or NO_NUMBER."""
        names = self.constants.names
        return np.asarray([n if isinstance(n, int) else NO_NUMBER for n in names], np.int64)

    def _make_room(self) -> None:
        """Extend the tables by constant, and find constants in the stream where either has new ones."""
        before, self.known = self.known, len(self.constants.names)
        for kind, name in enumerate(self.layout.types):
            self.stamps[kind] = _extended(self.stamps[kind], self.known)
            self.places[kind] = _extended(self.places[kind], self.known)
            self.stream_ids[kind] = _extended(self.stream_ids[kind], self.known)
            if name in self.stream:
                stream = self.stream[name]
                first = before if self.stream_size[kind] == len(stream.names) else 0
                found = [stream.get(text, -1) for text in map(str, self.constants.names[first:])]
                self.stream_ids[kind][first : self.known] = found

    def _localise(self, batch: Batch, kind: int, at: int, learning: bool) -> int:
        """Renumber one type's constants by world, by stream, or both; new ones join the stream."""
        stream = self.stream.get(self.layout.types[kind])
        fresh: Ints32 = np.zeros(len(batch.data) if stream is not None else 0, np.int32)
        first = len(stream.names) if stream is not None else 0
        at, stop = localise(
            batch,
            kind,
            at,
            self.local[kind],
            stream is not None,
            learning,
            len(self.declared_names[kind]),
            self.declared_number[kind],
            self.slot_start,
            self.slot_type,
            self.worlds_ever,
            self.stamps[kind],
            self.places[kind],
            self.stream_ids[kind],
            first,
            fresh,
        )
        if stream is not None:
            for constant in fresh[: stop - first].tolist():
                stream[self.constants.names[constant]]
            self.stream_size[kind] = len(stream.names)
        return at

    def names(self, batch: Batch, w: int, kind: int) -> list[Constant]:
        """Return the constants of a local type in one world, by their number there."""
        declared = self.declared_names[kind]
        first = batch.member_start.item(w, kind)
        own = batch.member[first : first + batch.domain.item(w, kind) - len(declared)]
        return [*declared, *map(self.constants.names.__getitem__, own.tolist())]


def _extended(array_: np.ndarray[tuple[int], np.dtype[np.generic]], size: int) -> Any:
    """Return an array with room for ``size`` entries, at least doubled when it must grow."""
    if size <= len(array_):
        return array_
    grown = np.zeros(2 * size, array_.dtype)
    grown[: len(array_)] = array_
    return grown


def _check_consistent(
    name: str,
    true: Sequence[list[Constant] | ValuedAtom],
    false: Sequence[list[Constant] | ValuedAtom],
    where: str,
) -> None:
    both = {tuple(map(str, a)) for a in true} & {tuple(map(str, a)) for a in false}  # type: ignore[arg-type]
    if both:
        atom = show_atom(name, min(both))
        reason = f"contradiction in {where}: {atom} is both true and false"
        raise ExampleError(reason, "contradiction")


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
