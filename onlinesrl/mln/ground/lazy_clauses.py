"""The ground clauses of a world that states violate, of the clauses that were left out of its network."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.errors import ExampleError
from onlinesrl.logic.ast import Constant
from onlinesrl.mln.ground.ground_mrf import State, fixed_units
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.model_weights import ModelWeights
from onlinesrl.mln.kernels import violated_clauses as k
from onlinesrl.mln.kernels.ground_network import GROUNDINGS, Network, network
from onlinesrl.mln.kernels.grounding_frames import (
    EVIDENCE_BREAKS_RULE,
    GROW_INDEX,
    OK,
    TOO_MANY_GROUNDINGS,
    TRUTH_BREAKS_RULE,
    Batch,
)
from onlinesrl.mln.kernels.relations import index_relations

ROOM = 1 << 14
"""The initial room for violated groundings of a clause."""
CONFLICTS = 100_000
"""The most groundings of a clause of two query atoms that are ground before a state violates them."""


class LazyClauses:
    """The clauses that the network of a ground world leaves out, and which of their groundings are ground.

    The world is number ``w`` of the batch, and the last that its grounder has ground: this is valid until it
    grounds another one. Groundings of the clauses ``without`` are never violated: they weigh nothing.
    """

    def __init__(
        self, grounder: Grounder, batch: Batch, w: int = 0, without: Collection[int] = ()
    ) -> None:
        self._grounder, self._batch, self._w, self._net = grounder, batch, w, grounder.net
        self.left_out = np.flatnonzero(grounder.net.left_out).tolist()
        self._known = {c: self._bindings(c, 0) for c in self.left_out if c not in without}
        self._groundings = int(grounder.net.size[GROUNDINGS])

    def total(self) -> float:
        """Return the weight of all ground clauses of soft clauses left out that evidence does not decide."""
        plans, batch, net = self._grounder.layout.plans, self._batch, self._net
        self._index(batch)
        total, fixed = 0.0, len(fixed_units(net)) > 0
        for c in self.left_out:
            plan = self._grounder.layout.plan.clauses[c]
            constants = any(isinstance(x, Constant) for a in plan.query for x in a.atom.terms)
            alike = 0 if fixed or constants else len(plan.types)
            if not plan.clause.hard:
                n = k.count_open(plans, batch, self._w, c, net, self._grounder.scratch, alike)
                total += n * plan.clause.sign * (plan.clause.weight or 0.0)
        return total

    def violated(self, value: Floats, conflicts: bool = False) -> Network | None:
        """Return the ground clauses that values of the atoms violate, each once; None: there is none.

        ``value``, float64[atoms], is in [0, 1]; for other values a clause is violated where its literals come
        to less than 1. One of two query atoms counts as violated where both are above 0, because such
        clauses form cliques. ``conflicts``: only these, and none of a clause that has more than CONFLICTS.
        Raises ExampleError beyond the limit of ground clauses.
        """
        positive, clauses = np.ceil(value - k.TOLERANCE), self._grounder.layout.plan.clauses
        pairs = {c: positive for c in self._known if len(clauses[c].query) == 2}
        others = {} if conflicts else {c: value for c in self._known if c not in pairs}
        return self._new(self._positive(value), pairs | others, conflicts)

    def turned(self, state: State) -> Network | None:
        """Return the ground clauses of soft clauses whose truth an atom alone can turn, as ``violated``.

        All of them are looked at, because an atom that is false may make one false.
        """
        value, hard = state.astype(np.float64), self._grounder.layout.plans.hard
        soft = {c: value for c in self._known if not hard[c]}
        return self._new(self._positive(np.ones(len(state))), soft, conflicts=False, least=2)

    def _new(
        self, batch: Batch, values: dict[int, Floats], conflicts: bool, least: int = 1
    ) -> Network | None:
        """Return the new ground clauses of clauses that values violate, see ``violated_clauses``."""
        self._index(batch)
        new: dict[int, Ints32] = {}
        for c in sorted(values):
            room = self._grounder.limits.groundings - self._groundings
            most = min(room, CONFLICTS) if conflicts else room
            bindings = self._violated(batch, c, values[c], most, least)
            fresh = ~np.isin(_bytes(bindings), _bytes(self._known[c]))
            count = int(np.count_nonzero(fresh))
            if count and not (conflicts and count > most):
                new[c] = bindings[fresh]
                self._known[c] = np.concatenate((self._known[c], new[c]))
                self._groundings += count
                if count > room:
                    self._stop(TOO_MANY_GROUNDINGS, c)
        return self._network(batch, new) if new else None

    def broken(self, state: State) -> tuple[int, int] | None:
        """Return the status and the number of a hard clause that a state breaks; None: there is none."""
        value = state.astype(np.float64)
        batch = self._positive(value)
        self._index(batch)
        plans, scratch = self._grounder.layout.plans, self._grounder.scratch
        for c in (c for c in self.left_out if plans.hard[c]):
            bindings = self._violated(batch, c, value, 0)
            if len(bindings):
                part = self._empty(1, int(plans.literal_start[c + 1] - plans.literal_start[c]))
                status = k.write(plans, batch, self._w, c, bindings[:1], part, scratch)
                return (TRUTH_BREAKS_RULE if status == OK else status), c
        return None

    def add(
        self,
        c: int,
        state: State | None,
        share: float,
        n: int,
        weights: ModelWeights,
        learning: bool,
    ) -> int:
        """Add ``share`` for each ground clause of a soft clause to the gap of its weight.

        These are the ground clauses that a state violates, without a ``state`` all that no evidence of other
        predicates makes true. ``n`` weights were touched before; returns how many are now. ``learning`` adds
        weights for new template constants. No ground clause is kept.
        """
        value = np.zeros(0) if state is None else state.astype(np.float64)
        batch = self._batch if state is None else self._positive(value)
        self._index(batch)
        plans, scratch, row = self._grounder.layout.plans, self._grounder.scratch, self._empty(1, 0)

        def add(share: float) -> bool:
            nonlocal n
            arrays, net = weights.arrays, self._net
            n, fits = k.add(
                plans, batch, self._w, c, value, net, row, scratch, arrays, n, share, learning
            )
            return bool(fits)

        while learning and weights.clauses[c].template and not add(0.0):
            weights.grow()
        add(share)
        return n

    def _violated(self, batch: Batch, c: int, value: Floats, most: int, least: int = 1) -> Ints32:
        """Return the constants of the violated groundings of a clause; of too many, more than ``most``."""
        plans, scratch, room = self._grounder.layout.plans, self._grounder.scratch, ROOM
        most += len(self._known[c])
        while True:
            bindings = self._bindings(c, min(room, most + 1))
            n = k.violated(plans, batch, self._w, c, value, self._net, scratch, bindings, least)
            if n < len(bindings) or n > most:
                return bindings[:n]
            room *= 4

    def _network(self, batch: Batch, new: dict[int, Ints32]) -> Network:
        """Return groundings as rows of a network over the world's atoms."""
        plans = self._grounder.layout.plans
        rows = sum(map(len, new.values()))
        literals = sum(
            len(bindings) * int(plans.literal_start[c + 1] - plans.literal_start[c])
            for c, bindings in new.items()
        )
        part = self._empty(rows, literals)
        for c, bindings in new.items():
            status = k.write(plans, batch, self._w, c, bindings, part, self._grounder.scratch)
            if status != OK:
                assert status == EVIDENCE_BREAKS_RULE
                self._stop(status, c)
        return part

    def _empty(self, rows: int, literals: int) -> Network:
        """Return a network over the world's atoms with room for rows."""
        own = network(0, rows + 1, literals + 1, keys=self._net.row_key.shape[1])
        names = [name for name in Network._names if name.startswith(("row_", "lit_"))]
        parts = {name: getattr(own, name) for name in (*names, "clause_start")}
        size = self._net.size.copy()
        size[2:5] = 0
        return replace(self._net, size=size, **parts)

    def _positive(self, value: Floats) -> Batch:
        """Return the batch, whose world lists the atoms of positive value."""
        layout, batch, w = self._grounder.layout, self._batch, self._w
        start, count, data = batch.start.copy(), batch.count.copy(), [batch.data]
        at = len(batch.data)
        for q, name in enumerate(layout.plan.query):
            first, last = self._net.query_base[q : q + 2].tolist()
            keys = np.flatnonzero(value[first:last] > k.TOLERANCE)
            if batch.listed[w]:
                keys = self._net.key[first + keys]
            columns = self._columns(q, keys)
            rows = np.stack([columns[j] for j in sorted(columns)], 1) if columns else keys[:, None]
            slot = layout.listed[name]
            start[w, slot], count[w, slot] = at, len(keys)
            data.append(rows[:, : len(columns)].astype(np.int32).ravel())
            at += len(data[-1])
        return replace(batch, start=start, count=count, data=np.concatenate(data))

    def _columns(self, q: int, keys: Ints) -> dict[int, Ints]:
        """Return the constants of each argument of a query predicate's groundings."""
        plans = self._grounder.layout.plans
        return {
            int(plans.query_argument[j]): keys
            // self._net.query_stride[j]
            % max(1, int(self._batch.domain[self._w, plans.query_type[j]]))
            for j in range(plans.query_start[q], plans.query_start[q + 1])
        }

    def _index(self, batch: Batch) -> None:
        """Index the relations of a batch; the ground world stays."""
        grounder, w = self._grounder, self._w
        while index_relations(grounder.layout.plans, batch, w, grounder.scratch) == GROW_INDEX:
            net, truth = grounder.net, grounder.truth
            grounder.grow(GROW_INDEX)
            grounder.net, grounder.truth = net, truth

    def _bindings(self, c: int, rows: int) -> Ints32:
        return np.zeros((rows, len(self._grounder.layout.plan.clauses[c].types)), np.int32)

    def _stop(self, status: int, c: int) -> None:
        kind = "limit" if status == TOO_MANY_GROUNDINGS else "hard_rule"
        raise ExampleError(self._grounder.reason(self._batch, self._w, status, c), kind)


def _bytes(rows: Ints32) -> np.ndarray:
    """Return each row as one value."""
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)
