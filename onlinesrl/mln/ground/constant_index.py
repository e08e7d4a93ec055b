"""The three numberings of constants: packed, by world, and by stream; background facts by these numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32, extended
from onlinesrl.core.background import Background
from onlinesrl.core.example import Atoms, Constant, Example, arguments, listed_unlabelled
from onlinesrl.logic.kernels.whole_numbers import NO_NUMBER
from onlinesrl.logic.text import constant_of
from onlinesrl.logic.whole_numbers import whole_number
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels.grounding_frames import Batch, Facts, Plans
from onlinesrl.mln.kernels.renumber_constants import Numbered, Slots, localise


class Domain(dict[Constant, int]):
    """Constants numbered in order of first appearance; a lookup adds an unknown constant.

    ``3`` and ``"3"`` are the same constant, and its name is the integer. ``"03"`` is a name, see ``WHOLE``.
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
            self.names.append(constant_of(text))
            self[text] = number
        self[constant] = number
        return number


class News(NamedTuple):
    """The new constants of open types in an example, as (type, text).

    ``hidden``: some of them occur only in the truth, so that the prediction must not use them.
    """

    constants: list[tuple[str, str]]
    hidden: bool


class FactTables:
    """The facts of evidence predicates in the layout of ``grounding_frames.Facts``.

    ``rows`` has the facts by slot, as packed numbers of constants. ``shared_place`` maps packed numbers to
    shared numbers, by type; the constructor adds the constants of the facts to it. ``constants`` has
    the packed numbers of these constants, by type, in order.
    """

    def __init__(
        self,
        layout: Layout,
        plans: Plans,
        rows: Mapping[int, Ints32],
        local: Sequence[bool],
        shared_place: Sequence[Ints32],
    ):
        self.layout, self.plans, self.rows, self.local = layout, plans, rows, local
        self.shared_place = shared_place
        self.constants: list[Ints32] = []
        self.shared: list[int] = []
        for kind, place in enumerate(shared_place):
            new = [c for c in self.named(kind) if place[c] < 0] if local[kind] else []
            packed, shared = np.array(new, np.int32), int(place.max(initial=-1)) + 1
            place[packed] = shared + np.arange(len(packed))
            self.constants.append(packed)
            self.shared.append(shared + len(packed))

    def _columns(self, kind: int) -> Iterator[Ints32]:
        """Yield the content of each column of a type."""
        number = self.layout.type_number
        names = self.layout.slot_predicates()
        for slot in sorted(self.rows):
            for k, name in enumerate(self.layout.arguments(names[slot])):
                if number[name] == kind:
                    yield self.rows[slot][:, k]

    def named(self, kind: int) -> list[int]:
        """Return the packed numbers of a type's constants in facts, in order of first appearance."""
        cells = (column.tolist() for column in self._columns(kind))
        return list(dict.fromkeys(chain.from_iterable(cells)))

    def arrays(self, stream_numbers: Sequence[Ints32]) -> Facts:
        """Return the arrays of the kernels; columns of types that are not local have stream numbers."""
        layout, slots = self.layout, self.layout.slots
        names = layout.slot_predicates()
        number_of = [  # by type, the numbers of its constants by packed number
            (self.shared_place if local else stream_numbers)[kind]
            for kind, local in enumerate(self.local)
        ]
        start, count = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        order_start = np.zeros(slots, np.int64)
        numbered, order, offset = dict[int, Ints32](), list[Ints](), 0
        for slot, rows in self.rows.items():
            kinds = [layout.type_number[name] for name in layout.columns(names[slot])]
            columns = [
                number_of[kind][cells] if kind >= 0 else cells
                for kind, cells in zip(kinds, rows.T, strict=True)
            ]
            start[slot], count[slot] = offset, len(rows)
            order_start[slot] = sum(map(len, order))
            order.append(np.lexsort(columns[::-1]) if columns else np.arange(len(rows)))
            numbered[slot] = np.array(columns, np.int32).reshape(len(kinds), len(rows)).T
            offset += rows.size
        data = [rows.ravel() for rows in numbered.values()]
        return Facts(
            np.concatenate([*data, np.zeros(0)]).astype(np.int32),
            start,
            count,
            order_start,
            np.concatenate([*order, np.zeros(0)]).astype(np.int32),
            *self._indexes(numbered),
        )

    def _indexes(self, numbered: Mapping[int, Ints32]) -> tuple[Ints, Ints32, Ints32]:
        """Return the start of each index of the plans, the cells of the indexes, and their rows."""
        plans = self.plans
        starts, cells, rows = [], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        offset = row_at = 0
        indexes = (plans.index_slot, plans.index_argument, plans.index_type)
        for slot, argument, kind in np.stack(indexes, 1).tolist():
            starts.append(offset)
            if slot in numbered:
                column = numbered[slot][:, argument]
                counts = np.bincount(column, minlength=self.shared[kind])
                cells.append(row_at + np.cumsum([0, *counts]))
                rows.append(np.argsort(column, kind="stable"))
                offset, row_at = offset + len(cells[-1]), row_at + len(column)
        arrays = np.concatenate(cells).astype(np.int32), np.concatenate(rows).astype(np.int32)
        return np.array(starts, np.int64), *arrays


class Constants:
    """The numbering of the constants of examples.

    ``constants`` has the packed numbers: constants of all types together, in order of appearance. This
    numbering restarts from time to time. The kernel ``localise`` converts packed numbers to the numbers of
    a world and of the stream. ``shared`` has, by type, the constants of all worlds: first the declared ones,
    then constants of open types that the stream has shown. All worlds have the facts of ``background``, too.
    """

    def __init__(self, layout: Layout, stream: Mapping[str, Domain], background: Background):
        self.layout = layout
        self.background = background
        predicates = layout.slot_predicates()
        self.arity = {name: len(layout.columns(name)) for name in layout.evidence}
        start = np.cumsum([0, *(self.arity[n] for n in predicates)]).astype(np.int32)
        types = [layout.type_number[t] for name in predicates for t in layout.columns(name)]
        self.local = [t in layout.plan.local for t in layout.types]
        parts = (layout.truth, layout.denied, layout.unlabelled)
        truth = {slot for part in parts for slot in part.values()}
        true = np.asarray([n in truth for n in range(layout.slots)], np.uint8)
        self.slots = Slots(start, np.asarray(types, np.int32), true)
        self.shared = {t: Domain(layout.constants[t]) for t in layout.types}
        self.set_stream(stream)

    def set_stream(self, stream: Mapping[str, Domain]) -> None:
        """Set the domains of the types that are numbered for the whole stream."""
        self.stream = stream
        self.begin()

    def begin(self) -> None:
        """Restart the packed numbering; shared constants come first."""
        layout = self.layout
        self.constants = Domain(chain.from_iterable(d.names for d in self.shared.values()))
        # the facts of evidence predicates, by slot; those of query predicates fix atoms of each world
        facts: dict[int, list[list[int]]] = {}
        self.fact_values: dict[float, int] = {}
        for name, values in self.background.values.items():
            for args, value in values.items() if name not in layout.plan.query else ():
                row = [self.constants[c] for c in args]
                if name in layout.numeric:
                    row.append(self.fact_values.setdefault(value, len(self.fact_values)))
                facts.setdefault(layout.slot(name, value), []).append(row)
        self.first = len(self.constants.names)
        self.shared_place: list[Ints32] = []
        for kind, local in zip(layout.types, self.local, strict=True):
            place = np.full(self.first, -1, np.int32)
            names = self.shared[kind].names if local else layout.constants[kind]
            place[[self.constants[name] for name in names]] = np.arange(len(names))
            self.shared_place.append(place)
        rows_of = {slot: np.array(rows, np.int32) for slot, rows in facts.items()}
        self.facts = FactTables(layout, layout.plans, rows_of, self.local, self.shared_place)
        self.known = 0
        none, nowhere = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.numbered = [
            Numbered(place, none, nowhere, nowhere, np.zeros(2, np.int64), nowhere)
            for place in self.shared_place
        ]
        self.stream_size = [0] * len(layout.types)
        self.number_facts()
        self.unshared: Atoms = {}  # background atoms with unshared constants of open types
        for name in layout.open.keys() & self.background.atoms:
            rows = self.background.atoms[name]
            showing = [row for row in rows if any(self._unshared({name: [row]}))]
            self.unshared |= {name: showing} if showing else {}

    def number_facts(self) -> None:
        """Update the tables of facts and shared constants to the current numbers.

        ``tables`` are a batch's columns of shared constants: by type, their count and start; by constant,
        the stream number and the integer value.
        """
        more = [[self.constants.names[c] for c in row] for row in self.facts.constants]
        self.names_shared = names = [
            [*d.names, *new] for d, new in zip(self.shared.values(), more, strict=True)
        ]
        self.shared_constants = np.array(
            [self.constants[c] for row in names for c in row], np.int32
        )
        start = np.cumsum([0, *map(len, names)])
        nothing: Mapping[Constant, int] = {}
        streams = [self.stream.get(kind, nothing) for kind in self.layout.types]
        stream = [
            s.get(str(name), -1) for s, row in zip(streams, names, strict=True) for name in row
        ]
        numeric = chain.from_iterable(names) if self.layout.plan.numeric else ()
        self.tables: tuple[Ints32, Ints, Ints32, Ints] = (
            np.diff(start).astype(np.int32),
            start.astype(np.int64),
            np.asarray(stream, np.int32),
            np.asarray([whole_number(str(name)) for name in numeric], np.int64),
        )
        texts, unknown = [*map(str, self.constants.names[: self.first])], -2 - np.arange(self.first)
        known = [np.array([s.get(text, -1) for text in texts], np.int64) for s in streams]
        # the stream numbers of shared and fact constants, negative if unknown as in ``localise``
        numbers = [np.where(n < 0, unknown, n).astype(np.int32) for n in known]
        self.fact_arrays = self.facts.arrays(numbers)
        self.strange = [  # (type, text) of fact constants without a stream number
            (name, str(self.constants.names[c]))
            for kind, name in enumerate(self.layout.types)
            if name in self.stream
            for c in self.facts.named(kind)
            if numbers[kind][c] < 0
        ]

    # open types ----------------------------------------------------------------------------------

    def news(self, example: Example) -> News:
        """Return the constants of open types in an example that are not shared yet."""
        evidence = example.evidence
        if self.unshared:
            evidence = {
                name: [*self.unshared.get(name, ()), *evidence.get(name, ())]
                for name in self.layout.open
            }
        plain = dict.fromkeys(self._unshared(evidence))
        plain.update(dict.fromkeys(self._unshared(example.query or {})))
        of_truth = dict.fromkeys(self._unshared(example.truth or {}))
        if example.truth is not None:
            of_truth |= dict.fromkeys(self._unshared(listed_unlabelled(example)))
        return News([*(plain | of_truth)], not of_truth.keys() <= plain.keys())

    def _unshared(self, atoms_of: Atoms) -> Iterator[tuple[str, str]]:
        for name, opened in self.layout.open.items():
            for atom in atoms_of.get(name, ()):
                args = arguments(atom)
                for j, kind in opened:
                    if j < len(args) and str(args[j]) not in self.shared[kind]:
                        yield kind, str(args[j])

    def share(self, constants: Iterable[tuple[str, str]], learning: bool) -> None:
        """Add constants to all later worlds; ``learning`` adds them to the stream as well."""
        for kind, name in constants:
            self.shared[kind][name]
            if learning and kind in self.stream:
                self.stream[kind][name]
        self.begin()

    def shown(self) -> dict[str, list[Constant]]:
        """Return the shared constants of each open type that are not declared."""
        opened = {kind for places in self.layout.open.values() for _, kind in places}
        return {
            kind: self.shared[kind].names[len(self.layout.constants[kind]) :]
            for kind in self.layout.types
            if kind in opened
        }

    def set_shown(self, constants: Mapping[str, Sequence[Constant]]) -> None:
        """Set the constants of open types in all later worlds: the declared ones, then ``constants``."""
        for kind in self.shown():
            self.shared[kind] = Domain([*self.layout.constants[kind], *constants.get(kind, ())])
        self.begin()

    # a batch -------------------------------------------------------------------------------------

    def numbers(self) -> Ints:
        """Return the integer value of each constant, or NO_NUMBER, int64[constant]."""
        names = self.constants.names
        return np.asarray([n if isinstance(n, int) else NO_NUMBER for n in names], np.int64)

    def make_room(self, cells: int) -> None:
        """Extend the tables for new constants, and look up their stream numbers.

        ``cells`` is the number of data cells of the next batch.
        """
        before, self.known = self.known, len(self.constants.names)
        for kind, name in enumerate(self.layout.types):
            table, fresh = self.numbered[kind], cells if name in self.stream else 0
            if self.known > len(table.stamp) or fresh > len(table.fresh):
                table = self.numbered[kind] = replace(
                    table,
                    stamp=extended(table.stamp, self.known),
                    place=extended(table.place, self.known),
                    stream=extended(table.stream, self.known),
                    fresh=extended(table.fresh, fresh),
                )
            if name in self.stream:
                stream = self.stream[name]
                first = before if self.stream_size[kind] == len(stream.names) else 0
                numbers = [stream.get(text, -1) for text in map(str, self.constants.names[first:])]
                table.stream[first : self.known] = numbers

    def localise(self, batch: Batch, kind: int, before: int, at: int, learning: bool) -> int:
        """Renumber one type's constants by world, by stream, or both; add new constants to the stream."""
        stream = self.stream.get(self.layout.types[kind])
        shared, local = len(self.names_shared[kind]), self.local[kind]
        numbered, first = self.numbered[kind], 0 if stream is None else len(stream.names)
        numbered.next[:] = first
        streamed = stream is not None
        at = localise(
            batch, self.slots, numbered, kind, before, at, local, streamed, learning, shared
        )
        if stream is not None:
            for constant in numbered.fresh[: numbered.next.item(0) - first].tolist():
                stream[self.constants.names[constant]]
            self.stream_size[kind] = len(stream.names)
        return at

    def names(self, batch: Batch, w: int, kind: int) -> Sequence[Constant]:
        """Return the constants of a local type in one world, by their number in the world."""
        shared, first = self.names_shared[kind], batch.member_start.item(w, kind)
        size = batch.domain.item(w, kind) - len(shared)
        if not size:
            return shared
        own = [*map(self.constants.names.__getitem__, batch.member[first : first + size].tolist())]
        return _Names(shared, own) if len(shared) > size else [*shared, *own]


class _Names(Sequence[Constant]):
    """Shared constants, which may be many and are not copied, and those of one world."""

    def __init__(self, shared: Sequence[Constant], own: Sequence[Constant]):
        self._shared, self._own = shared, own

    def __len__(self) -> int:
        return len(self._shared) + len(self._own)

    def __getitem__(self, number: int) -> Constant:  # type: ignore[override]
        beyond = number - len(self._shared)
        return self._shared[number] if beyond < 0 else self._own[beyond]
