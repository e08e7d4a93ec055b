"""The ground clauses of a world that states violate, of the clauses that were left out of its network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.errors import ExampleError
from onlinesrl.mln.ground.grounder import GroundExample
from onlinesrl.mln.kernels import violated_clauses as k
from onlinesrl.mln.kernels.ground_network import GROUNDINGS, Network, network
from onlinesrl.mln.kernels.grounding_frames import (
    EVIDENCE_BREAKS_RULE,
    GROW_INDEX,
    OK,
    TOO_MANY_GROUNDINGS,
    Batch,
)
from onlinesrl.mln.kernels.relations import index_relations

ROOM = 1 << 14
"""The initial room for violated groundings of a clause."""


class LazyClauses:
    """The clauses that the network of a ground example leaves out, and which of their groundings are ground.

    It is valid until the grounder of the example grounds another one.
    """

    def __init__(self, world: GroundExample) -> None:
        self._grounder, self._batch, self._net = world.grounder, world.batch, world.net
        self._left_out = np.flatnonzero(world.net.left_out).tolist()
        self._known = {c: self._bindings(c, 0) for c in self._left_out}
        self._groundings = int(world.net.size[GROUNDINGS])

    def total(self) -> float:
        """Return the weight of all ground clauses of soft clauses left out that evidence does not decide."""
        plans, batch, net = self._grounder.layout.plans, self._batch, self._net
        self._index(batch)
        total = 0.0
        for c in self._left_out:
            clause = self._grounder.layout.plan.clauses[c].clause
            if not clause.hard:
                n = k.count_open(plans, batch, 0, c, net, self._grounder.scratch)
                total += n * clause.sign * (clause.weight or 0.0)
        return total

    def violated(self, value: Floats) -> Network | None:
        """Return the ground clauses that values of the atoms violate, each once; None: there is none.

        ``value``, float64[atoms], is in [0, 1]; for other values a clause is violated where its literals come
        to less than 1. Raises ExampleError beyond the limit of ground clauses.
        """
        batch = self._positive(value)
        self._index(batch)
        new: dict[int, Ints32] = {}
        for c in self._left_out:
            room = self._grounder.limits.groundings - self._groundings
            bindings = self._violated(batch, c, value, room)
            fresh = ~np.isin(_bytes(bindings), _bytes(self._known[c]))
            if np.any(fresh):
                new[c] = bindings[fresh]
                self._known[c] = np.concatenate((self._known[c], new[c]))
                self._groundings += len(new[c])
                if len(new[c]) > room:
                    self._stop(TOO_MANY_GROUNDINGS, c)
        return self._network(batch, new) if new else None

    def _violated(self, batch: Batch, c: int, value: Floats, most: int) -> Ints32:
        """Return the constants of the violated groundings of a clause; of too many, more than ``most``."""
        plans, scratch, room = self._grounder.layout.plans, self._grounder.scratch, ROOM
        most += len(self._known[c])
        while True:
            bindings = self._bindings(c, min(room, most + 1))
            n = k.violated(plans, batch, 0, c, value, self._net, scratch, bindings)
            if n < len(bindings) or n > most:
                return bindings[:n]
            room *= 4

    def _network(self, batch: Batch, new: dict[int, Ints32]) -> Network:
        """Return groundings as rows of a network over the world's atoms."""
        layout, net = self._grounder.layout, self._net
        plans = layout.plans
        rows = sum(map(len, new.values()))
        literals = sum(
            len(bindings) * int(plans.literal_start[c + 1] - plans.literal_start[c])
            for c, bindings in new.items()
        )
        own = network(0, rows + 1, literals + 1, keys=net.row_key.shape[1])
        names = [name for name in Network._names if name.startswith(("row_", "lit_"))]
        parts = {name: getattr(own, name) for name in (*names, "clause_start")}
        size = net.size.copy()
        size[2:5] = 0
        part = replace(net, size=size, **parts)
        for c, bindings in new.items():
            status = k.write(plans, batch, 0, c, bindings, part, self._grounder.scratch)
            if status != OK:
                assert status == EVIDENCE_BREAKS_RULE
                self._stop(status, c)
        return part

    def _positive(self, value: Floats) -> Batch:
        """Return the batch, whose world lists the atoms of positive value."""
        layout, batch = self._grounder.layout, self._batch
        start, count, data = batch.start.copy(), batch.count.copy(), [batch.data]
        at = len(batch.data)
        for q, name in enumerate(layout.plan.query):
            first, last = self._net.query_base[q : q + 2].tolist()
            keys = np.flatnonzero(value[first:last] > k.TOLERANCE)
            if batch.listed[0]:
                keys = self._net.key[first + keys]
            columns = self._columns(q, keys)
            rows = np.stack([columns[j] for j in sorted(columns)], 1) if columns else keys[:, None]
            slot = layout.listed[name]
            start[0, slot], count[0, slot] = at, len(keys)
            data.append(rows[:, : len(columns)].astype(np.int32).ravel())
            at += len(data[-1])
        return replace(batch, start=start, count=count, data=np.concatenate(data))

    def _columns(self, q: int, keys: Ints) -> dict[int, Ints]:
        """Return the constants of each argument of a query predicate's groundings."""
        plans = self._grounder.layout.plans
        return {
            int(plans.query_argument[j]): keys
            // self._net.query_stride[j]
            % max(1, int(self._batch.domain[0, plans.query_type[j]]))
            for j in range(plans.query_start[q], plans.query_start[q + 1])
        }

    def _index(self, batch: Batch) -> None:
        """Index the relations of a batch."""
        grounder = self._grounder
        while index_relations(grounder.layout.plans, batch, 0, grounder.scratch) == GROW_INDEX:
            grounder.grow(GROW_INDEX)

    def _bindings(self, c: int, rows: int) -> Ints32:
        return np.zeros((rows, len(self._grounder.layout.plan.clauses[c].types)), np.int32)

    def _stop(self, status: int, c: int) -> None:
        kind = "limit" if status == TOO_MANY_GROUNDINGS else "hard_rule"
        raise ExampleError(self._grounder.reason(self._batch, 0, status, c), kind)


def _bytes(rows: Ints32) -> np.ndarray:
    """Return each row as one value."""
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
