"""What the kernels write: one world's network, tables and states, and what is said of a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onlinesrl import interrupt
from onlinesrl.ground.encode import Layout
from onlinesrl.kernels import candidates, elimination, ground, network
from onlinesrl.kernels import learn as k
from onlinesrl.learn.weights import WeightTable


class Memory:
    """Owns what the kernels write; it grows, the weights too, where a kernel stops for want of room.

    Where a method raises MemoryError all is as it was.
    """

    def __init__(self, layout: Layout, weights: WeightTable):
        self.layout = layout
        self.weights = weights
        self.room: dict[str, int] = {}
        self.allocate()

    def allocate(self, atoms: int = 1 << 10, rows: int = 1 << 13) -> None:
        """Begin, also once more, with so much room for a world's atoms and rows."""
        room = {"atoms": atoms, "rows": rows, "tables": 1 << 14, "index": 1 << 12}
        self.scratch_arrays({**room, "output": 1 << 12})

    def scratch_arrays(self, room: dict[str, int] | None = None) -> None:
        """Make the arrays anew, with other room than there is now."""
        room = room or self.room
        atoms, rows, tables = room["atoms"], room["rows"], room["tables"]
        plans = self.weights.plans
        steps = (np.diff(plans.step_start), np.diff(plans.exist_step_start))
        depth = 2 + sum(int(each.max(initial=0)) for each in steps)
        depth = max(depth, 2 + 3 * int(np.diff(plans.part_step_start).max(initial=0)))
        types = [plan.types for plan in self.layout.plan.clauses]
        for found in self.layout.candidates:
            types += [found.types, *(each.types for each in found.exclusions)]
        variables = max(map(len, types), default=0)
        net = network.network(atoms, rows, 4 * rows)
        structure = elimination.structure_memory(atoms, rows, tables, 4 * tables, interrupt.flag())
        scratch = ground.scratch(
            len(self.layout.plan.query),
            len(plans.query_type),
            len(plans.index_slot),
            room["index"],
            depth,
            variables,
            self.weights.arrays.key.shape[1] - 1,
            rows,
        )
        truth, predicted, rival = (np.zeros(atoms, np.uint8) for _ in range(3))
        state = k.State(truth, predicted, rival, np.zeros(atoms))
        self.net, self.structure, self.scratch, self.state = net, structure, scratch, state
        self.room = room

    def with_found(self, batch: ground.Batch, settings: k.Settings) -> ground.Batch:
        """Return the batch with the open atoms that hard rules leave, where there are such rules."""
        if not self.layout.candidates:
            return batch
        found = np.zeros(len(batch.listed), np.uint8)
        w, at = 0, len(batch.data)
        batch = _with_room(batch)
        while w < len(found):
            status, w, at = candidates.find_open(
                self.weights.plans, batch, w, at, self.scratch, settings.max_atoms, found
            )
            if status == ground.GROW_DATA:
                batch = _with_room(batch)
            elif status != ground.OK:
                self.grow(status)
        listed = np.where(found, np.uint8(ground.FOUND), batch.listed)
        return replace(batch, listed=listed)

    def begin(self, batch: ground.Batch, settings: k.Settings) -> None:
        """Make room for what will be said of the worlds of a batch."""
        worlds = len(batch.listed)
        classes = np.zeros(worlds + 1, np.int64)
        if settings.by_query >= 0:
            plans = self.weights.plans
            at = plans.query_start[settings.by_query] + settings.by_argument
            np.cumsum(batch.domain[:, plans.query_type[at]], out=classes[1:])
        room = self.room["output"]
        self.out = k.Output(
            np.zeros(worlds, np.int32),
            np.zeros(worlds, np.int64),
            np.zeros(worlds, np.int32),
            np.zeros((worlds, 7), np.int64),
            np.zeros(worlds),
            np.zeros(worlds),
            np.full(worlds, np.inf),
            np.zeros(worlds + 1, np.int64),
            np.zeros(room, np.int32),
            np.zeros(room, np.int64),
            np.zeros(room, np.uint8),
            classes,
            np.zeros((int(classes[-1]), 3), np.int64),
            np.zeros(2, np.int64),
        )

    def grow(self, code: int) -> None:
        """Make room for what a kernel stopped at."""
        if code == k.GROW_WEIGHTS:
            self.weights.grow()
        elif code == k.GROW_OUTPUT:
            pad = np.zeros(len(self.out.true_key), np.int64)
            self.out = replace(
                self.out,
                true_query=np.concatenate([self.out.true_query, pad.astype(np.int32)]),
                true_key=np.concatenate([self.out.true_key, pad]),
                true_mark=np.concatenate([self.out.true_mark, pad.astype(np.uint8)]),
            )
            self.room["output"] = len(self.out.true_key)
        else:
            self.scratch_arrays({**self.room, _ROOM[code]: 2 * self.room[_ROOM[code]]})


def _with_room(batch: ground.Batch) -> ground.Batch:
    """Return a batch with twice the room for tuples."""
    more = np.zeros(len(batch.data) + 1024, np.int32)
    return replace(batch, data=np.concatenate([batch.data, more]))


_ROOM = {
    ground.GROW_ATOMS: "atoms",
    ground.GROW_ROWS: "rows",
    ground.GROW_INDEX: "index",
    k.GROW_TABLES: "tables",
}
