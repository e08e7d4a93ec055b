"""Background facts, which every example has, in the layout that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels.grounding_frames import Facts, Plans


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
