"""Examples packed into a micro-batch: constants become integers, atoms become rows of them.

Types that plans join on, enumerate or query are numbered anew in each world; types of ``+`` variables
are numbered for the whole stream, because weights are known by them. Nothing else is kept for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.background import Background
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Atoms, Constant, Example, ValuedAtom, arguments, show_ground_atom
from onlinesrl.mln.ground.encode import number_of
from onlinesrl.mln.ground.fact_tables import FactTables, NamesBeside
from onlinesrl.mln.ground.layout import Layout
from onlinesrl.mln.kernels.background import localise_beside
from onlinesrl.mln.kernels.localise import localise
from onlinesrl.mln.kernels.plans import NO_NUMBER, Batch

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


class News(NamedTuple):
    """The constants of open types that an example shows for the first time, as (type, text).

    ``hidden``: some of them stand only in its truth, so that it must be predicted without them.
    """

    constants: list[tuple[str, str]]
    hidden: bool


NO_NEWS = News([], False)


class World(NamedTuple):
    """A packed example and its place among those given."""

    example: Example
    place: int


class LimitKeys(NamedTuple):
    """What the user sets the limits of a world by."""

    atoms: str = "limits.max_atoms"
    groundings: str = "inference.max_groundings"
    advice: str = "list the atoms to predict in `query`, or add"


KEYS = LimitKeys()


class Packer:
    """Packs examples one after another; ``batch()`` hands over what has been packed.

    Constants of all types are numbered together as they come, in ``constants``, which is begun anew
    now and then; the kernel ``localise`` turns these numbers into a world's own and the stream's.
    ``shared`` has, by type, the constants that all worlds have: the declared ones, then those of open
    types that the stream has shown. All worlds have the facts of ``background``, too.
    """

    def __init__(
        self,
        layout: Layout,
        stream: Mapping[str, Domain],
        max_atoms: int,
        keys: LimitKeys = KEYS,
        background: Background | None = None,
    ):
        self.layout = layout
        self.max_atoms = max_atoms
        self.keys = keys
        self.background = background or Background()
        predicates = layout.slot_predicates()
        self.arity = {name: len(layout.arguments(name)) for name in layout.evidence}
        self.slot_start = np.cumsum([0, *(self.arity[n] for n in predicates)]).astype(np.int32)
        types = [layout.type_number[t] for name in predicates for t in layout.arguments(name)]
        self.slot_type = np.asarray(types, np.int32)
        self.local = [t in layout.plan.local for t in layout.types]
        truth = {*layout.truth.values(), *layout.denied.values()}
        self.slot_true = np.asarray([n in truth for n in range(layout.slots)], np.uint8)
        self.worlds_ever = 0
        self.shared = {t: Domain(layout.constants[t]) for t in layout.types}
        self.set_stream(stream)
        self.clear()

    def set_stream(self, stream: Mapping[str, Domain]) -> None:
        """Use these numbers for the types that are known stream-wide."""
        self.stream = stream
        self._begin()

    def _begin(self) -> None:
        """Begin to number constants: the shared ones come first."""
        layout = self.layout
        self.constants = Domain(chain.from_iterable(d.names for d in self.shared.values()))
        facts = self._fact_rows()
        self.first = len(self.constants.names)
        self.shared_place: list[Ints32] = []
        for kind, local in zip(layout.types, self.local, strict=True):
            place = np.full(self.first, -1, np.int32)
            names = self.shared[kind].names if local else layout.constants[kind]
            place[[self.constants[name] for name in names]] = np.arange(len(names))
            self.shared_place.append(place)
        self.facts = FactTables(layout, layout.plans, facts, self.local, self.shared_place)
        self.known = 0
        self.stamps = [np.zeros(0, np.int64) for _ in layout.types]
        self.places = [np.zeros(0, np.int32) for _ in layout.types]
        self.stream_ids = [np.zeros(0, np.int32) for _ in layout.types]
        self.stream_size = [0] * len(layout.types)
        self._number_facts()
        self.unshared: Atoms = {}  # the background's atoms that show constants of open types
        for name in layout.open.keys() & self.background.atoms:
            rows = self.background.atoms[name]
            showing = [row for row in rows if any(self._unshared({name: [row]}))]
            self.unshared |= {name: showing} if showing else {}

    def _tables(self) -> tuple[Ints32, Ints, Ints32, Ints]:
        """Return what a batch says of the shared constants: how many, where, and their numbers."""
        more = [[self.constants.names[c] for c in each] for each in self.facts.constants]
        self.names_shared = [
            [*d.names, *new] for d, new in zip(self.shared.values(), more, strict=True)
        ]
        names = self.names_shared
        start = np.cumsum([0, *map(len, names)])
        streams = [self.stream.get(kind) for kind in self.layout.types]
        stream = [
            -1 if s is None else s.get(str(name), -1)
            for s, each in zip(streams, names, strict=True)
            for name in each
        ]
        numeric = chain.from_iterable(names) if self.layout.plan.numeric else ()
        return (
            np.diff(start).astype(np.int32),
            start.astype(np.int64),
            np.asarray(stream, np.int32),
            np.asarray([number_of(str(name)) for name in numeric], np.int64),
        )

    def _fact_rows(self) -> dict[int, Ints32]:
        """Return the facts of evidence predicates by slot, as rows of packed numbers.

        Those of query predicates are packed with each world, whose atoms they fix.
        """
        rows = {}
        for name, atoms in self.background.atoms.items():
            if name not in self.layout.plan.query:
                numbers = [[self.constants[c] for c in arguments(atom)] for atom in atoms]
                shape = len(atoms), self.arity[name]
                rows[self.layout.evidence[name]] = np.array(numbers, np.int32).reshape(shape)
        return rows

    def _number_facts(self) -> None:
        """Give facts and shared constants the numbers that they now have."""
        numbers = [self._stream_numbers(kind) for kind in range(len(self.layout.types))]
        self.tables, self.fact_arrays = self._tables(), self.facts.arrays(numbers)
        self.strange = [  # constants of facts that the stream does not know
            (name, str(self.constants.names[c]))
            for kind, name in enumerate(self.layout.types)
            if name in self.stream
            for c in self.facts.named(kind)
            if numbers[kind][c] < 0
        ]

    def _stream_numbers(self, kind: int) -> Ints32:
        """Return the stream's numbers of the constants that are packed first, as ``localise`` gives them."""
        stream: Mapping[Constant, int] = self.stream.get(self.layout.types[kind], {})
        known = [stream.get(str(name), -1) for name in self.constants.names[: self.first]]
        return np.where(np.array(known) < 0, -2 - np.arange(self.first), known).astype(np.int32)

    # open types ----------------------------------------------------------------------------------

    def news(self, example: Example) -> News:
        """Return what an example shows of the open types that is not shared yet."""
        evidence = example.evidence
        if self.unshared:
            evidence = {
                name: [*self.unshared.get(name, ()), *evidence.get(name, ())]
                for name in self.layout.open
            }
        plain = dict.fromkeys(self._unshared(evidence))
        plain.update(dict.fromkeys(self._unshared(example.query or {})))
        told = dict.fromkeys(self._unshared(example.truth or {}))
        return News([*(plain | told)], not told.keys() <= plain.keys())

    def _unshared(self, atoms_of: Atoms) -> Iterator[tuple[str, str]]:
        for name, opened in self.layout.open.items():
            for atom in atoms_of.get(name, ()):
                args = arguments(atom)
                for j, kind in opened:
                    if j < len(args) and str(args[j]) not in self.shared[kind]:
                        yield kind, str(args[j])

    def share(self, constants: Iterable[tuple[str, str]], learning: bool) -> None:
        """Let all further worlds have these constants; ``learning`` adds them to the stream."""
        for kind, name in constants:
            self.shared[kind][name]
            if learning and kind in self.stream:
                self.stream[kind][name]
        self._begin()

    def shown(self) -> dict[str, list[Constant]]:
        """Return the shared constants of each open type that are not declared."""
        opened = {kind for places in self.layout.open.values() for _, kind in places}
        return {
            kind: self.shared[kind].names[len(self.layout.constants[kind]) :]
            for kind in self.layout.types
            if kind in opened
        }

    def set_shown(self, shown: Mapping[str, Sequence[Constant]]) -> None:
        """Let all further worlds have, of open types, the declared constants and these."""
        for kind in self.shown():
            self.shared[kind] = Domain([*self.layout.constants[kind], *shown.get(kind, ())])
        self._begin()

    # one example ---------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget the packed worlds."""
        self.worlds: list[World] = []
        self.data: list[int] = []
        self.start: list[int] = []
        self.count: list[int] = []
        self.listed = bytearray()
        self.labelled = bytearray()
        if len(self.constants.names) > self.first + KEPT_NAMES:
            self._begin()

    def stream_sizes(self) -> dict[str, int]:
        """Return how many constants the stream has, by type."""
        return {kind: len(domain.names) for kind, domain in self.stream.items()}

    def forget(self, known: Mapping[str, int]) -> None:
        """Forget the packed worlds, and what constants the stream has more than were ``known``."""
        for kind, count in known.items():
            stream = self.stream[kind]
            for name in stream.names[count:]:
                stream.pop(name, None)
                stream.pop(str(name), None)
            del stream.names[count:]
        self.clear()
        self._begin()

    def __len__(self) -> int:
        return len(self.worlds)

    def add(self, example: Example, place: int) -> None:
        """Pack one example. Raises ExampleError, and then nothing of it stays."""
        example = self.background.beside(example, self.layout.plan.query)
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
        return {name: [arguments(atom) for atom in atoms] for name, atoms in opened.items()}

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
            args = arguments(atom)
            if len(args) != arity:
                return (
                    f"{where} atom {show_ground_atom(name, args)}: {name} takes {arity} "
                    f"argument{'s' * (arity != 1)}, found {len(args)}"
                )
        return f"{where} has {len(atoms)} atoms of {name}; {self.keys.atoms} is {self.max_atoms}"

    def _plain(
        self, atoms_of: Atoms, where: str, start: list[int], count: list[int]
    ) -> dict[str, list[list[Constant] | ValuedAtom]]:
        """Return the true atoms without their values; the false ones are packed.

        Those of query predicates are fixed by evidence, and must be open where the truth says so; of
        others only the constants matter.
        """
        true: dict[str, list[list[Constant] | ValuedAtom]] = {}
        false: dict[str, list[list[Constant] | ValuedAtom]] = {}
        for name, atoms in atoms_of.items():
            true[name] = []
            for atom in atoms:
                args, value = (atom, 1.0) if isinstance(atom, list) else (atom.args, atom.value)
                if value not in (0.0, 1.0):
                    raise ExampleError(
                        f"{where} atom {show_ground_atom(name, args)} has value {value}; "
                        "a Markov logic example takes 1 (true) or 0 (false)",
                        "schema",
                    )
                (true if value else false).setdefault(name, []).append(args)
            _check_consistent(name, true[name], false.get(name, ()), where)
        layout = self.layout
        slots = layout.denied if where == "truth" else {**layout.mentioned, **layout.false}
        self._relations(false, where, slots, start, count)
        return true

    def batch(self, learning: bool) -> Batch:
        """Return the packed worlds as arrays; ``learning`` adds constants of labelled ones to the stream.

        Where it raises MemoryError, ``forget`` puts the stream right.
        """
        worlds, types = len(self.worlds), len(self.layout.types)
        if learning and self.strange and any(self.labelled):
            for kind_, constant in self.strange:
                self.stream[kind_][constant]
            self._number_facts()
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
            *self.tables,
            np.frombuffer(bytes(self.listed), np.uint8),
            np.frombuffer(bytes(self.labelled), np.uint8),
            self.fact_arrays,
            self.facts.own(worlds, len(data)),
        )
        self._make_room()
        at, early = 0, 0
        before, self.worlds_ever = self.worlds_ever, self.worlds_ever + worlds
        for kind in range(types):
            at, early = self._localise(batch, kind, before, at, early, learning)
        if self.layout.plan.numeric:
            return replace(batch, number=self._numbers()[batch.member])
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

    def _localise(  # noqa: PLR0913, PLR0917 - where it stands
        self, batch: Batch, kind: int, before: int, at: int, early: int, learning: bool
    ) -> tuple[int, int]:
        """Renumber one type's constants by world, by stream, or both; new ones join the stream."""
        stream = self.stream.get(self.layout.types[kind])
        fresh: Ints32 = np.zeros(len(batch.data) if stream is not None else 0, np.int32)
        first = len(stream.names) if stream is not None else 0
        shared = len(self.shared[self.layout.types[kind]].names)
        layout = self.slot_start, self.slot_type, self.slot_true, before
        known = self.stamps[kind], self.places[kind], self.stream_ids[kind]
        if len(self.facts.constants[kind]):
            at, early, stop = localise_beside(
                batch.own,
                batch.data,
                batch.start,
                batch.count,
                batch.labelled,
                batch.domain,
                batch.member_start,
                batch.member,
                batch.stream,
                kind,
                at,
                early,
                stream is not None,
                learning,
                shared,
                self.shared_place[kind],
                *self.facts.appearance[kind],
                *layout,
                *known,
                first,
                fresh,
            )
        else:
            at, stop = localise(
                batch,
                kind,
                at,
                self.local[kind],
                stream is not None,
                learning,
                shared,
                self.shared_place[kind],
                *layout,
                *known,
                first,
                fresh,
            )
        if stream is not None:
            for constant in fresh[: stop - first].tolist():
                stream[self.constants.names[constant]]
            self.stream_size[kind] = len(stream.names)
        return at, early

    def names(self, batch: Batch, w: int, kind: int) -> Sequence[Constant]:
        """Return the constants of a local type in one world, by their number there."""
        shared, first = self.names_shared[kind], batch.member_start.item(w, kind)
        if len(self.facts.constants[kind]):
            return NamesBeside(
                shared, self.constants.names, batch.member, batch.own, w, kind, first
            )
        own = batch.member[first : first + batch.domain.item(w, kind) - len(shared)]
        return [*shared, *map(self.constants.names.__getitem__, own.tolist())]

    def told(self, batch: Batch, slot: int, w: int, row: int) -> list[tuple[Constant, str | None]]:
        """Return the constants of an atom of the truth; of one that the world has not, its type."""
        name = self.layout.slot_predicates()[slot]
        types = self.layout.arguments(name)
        first = batch.start.item(w, slot) + row * len(types)
        found: list[tuple[Constant, str | None]] = []
        for number, kind in zip(
            batch.data[first : first + len(types)].tolist(), types, strict=True
        ):
            if number < 0:
                found.append((self.constants.names[-2 - number], kind))
            else:
                found.append((self.names(batch, w, self.layout.type_number[kind])[number], None))
        return found


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
        atom = show_ground_atom(name, min(both))
        reason = f"contradiction in {where}: {atom} is both true and false"
        raise ExampleError(reason, "contradiction")
