"""Background facts, which every example has, in the layout that the kernels read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.example import Constant
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels.background import Facts, Own
from onlinesrl.mln.kernels.grounding_frames import Plans


class FactTables:
    """The facts of evidence predicates in the layout of ``mln.kernels.background``.

    ``rows`` has the facts by slot, as packed numbers of constants. ``shared_place`` maps packed numbers to
    shared numbers, by type; the constructor adds the constants of the facts to it. ``constants`` has
    the packed numbers of these constants, by type, in order. ``appearance`` has the arguments that
    ``localise_beside`` needs.
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
        arity = [len(layout.columns(name)) for name in layout.slot_predicates()]
        self.slot_start = np.cumsum([0, *arity]).astype(np.int32)
        self.constants: list[Ints32] = []
        self.shared: list[int] = []
        self.appearance: list[tuple[Ints32, Ints, Ints32, Ints]] = []
        for kind, place in enumerate(shared_place):
            first, shared = dict[int, int](), int(place.max(initial=-1)) + 1
            for column, cells in self._columns(kind) if local[kind] else ():
                for c in cells.tolist():
                    if place[c] < 0:
                        first.setdefault(c, column)
            packed, columns = np.array([*first], np.int32), np.array([*first.values()], np.int32)
            place[packed] = shared + np.arange(len(packed))
            arriving = np.bincount(columns, minlength=self.slot_start[-1]).astype(np.int64)
            self.constants.append(packed)
            self.shared.append(shared + len(packed))
            self.appearance.append((columns, arriving, packed, np.zeros_like(arriving)))

    def _columns(self, kind: int) -> Iterator[tuple[int, Ints32]]:
        """Yield the number and the content of each column of a type."""
        number = self.layout.type_number
        names = self.layout.slot_predicates()
        for slot in sorted(self.rows):
            for k, name in enumerate(self.layout.arguments(names[slot])):
                if number[name] == kind:
                    yield int(self.slot_start[slot]) + k, self.rows[slot][:, k]

    def named(self, kind: int) -> list[int]:
        """Return the packed numbers of a type's constants in facts, in order of first appearance."""
        cells = (column.tolist() for _, column in self._columns(kind))
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
        order_start, column_start = np.zeros(slots, np.int64), np.zeros(slots, np.int32)
        numbered, column_type, order, offset = dict[int, Ints32](), list[int](), list[Ints](), 0
        for slot, rows in self.rows.items():
            kinds = [layout.type_number[name] for name in layout.columns(names[slot])]
            columns = [
                number_of[kind][cells] if kind >= 0 else cells
                for kind, cells in zip(kinds, rows.T, strict=True)
            ]
            start[slot], count[slot] = offset, len(rows)
            order_start[slot] = sum(map(len, order))
            column_start[slot] = len(column_type)
            column_type += [
                kind if kind >= 0 and len(self.constants[kind]) else -1 for kind in kinds
            ]
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
            column_start,
            np.array(column_type, np.int32),
            *self._indexes(numbered),
            np.array([*map(len, self.constants)], np.int32),
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

    def own(self, worlds: int, cells: int) -> Own:
        """Return memory for constants outside the facts, for ``worlds`` with ``cells`` of data."""
        return _room(worlds, len(self.layout.types), cells) if self.rows else NO_OWN


def _room(worlds: int, types: int, cells: int) -> Own:
    return Own(
        count=np.zeros((worlds, types), np.int32),
        number=np.zeros(cells, np.int64),
        shared=np.zeros(cells, np.int32),
        early_start=np.zeros((worlds, types), np.int64),
        early_count=np.zeros((worlds, types), np.int32),
        early=np.zeros(cells, np.int64),
        early_number=np.zeros(cells, np.int32),
    )


NO_OWN = _room(0, 0, 0)
"""The placeholder for worlds without facts, which kernels do not read."""


class NamesBeside(Sequence[Constant]):
    """The constants of a type in a world with facts, by their number in the world.

    Constants are looked up on access.
    """

    def __init__(
        self,
        shared: Sequence[Constant],
        names: Sequence[Constant],
        member: Ints32,
        columns: Own,
        w: int,
        kind: int,
        first: int,
    ):
        count, early = columns.count.item(w, kind), columns.early_start.item(w, kind)
        self.shared = shared
        self.numbers = columns.number[first : first + count].tolist()
        self.own: list[Constant] = [names[c] for c in member[first : first + count].tolist()]
        self.early: list[int] = columns.early[
            early : early + columns.early_count.item(w, kind)
        ].tolist()

    def __len__(self) -> int:
        """Return the number of constants."""
        return len(self.shared) + len(self.own) - len(self.early)

    def __iter__(self) -> Iterator[Constant]:
        """Yield the constants in the order of their numbers."""
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> Constant:  # type: ignore[override]
        """Return the constant of a number in the world."""
        before = bisect_left(self.numbers, number)
        if before < len(self.numbers) and self.numbers[before] == number:
            return self.own[before]
        place = number - before
        for early in self.early:
            if early <= place:
                place += 1
        return self.shared[place]
