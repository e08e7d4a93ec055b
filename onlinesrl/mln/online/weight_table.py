"""The growing table of a run's weights: averages, removal of weak weights, names and checkpoints.

``ModelWeights`` finds the weights of ground clauses and adds new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onlinesrl.core.arrays import Floats, Ints32, enlarged
from onlinesrl.core.example import Constant
from onlinesrl.core.io.restoring import LARGE, MOST, Expected, Misfit, Natural, converted, restored
from onlinesrl.core.kernels.averaging import HUGE, NORM, T
from onlinesrl.core.online.averaged_weights import AveragedWeights
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.core.online.update_rules.rule import UNITS, Update
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.mln.ground.constant_index import Domain
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.ground.model_weights import ModelWeights
from onlinesrl.mln.kernels import weight_lookup as k
from onlinesrl.mln.kernels.ground_network import Network
from onlinesrl.mln.lang.clausal_form import Clause, clauses

KEPT_SHARE = 0.9
UNUSED = Cda2()
"""The update of weights that are not learned."""
RULES = float(np.finfo(np.float64).max)
"""The bound of the weight of a rule; sums that overflow are reported during processing."""
_EXPECTED = {
    "value": Expected(
        np.float64, ("weights", 3), (-RULES, -LARGE, -LARGE), (RULES, HUGE * 1e3, LARGE)
    ),
    "uses": Expected(np.int64, ("weights",), 0, MOST),
    "key": Expected(np.int32, ("blocks", "row"), 0),
    "block": Expected(np.int64, ("blocks",), 0),
    "scalar": Expected(np.float64, (6,), (0, 0, *[-LARGE] * 4), (MOST, MOST, *[LARGE] * 4)),
}
_COLUMN = Expected(np.float64, ("weights",), 0.0)
_SLOTS = {
    "matrix": Expected(np.float64, ("slots", "slots")),
    "slots": Expected(np.int64, ("slots",), 0, MOST),
}


class Entry(NamedTuple):
    """One weight by name: clause, template constants, value that predicts, updates, standard error."""

    clause: Clause
    key: tuple[str, ...]
    weight: float
    uses: int
    standard_error: float | None

    @property
    def text(self) -> str:
        """The text of the clause."""
        return self.clause.text

    @property
    def instance(self) -> str:
        """The template constants with the names of their variables."""
        names = zip(self.clause.template, self.key, strict=True)
        return ", ".join(f"{name} = {constant}" for name, constant in names)


class _Header(msgspec.Struct):
    """The weights' part of a checkpoint's header.

    ``constants`` is by type; ``dropped`` counts dropped weights, and ``sampled`` updates along sampled
    expectations.
    """

    constants: dict[str, list[Constant]]
    dropped: Natural
    sampled: Natural = 0


class WeightTable(ModelWeights, AveragedWeights):
    """The learned weights of a model."""

    def __init__(self, layout: Layout, update: Update = UNUSED):
        AveragedWeights.__init__(self, update)
        self.optimizer_state = {}
        ModelWeights.__init__(self, layout)
        units = UNITS if layout.numeric and not update.covers else ()
        n = len(self.arrays.uses)
        self.optimizer_state = {name: np.zeros(n) for name in (*update.columns, *units)}

    def _grow_weights(self) -> None:
        super()._grow_weights()
        self.optimizer_state = {
            name: enlarged(column, 2 * len(column)) for name, column in self.optimizer_state.items()
        }

    def averaged(self) -> Floats:
        """Return the weights that predict, averaged or current, [weight]."""
        cu, cv = self.mean()
        value = self.arrays.value[: len(self)]
        return value[:, 0] + cu * value[:, 1] + cv * value[:, 2]

    # one world -----------------------------------------------------------------------------

    def of(self, net: Network, averaged: bool) -> Floats:
        """Return the weight of each ground clause of a numbered network, float64[clause].

        ``averaged`` selects the averaged weights, else the current ones. The next call overwrites the result.
        """
        return self.weigh(net, *self.scales(averaged))

    def scales(self, averaged: bool) -> tuple[float, float]:
        """Return (cu, cv): an averaged or a current weight is base + cu u + cv v."""
        return self.mean() if averaged else (self.scale(), 0.0)

    def units(self) -> Floats:
        """Return the unit of each weight, float64[weight]; see ``core.online.metric_steps``."""
        unit = self.optimizer_state.get("unit", np.zeros(len(self)))[: len(self)]
        return np.where(unit > 0.0, unit, 1.0)

    def enforce_limit(self) -> bool:
        """Drop the least influential blocks if there are more than ``max_weights``; tell whether."""
        most = self.update.max_weights
        return most is not None and len(self) > most and self.drop_least(most) > 0

    def drop_least(self, most: int) -> int:
        """Drop the least influential blocks until at most 0.9 ``most`` weights are left.

        The influence of a weight is its distance (averaged) from the default weight of an unseen constant,
        times its unit and its number of updates (starting weights: 1). A block has the influence of its
        strongest weight. Weights of rules without template constants are never dropped. Returns the number of
        dropped weights.
        """
        a, n, blocks = self.arrays, len(self), int(self.arrays.size[1])
        clause = a.key[:blocks, 0]
        sizes = a.block_size[clause]
        learned = np.abs(self.averaged()[self.reserved :] - np.repeat(a.default[clause], sizes))
        uses = np.maximum(1, a.uses[self.reserved : n])
        influence = learned * self.units()[self.reserved :] * uses
        first = a.block[:blocks] - self.reserved
        strength = np.maximum.reduceat(influence, first) if blocks else influence
        weakest = np.argsort(strength, kind="stable")
        excess = n - int(KEPT_SHARE * most)
        gone = weakest[np.cumsum(sizes[weakest]) - sizes[weakest] < excess]
        left = np.ones(blocks, bool)
        left[gone] = False
        left_weights = np.concatenate([np.ones(self.reserved, bool), np.repeat(left, sizes)])
        n_weights, n_blocks = int(left_weights.sum()), int(left.sum())
        for array in (a.value, a.uses, *self.optimizer_state.values()):
            array[:n_weights] = array[:n][left_weights]
            array[n_weights:n] = 0
        a.key[:n_blocks] = a.key[:blocks][left]
        a.block[:n_blocks] = self.reserved + np.cumsum(sizes[left]) - sizes[left]
        a.size[:] = n_weights, n_blocks
        self.scalar[NORM] = float(np.sum(a.value[:n_weights, 1] ** 2))
        a.slot[:] = -1
        k.rehash(a)
        if self.update.covers:
            slots = self.slots()
            stay = left_weights[slots["slots"]]
            number = np.cumsum(left_weights) - 1
            self.set_slots(number[slots["slots"][stay]], slots["matrix"][stay][:, stay])
        self.dropped += n - n_weights
        return n - n_weights

    # constants -----------------------------------------------------------------------------

    def forget_constants(self, constants: Mapping[str, Sequence[Constant]]) -> None:
        """Drop the constants without a weight; number the others in the order of the weights.

        Declared constants, and the ``constants`` of open types that the stream has, stay and come first.
        """
        blocks = int(self.arrays.size[1])
        rows = self.arrays.key[:blocks, 1:]
        kind, shift = (table[self.arrays.key[:blocks, 0]] for table in self.columns())
        old = rows - shift
        for number, (name, domain) in enumerate(self.stream.items()):
            typed = (kind == number) & (old >= 0)
            used, first = np.unique(old[typed], return_index=True)
            order = [*range(len(self.layout.constants[name]))]
            order += [domain[constant] for constant in constants.get(name, ())]
            order = [*dict.fromkeys([*order, *used[np.argsort(first)].tolist()])]
            new = np.zeros(len(domain.names), np.int32)
            new[order] = np.arange(len(order))
            rows[typed] = new[old[typed]] + shift[typed]
            self.stream[name] = Domain(domain.names[n] for n in order)
        self.arrays.slot[:] = -1
        k.rehash(self.arrays)

    def columns(self) -> tuple[Ints32, Ints32]:
        """Return the type of each template constant, and the offset of its number in a key.

        Both are int32[clause, constant]; type -1 marks an absent constant. If the offset is 1, then 0 in
        a key stands for all declared constants.
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

    def entries(self) -> Iterator[Entry]:
        """Yield every weight by name, in the order of the numbers; unseen constants have no weight."""
        averaged = self.averaged().tolist()
        uses = self.arrays.uses.tolist()
        errors = self.standard_errors(len(self))
        for place, clause, key in self.numbered():
            yield Entry(clause, key, averaged[place], uses[place], errors[place])

    def placed(self) -> list[PlacedWeight]:
        """Return every weight by the number of its clause, of those of the program."""
        every, averaged = enumerate(clauses(self.layout.plan.program)), self.averaged().tolist()
        place = {id(c): next(n for n, other in every if other == c) for c in self.clauses}
        numbered = self.numbered()
        return [PlacedWeight(place[id(c)], key, averaged[n]) for n, c, key in numbered]

    # checkpoints ---------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        a, n, blocks = self.arrays, len(self), int(self.arrays.size[1])
        header = {
            "constants": {kind: domain.names for kind, domain in self.stream.items()},
            "dropped": self.dropped,
            **({"sampled": self.sampled} if self.sampled else {}),
        }
        arrays = {
            "value": a.value[:n],
            "uses": a.uses[:n],
            "key": a.key[:blocks],
            "block": a.block[:blocks],
            "scalar": self.scalar.copy(),
            **{name: column[:n] for name, column in self.optimizer_state.items()},
            **(self.slots() if self.update.covers else {}),
        }
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Restore the state that ``save`` returned, bit for bit. Raises Misfit."""
        saved = converted(header, _Header)
        if saved.constants.keys() != self.stream.keys():
            raise Misfit("the types of its constants are not the types of the model")
        stream = {kind: Domain(saved.constants[kind]) for kind in self.stream}
        for kind, domain in stream.items():
            declared = Domain(self.layout.constants.get(kind, ())).names
            distinct = len(domain.names) == len(saved.constants[kind])
            if not distinct or domain.names[: len(declared)] != declared:
                raise Misfit(
                    f"the constants of {kind} do not start with the constants of the model, or repeat one"
                )
        expected = _EXPECTED | dict.fromkeys(self.optimizer_state, _COLUMN)
        if self.update.covers:
            expected |= _SLOTS
        columns = restored(arrays, expected, row=self.arrays.key.shape[1])
        if columns["scalar"][T] % 1:
            raise Misfit("the number of updates is not an integer")
        self._check_blocks(stream, columns)
        self.stream = stream
        self.dropped, self.sampled = saved.dropped, saved.sampled
        n, blocks = len(columns["uses"]), len(columns["block"])
        while n > len(self.arrays.uses):
            self._grow_weights()
        slots = len(self.arrays.slot)
        while 2 * (blocks + 1) > slots:
            slots *= 2
        self.arrays = replace(self.arrays, slot=np.full(slots, -1, np.int32))
        a, old = self.arrays, len(self)
        a.value[:n], a.value[n:old] = columns["value"], 0.0
        a.uses[:n], a.uses[n:old] = columns["uses"], 0
        a.key[:blocks] = columns["key"]
        a.block[:blocks] = columns["block"]
        self.scalar[:] = columns["scalar"]
        for name, column in self.optimizer_state.items():
            column[:n], column[n:old] = columns[name], 0.0
        a.size[:] = n, blocks
        if self.update.covers:
            slots = columns["slots"]
            if len(slots) > self.update.slots or np.any(np.diff(np.sort(slots), append=n) <= 0):
                raise Misfit(
                    "the array slots has too many weights, one twice, or one that is missing"
                )
            self.set_slots(slots, columns["matrix"])
        k.rehash(a)
        if np.count_nonzero(a.slot >= 0) != blocks:
            raise Misfit("the array key has the same constants twice")

    def _check_blocks(self, stream: Mapping[str, Domain], columns: Mapping[str, Any]) -> None:
        """Raise Misfit if keys have no clause or constant, or blocks are not contiguous."""
        clause, rows = columns["key"][:, 0], columns["key"][:, 1:]
        if np.any(clause >= len(self.clauses)):
            raise Misfit("the array key has a clause that the model lacks")
        kind, shift = self.columns()
        sizes = np.array([*(len(domain.names) for domain in stream.values()), 1])
        if np.any(rows >= (sizes[kind] + shift)[clause]):
            raise Misfit("the array key has a constant without a name")
        ends = self.reserved + np.cumsum(self.arrays.block_size[clause], dtype=np.int64)
        starts = np.concatenate([[self.reserved], ends])
        if not np.array_equal(columns["block"], starts[:-1]) or len(columns["uses"]) != starts[-1]:
            raise Misfit("the blocks of weights do not follow each other")
