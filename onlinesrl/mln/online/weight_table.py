"""The weights of a run, which grow with the constants of templates: updates, averages, names.

Template instances are found by a hash table from (clause, constants) to a block of weights. Here are
growth, dropping, and the passage to and from names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints32, enlarged
from onlinesrl.core.example import Constant
from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.jit.decorators import ready
from onlinesrl.core.kernels.averaging import NORM
from onlinesrl.core.online.averaged_weights import AveragedWeights
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.mln.ground.constant_index import Domain
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.ground.plan_encoder import block_layout
from onlinesrl.mln.kernels import weight_lookup as k
from onlinesrl.mln.kernels.ground_network import ROWS, Network
from onlinesrl.mln.lang.clausal_form import Clause
from onlinesrl.mln.online.saved_weights import saved_weights
from onlinesrl.mln.online.weight_entry import Entry

KEPT_SHARE = 0.9
ROOM, SLOTS = 1 << 16, 1 << 13
"""Room at first, for weights and of the hash table. It takes memory where it is used; growing takes time."""
UNUSED = Cda2()
"""The update of weights that are not learned."""


class _Column(NamedTuple):
    """A variable of a template: names of its constants, stride in a block, how many are the model's."""

    names: list[Constant]
    stride: int
    size: int


def _keys(columns: Sequence[_Column], row: Sequence[int]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the offsets of a block and the constants that each stands for."""
    keys: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    for (names, stride, size), constant in zip(columns, row, strict=False):
        if stride and not constant:
            known = list(enumerate(map(str, names[:size])))
            keys = [(o + stride * c, (*key, name)) for o, key in keys for c, name in known]
        else:
            name = str(names[constant - 1 if stride else constant])
            keys = [(o, (*key, name)) for o, key in keys]
    return keys


class WeightTable(AveragedWeights):
    """Owns the weight arrays of ``mln.kernels.weight_lookup`` and the constants they are known by."""

    arrays: k.Weights

    def __init__(self, layout: Layout, update: Update = UNUSED):
        super().__init__(update)
        self.layout = layout
        self.clauses = [p.clause for p in layout.plan.clauses]
        self.stream = {
            t: Domain(layout.constants[t]) for t in layout.types if t in layout.plan.template
        }
        self.plans, self.reserved = layout.encoded
        self.strides = [block_layout(layout, p) for p in layout.plan.clauses]
        keys = max((len(c.template) for c in self.clauses), default=0)
        self.arrays = self._empty(keys)
        self.kept = {name: np.zeros(len(self.arrays.uses)) for name in update.columns}
        self.weight, self.more = np.zeros((2, 1024))
        self._set_reserved()
        for number, clause in enumerate(self.clauses):
            for key, weight in clause.table or ():
                self.set(number, key, weight)

    def _empty(self, keys: int) -> k.Weights:
        n = max(ROOM, 2 * self.reserved)
        defaults = [0.0 if c.hard or c.weight is None else c.weight for c in self.clauses]
        return k.Weights(
            np.zeros((n, 3)),
            np.zeros(n, np.int64),
            np.zeros(n),
            np.zeros(n, np.int32),
            np.zeros(n, np.int64),
            np.zeros((n, keys + 1), np.int32),
            np.zeros(n, np.int64),
            np.full(SLOTS, -1, np.int32),
            np.array([self.reserved, 0], np.int64),
            np.asarray([size for _, size in self.strides], np.int32),
            np.asarray([0 in strides for strides, _ in self.strides], np.uint8),
            np.asarray(defaults, float),
        )

    def _set_reserved(self) -> None:
        for number, clause in enumerate(self.clauses):
            if not clause.hard:
                first, unseen = self.plans.first_weight[number], self.plans.unseen_weight[number]
                stop = unseen + self.strides[number][1]
                self.arrays.value[first:stop, 0] = self.arrays.default[number]

    def __len__(self) -> int:
        return int(self.arrays.size[0])

    def grow(self) -> None:
        """Double the room of which a new block has too little: for hash slots, or for weights and blocks."""
        if self._crowded(int(self.arrays.size[1]) + 1):
            self._grow_slots()
        else:
            self._grow_weights()

    def _crowded(self, blocks: int) -> bool:
        """Tell whether so many blocks are more than half of the hash slots."""
        return 2 * blocks > len(self.arrays.slot)

    def _grow_slots(self) -> None:
        a = self.arrays
        self.arrays = replace(a, slot=np.full(2 * len(a.slot), -1, np.int32))
        k.rehash(self.arrays)

    def _grow_weights(self) -> None:
        a = self.arrays

        def twice(x: Any) -> Any:
            return enlarged(x, 2 * len(x))

        self.arrays = replace(
            a,
            value=twice(a.value),
            uses=twice(a.uses),
            delta=twice(a.delta),
            mark=twice(a.mark),
            touched=twice(a.touched),
            key=twice(a.key),
            block=twice(a.block),
        )
        self.kept = {name: twice(column) for name, column in self.kept.items()}

    def restart(self) -> None:
        """Start over from the present weights: they are the base, and T = 0."""
        value = self.arrays.value
        value[:, 0] += self.scale() * value[:, 1]
        for array in (value[:, 1:], *self.kept.values()):
            array[:] = 0.0
        self.before = self.updates
        self.scalar[:] = 0.0

    def cut(self, weights: int, blocks: int) -> None:
        """Remove all weights and blocks but the first so many; none of the others has been updated."""
        a = self.arrays
        if a.size[1] > blocks:
            for array in (a.value, *self.kept.values()):
                array[weights : len(self)] = 0.0
            a.size[:] = weights, blocks
            a.slot[:] = -1
            k.rehash(a)

    def averaged(self) -> Floats:
        """Return the averaged weights, [weight]."""
        cu, cv = self.mean()
        value = self.arrays.value[: len(self)]
        return value[:, 0] + cu * value[:, 1] + cv * value[:, 2]

    # one world -----------------------------------------------------------------------------

    def compile(self) -> None:
        """Compile the kernels that learning takes, or load them from the cache."""
        a = self.arrays
        ready(k.rehash, a)
        self.compile_learning()

    def number(self, net: Network, learning: bool) -> None:
        """Give every soft row of a network its first weight; new keys get one while learning."""
        while not k.number(self.plans, net, self.arrays, learning):
            self.grow()

    def room(self, net: Network) -> Floats:
        """Return a reused buffer for the weights of a network's ground clauses, float64[>= clauses]."""
        clauses = int(net.clause_start[net.size[ROWS]])
        if clauses > len(self.weight):
            self.weight, self.more = np.zeros((2, 2 * clauses))
        return self.weight

    def of(self, net: Network, averaged: bool) -> Floats:
        """Return what each true ground clause of a numbered network adds to the score, float64[clause].

        By the averaged or the current weights. The next call overwrites it.
        """
        weight = self.room(net)
        cu, cv = self.mean() if averaged else (self.scale(), 0.0)
        k.effective(net, self.arrays.value, cu, cv, weight)
        return weight

    def drop_least(self, most: int) -> int:
        """Drop the least influential blocks until at most 0.9 ``most`` weights are left.

        Influence is how far the averaged weight is from what an unseen constant has, times the
        number of updates it took part in (starting weights: 1); a block has that of its strongest
        weight. The weights of rules without template constants are never dropped. Returns how many
        weights were dropped.
        """
        a, n, blocks = self.arrays, len(self), int(self.arrays.size[1])
        clause = a.key[:blocks, 0]
        sizes = a.block_size[clause]
        learned = np.abs(self.averaged()[self.reserved :] - np.repeat(a.default[clause], sizes))
        influence = learned * np.maximum(1, a.uses[self.reserved : n])
        first = a.block[:blocks] - self.reserved
        strength = np.maximum.reduceat(influence, first) if blocks else influence
        weakest = np.argsort(strength, kind="stable")
        excess = n - int(KEPT_SHARE * most)
        gone = weakest[np.cumsum(sizes[weakest]) - sizes[weakest] < excess]
        keep = np.ones(blocks, bool)
        keep[gone] = False
        self._compact(keep, sizes)
        self.dropped += n - len(self)
        return n - len(self)

    def _compact(self, keep: Any, sizes: Any) -> None:
        a, n, blocks = self.arrays, len(self), len(keep)
        kept_weights = np.concatenate([np.ones(self.reserved, bool), np.repeat(keep, sizes)])
        left = int(kept_weights.sum())
        for array in (a.value, a.uses, *self.kept.values()):
            array[:left] = array[:n][kept_weights]
            array[left:n] = 0
        kept = int(keep.sum())
        a.key[:kept] = a.key[:blocks][keep]
        ends = np.cumsum(sizes[keep])
        a.block[:kept] = self.reserved + ends - sizes[keep]
        a.size[:] = left, kept
        self.scalar[NORM] = float(np.sum(a.value[:left, 1] ** 2))
        a.slot[:] = -1
        k.rehash(a)

    # constants -----------------------------------------------------------------------------

    def forget_constants(self, shown: Mapping[str, Sequence[Constant]]) -> None:
        """Drop the constants that have no weight; number the others in the order of the weights.

        The declared ones and those of open types that the stream has ``shown`` stay before them.
        """
        blocks = int(self.arrays.size[1])
        rows = self.arrays.key[:blocks, 1:]
        kind, shift = (table[self.arrays.key[:blocks, 0]] for table in self.columns())
        old = rows - shift
        for number, (name, known) in enumerate(self.stream.items()):
            here = (kind == number) & (old >= 0)
            used, first = np.unique(old[here], return_index=True)
            kept = [*range(len(self.layout.constants[name]))]
            kept += [known[constant] for constant in shown.get(name, ())]
            kept = [*dict.fromkeys([*kept, *used[np.argsort(first)].tolist()])]
            new = np.zeros(len(known.names), np.int32)
            new[kept] = np.arange(len(kept))
            rows[here] = new[old[here]] + shift[here]
            self.stream[name] = Domain(known.names[n] for n in kept)
        self.arrays.slot[:] = -1
        k.rehash(self.arrays)

    def columns(self) -> tuple[Ints32, Ints32]:
        """Return the type of each template constant, and what is added to its number in a key.

        Both are [clause, constant]; a type is -1 where there is none, and 0 in a key of which 1 is added
        stands for the declared constants.
        """
        types = list(self.stream)
        kind = np.full((len(self.clauses), self.arrays.key.shape[1] - 1), -1, np.int32)
        shift = np.zeros_like(kind)
        for number, plan in enumerate(self.layout.plan.clauses):
            strides, _ = self.strides[number]
            for j, (name, stride) in enumerate(zip(plan.clause.template, strides, strict=True)):
                kind[number, j] = types.index(plan.types[name])
                shift[number, j] = stride != 0
        return kind, shift

    # names ---------------------------------------------------------------------------------

    def _place(self, number: int, key: tuple[str, ...]) -> tuple[Any, int]:
        """Return the hash key and the offset of a clause's template constants."""
        clause_plan = self.layout.plan.clauses[number]
        strides, _ = self.strides[number]
        row = np.zeros(self.arrays.key.shape[1] - 1, np.int32)
        offset = 0
        for j, (name, constant, stride) in enumerate(
            zip(clause_plan.clause.template, key, strides, strict=True)
        ):
            kind = clause_plan.types[name]
            constant_number = self.stream[kind][constant]
            if stride == 0:
                row[j] = constant_number
            elif constant_number < len(self.layout.constants[kind]):
                offset += constant_number * stride
            else:
                row[j] = constant_number + 1
        return row, offset

    def set(self, number: int, key: tuple[str, ...], weight: float) -> None:
        """Set the starting value (base) of one weight, adding it if need be."""
        row, offset = self._place(number, key)
        if not row.any() and not self.arrays.keyed[number]:
            first = int(self.plans.first_weight[number])
        else:
            first = self.block(number, row)
        self.arrays.value[first + offset, 0] = weight

    def block(self, number: int, row: Any) -> int:
        """Return the first weight of the block of a clause's template constants, added if need be."""
        at = k.find_slot(self.arrays, number, row)
        if self.arrays.slot[at] >= 0:
            return int(self.arrays.block[self.arrays.slot[at]])
        first = k.add_block(self.arrays, at, number, row)
        if first >= 0:
            return int(first)
        self.grow()
        return self.block(number, row)

    def entries(self) -> Iterator[Entry]:
        """Yield every weight by name, in order of its number; unseen constants have none."""
        averaged = self.averaged().tolist()
        uses = self.arrays.uses.tolist()
        for place, clause, key in self.numbered():
            yield Entry(clause, key, averaged[place], uses[place])

    def numbered(self) -> Iterator[tuple[int, Clause, tuple[str, ...]]]:
        """Yield the number of every weight, its clause, and the constants of its template."""
        columns = [self._columns(number) for number in range(len(self.clauses))]
        for number, first, row in self._blocks():
            for offset, key in _keys(columns[number], row):
                yield first + offset, self.clauses[number], key

    def _blocks(self) -> Iterator[tuple[int, int, list[int]]]:
        a, blocks = self.arrays, int(self.arrays.size[1])
        for number, clause in enumerate(self.clauses):
            if not clause.hard and not a.keyed[number]:
                yield number, int(self.plans.first_weight[number]), [0] * len(clause.template)
        rows = a.key[:blocks].tolist()
        for row, first in zip(rows, a.block[:blocks].tolist(), strict=True):
            yield row[0], first, row[1:]

    def _columns(self, number: int) -> list[_Column]:
        """Return what a block's row means, by the variables of a clause's template."""
        plan, (strides, _) = self.layout.plan.clauses[number], self.strides[number]
        types = (plan.types[variable] for variable in plan.clause.template)
        return [
            _Column(self.stream[t].names, stride, len(self.layout.constants[t]))
            for t, stride in zip(types, strides, strict=True)
        ]

    # checkpoints ---------------------------------------------------------------------------

    def save(self, known: Mapping[str, int] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint, with the first ``known`` constants of each type."""
        a, n, blocks = self.arrays, len(self), int(self.arrays.size[1])
        header = {
            "constants": {
                t: d.names if known is None else d.names[: known[t]] for t, d in self.stream.items()
            },
            "dropped": self.dropped,
            **({"before": self.before} if self.before else {}),
        }
        arrays = {
            "value": a.value[:n],
            "uses": a.uses[:n],
            "key": a.key[:blocks],
            "block": a.block[:blocks],
            "scalar": self.scalar.copy(),
            **{name: column[:n] for name, column in self.kept.items()},
        }
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Restore the state that ``save`` returned, bit for bit. Raises Misfit."""
        saved, self.stream, found = saved_weights(self, header, arrays)
        self.dropped, self.before = saved.dropped, saved.before
        n, blocks = len(found["uses"]), len(found["block"])
        while n > len(self.arrays.uses):
            self._grow_weights()
        while self._crowded(blocks + 1):
            self._grow_slots()
        a, old = self.arrays, len(self)
        a.value[:n], a.value[n:old] = found["value"], 0.0
        a.uses[:n], a.uses[n:old] = found["uses"], 0
        a.key[:blocks] = found["key"]
        a.block[:blocks] = found["block"]
        self.scalar[:] = found["scalar"]
        for name, column in self.kept.items():
            column[:n], column[n:old] = found[name], 0.0
        a.size[:] = n, blocks
        a.slot[:] = -1
        k.rehash(a)
        if np.count_nonzero(a.slot >= 0) != blocks:
            raise Misfit("the array key has the same constants twice")
