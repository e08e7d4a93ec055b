"""The weights of a model's rules, and their lookup for ground clauses.

A hash table maps each template instance (clause, constants) to a block of weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, enlarged
from onlinesrl.core.example import Constant
from onlinesrl.mln.ground.constant_index import Domain
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels import weight_lookup as k
from onlinesrl.mln.kernels.ground_network import ROWS, Network
from onlinesrl.mln.lang.clausal_form import Clause

ROOM, SLOTS = 1 << 16, 1 << 13
"""The initial number of weights and of hash slots. Unused ones take no memory; growing takes time."""


class ModelWeights:
    """The weight arrays of ``mln.kernels.weight_lookup`` and the constants that identify weights.

    The initial weights are the model's. ``stream`` has the constants of templates, by type.
    """

    arrays: k.Weights

    def __init__(self, layout: Layout):
        self.layout = layout
        self.clauses = [p.clause for p in layout.plan.clauses]
        self.stream = {
            t: Domain(layout.constants[t]) for t in layout.types if t in layout.plan.template
        }
        self.plans, self.reserved = layout.plans, layout.reserved
        self.strides = [layout.strides(p) for p in layout.plan.clauses]
        n = max(ROOM, 2 * self.reserved)
        keys = max((len(c.template) for c in self.clauses), default=0)
        defaults = [0.0 if c.hard or c.weight is None else c.weight for c in self.clauses]
        self.arrays = k.Weights(
            value=np.zeros((n, 3)),
            uses=np.zeros(n, np.int64),
            delta=np.zeros(n),
            mark=np.zeros(n, np.int32),
            touched=np.zeros(n, np.int64),
            key=np.zeros((n, keys + 1), np.int32),
            block=np.zeros(n, np.int64),
            slot=np.full(SLOTS, -1, np.int32),
            size=np.array([self.reserved, 0], np.int64),
            block_size=np.asarray([size for _, size in self.strides], np.int32),
            keyed=np.asarray([0 in strides for strides, _ in self.strides], np.uint8),
            default=np.asarray(defaults, float),
        )
        self.weight, self.more = np.zeros((2, 1024))
        for number, clause in enumerate(self.clauses):
            if not clause.hard:
                first, unseen = self.plans.first_weight[number], self.plans.unseen_weight[number]
                self.arrays.value[first : unseen + self.strides[number][1], 0] = defaults[number]
        for number, clause in enumerate(self.clauses):
            for key, weight in clause.table or ():
                self.set(number, key, weight)

    def __len__(self) -> int:
        return int(self.arrays.size[0])

    def grow(self) -> None:
        """Double the memory that is too small for a new block: hash slots, or weights and blocks."""
        a = self.arrays
        if 2 * (int(a.size[1]) + 1) > len(a.slot):  # at most half of the slots are in use
            self.arrays = replace(a, slot=np.full(2 * len(a.slot), -1, np.int32))
            k.rehash(self.arrays)
        else:
            self._grow_weights()

    def _grow_weights(self) -> None:
        columns = ("value", "uses", "delta", "mark", "touched", "key", "block")
        arrays = {name: getattr(self.arrays, name) for name in columns}
        twice = {name: enlarged(array, 2 * len(array)) for name, array in arrays.items()}
        self.arrays = replace(self.arrays, **twice)

    # one world -----------------------------------------------------------------------------

    def number(self, net: Network, learning: bool) -> None:
        """Find the first weight of every soft row of a network; ``learning`` adds weights for new keys."""
        while not k.number(self.plans, net, self.arrays, learning):
            self.grow()

    def room(self, net: Network) -> Floats:
        """Return a reused buffer for the weights of a network's ground clauses, float64[>= clauses]."""
        clauses = int(net.clause_start[net.size[ROWS]])
        if clauses > len(self.weight):
            self.weight, self.more = np.zeros((2, 2 * clauses))
        return self.weight

    def weigh(self, net: Network, cu: float = 0.0, cv: float = 0.0) -> Floats:
        """Return the weight of each ground clause of a numbered network, float64[clause].

        A learned weight is base + ``cu`` u + ``cv`` v. The next call overwrites the result.
        """
        weight = self.room(net)
        k.effective(net, self.arrays.value, cu, cv, weight)
        return weight

    def of_clause(self, c: int, cu: float = 0.0, cv: float = 0.0) -> Floats:
        """Return the weights of a clause, and that of new template constants; see ``weigh``."""
        a, blocks = self.arrays, int(self.arrays.size[1])
        first, unseen = int(self.plans.first_weight[c]), int(self.plans.unseen_weight[c])
        size = int(a.block_size[c])
        start = a.block[:blocks][a.key[:blocks, 0] == c]
        own = np.arange(first, unseen + size)
        value = a.value[np.concatenate((own, (start[:, None] + np.arange(size)).ravel()))]
        weight: Floats = value[:, 0] + cu * value[:, 1] + cv * value[:, 2]
        return weight

    # names ---------------------------------------------------------------------------------

    def set(self, number: int, key: tuple[str, ...], weight: float) -> None:
        """Set the starting value (base) of one weight, adding it if need be."""
        plan, (strides, _) = self.layout.plan.clauses[number], self.strides[number]
        row, offset = np.zeros(self.arrays.key.shape[1] - 1, np.int32), 0
        template = zip(plan.clause.template, key, strides, strict=True)
        for j, (name, constant, stride) in enumerate(template):
            kind = plan.types[name]
            constant_number = self.stream[kind][constant]
            if stride == 0:
                row[j] = constant_number
            elif constant_number < len(self.layout.constants[kind]):
                offset += constant_number * stride
            else:
                row[j] = constant_number + 1
        if not row.any() and not self.arrays.keyed[number]:
            first = int(self.plans.first_weight[number])
        else:
            first = self.block(number, row)
        self.arrays.value[first + offset, 0] = weight

    def block(self, number: int, row: Any) -> int:
        """Return the first weight of the block of a clause's template constants; add a missing block."""
        slot = k.find_slot(self.arrays, number, row)
        if self.arrays.slot[slot] >= 0:
            return int(self.arrays.block[self.arrays.slot[slot]])
        first = k.add_block(self.arrays, slot, number, row)
        if first >= 0:
            return int(first)
        self.grow()
        return self.block(number, row)

    def numbered(self) -> Iterator[tuple[int, Clause, tuple[str, ...]]]:
        """Yield the number of every weight, its clause, and the constants of its template."""
        a, blocks = self.arrays, int(self.arrays.size[1])
        starts: list[tuple[int, int, list[int]]] = []  # clause, first weight and key of each block
        variables: list[list[tuple[list[Constant], int, int]]] = []  # constants, declared, stride
        for number, plan in enumerate(self.layout.plan.clauses):
            types = [plan.types[variable] for variable in plan.clause.template]
            variables.append(
                [
                    (self.stream[t].names, len(self.layout.constants[t]), stride)
                    for t, stride in zip(types, self.strides[number][0], strict=True)
                ]
            )
            if not plan.clause.hard and not a.keyed[number]:
                starts.append((number, int(self.plans.first_weight[number]), [0] * len(types)))
        rows = zip(a.key[:blocks].tolist(), a.block[:blocks].tolist(), strict=True)
        starts += [(row[0], first, row[1:]) for row, first in rows]
        for number, first, row in starts:
            keys: list[tuple[int, tuple[str, ...]]] = [(first, ())]
            for (names, size, stride), constant in zip(variables[number], row, strict=False):
                if stride and not constant:
                    choices = list(enumerate(map(str, names[:size])))
                    keys = [
                        (n + stride * c, (*key, name)) for n, key in keys for c, name in choices
                    ]
                else:
                    name = str(names[constant - 1 if stride else constant])
                    keys = [(n, (*key, name)) for n, key in keys]
            for n, key in keys:
                yield n, self.clauses[number], key
