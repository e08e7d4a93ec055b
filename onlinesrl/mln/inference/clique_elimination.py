"""Exact inference by variable elimination over the atoms that hard clauses do not define.

A defined atom adds no variable: a clause that has it is a table over the variables that define it. So
defined atoms do not widen the network, as they do in elimination clause by clause.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.gate_detection import Literals, definitions
from onlinesrl.mln.inference.protocols import Marginals, Wide

MAX_TABLE = 1 << 20
MAX_CELLS = 1 << 24

Truth = NDArray[np.bool_]
Cliques = dict[int, tuple[int, ...]]
"""Each variable, in the order of elimination, with its neighbours that are eliminated later, in that order.

The axes of a table are a variable and these neighbours.
"""


class CliqueTables:
    """Sum-product elimination with one table per clique. Raises Wide if the tables would be too large."""

    def marginals(self, model: GroundMRF, weight: Floats) -> Marginals:
        """See ``MarginalEngine.marginals``; ``log_z`` is that of ``w . f``.

        Forward, a variable is summed out, and the message added to the table of its first neighbour.
        Backward, a table becomes its variable's distribution given the neighbours, times their own
        distribution.
        """
        variables = Variables(model)
        cliques = variables.cliques
        tables = {v: np.zeros(shape) for v, shape in variables.shapes().items()}
        constant = 0.0
        for clause, hard, gain in zip(variables.clauses, model.hard, weight, strict=True):
            axes = variables.axes(clause)
            true, false = (0.0, -np.inf) if hard else (float(gain), 0.0)
            score = np.where(variables.true(clause, axes), true, false)
            if axes:
                tables[axes[0]] += score
            else:
                constant += float(score)
        log_z, messages = 0.0, dict[int, Floats]()
        for v, rest in cliques.items():
            top = tables[v].max(axis=0)
            with np.errstate(divide="ignore"):
                finite = np.where(np.isfinite(top), top, 0.0)
                messages[v] = finite + np.log(np.exp(tables[v] - finite).sum(axis=0))
            if rest:  # the message's shape among the axes of the table that receives it
                length = dict(zip(rest, messages[v].shape, strict=True))
                shape = [length.get(u, 1) for u in (rest[0], *cliques[rest[0]])]
                tables[rest[0]] += messages[v].reshape(shape)
            else:
                log_z += float(messages[v])
        log_z += constant
        if log_z == -np.inf:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        probabilities(cliques, tables, messages)
        return Marginals(variables.marginals(tables), log_z, "exact", 0)


class Variables:
    """A model's variables: groups, and atoms on their own that no hard clauses define.

    ``cliques`` are the tables of their elimination. Raises Wide if one table would have more than
    ``MAX_TABLE`` cells, or all together more than ``MAX_CELLS``.
    """

    def __init__(self, model: GroundMRF) -> None:
        literals, ends = model.literals.tolist(), pairwise(model.start.tolist())
        self.clauses: list[Literals] = [tuple(sorted(literals[i:j])) for i, j in ends]
        hard = [c for c, is_hard in zip(self.clauses, model.hard, strict=True) if is_hard]
        gates = definitions(hard, (model.group >= 0).tolist(), inf)
        self.gates = {abs(gate.literal): gate for gate in gates}
        self.sizes: list[int] = [0 if e else 1 for e in model.exactly]
        self.value: dict[int, tuple[int, int]] = {}
        for atom, group in enumerate(model.group.tolist(), start=1):
            if atom in self.gates:
                continue
            v = group if group >= 0 else len(self.sizes)
            if group < 0:  # a variable of its own, whose first value is false
                self.sizes.append(1)
            self.value[atom] = v, self.sizes[v]
            self.sizes[v] += 1
        self._scope: dict[int, frozenset[int]] = {}
        self._atoms: list[Literals] = [(atom,) for atom in range(1, model.n_atoms + 1)]
        scopes = map(self.scope, [*self.clauses, *self._atoms])
        self.cliques = _cliques(self.sizes, scopes)
        self._place = {v: number for number, v in enumerate(self.cliques)}

    def shapes(self) -> dict[int, list[int]]:
        """Return the shape of each table."""
        return {v: [self.sizes[u] for u in (v, *rest)] for v, rest in self.cliques.items()}

    def axes(self, literals: Literals) -> tuple[int, ...]:
        """Return the axes of the first table with all variables that determine the literals."""
        first = min(self.scope(literals), key=self._place.__getitem__, default=None)
        return () if first is None else (first, *self.cliques[first])

    def marginals(self, tables: Mapping[int, Floats]) -> Floats:
        """Return the probability of each atom, by tables of probabilities."""
        probability = [
            (tables[axes[0]] * self.true(atom, axes)).sum() if axes else float(self.true(atom, ()))
            for atom, axes in ((atom, self.axes(atom)) for atom in self._atoms)
        ]
        return np.clip(np.array(probability, np.float64), 0.0, 1.0)

    def scope(self, literals: Literals) -> frozenset[int]:
        """Return the variables that determine the literals, without those of a single value."""
        for atom in map(abs, literals):
            if atom in self.gates and atom not in self._scope:
                self._scope[atom] = self.scope(self.gates[atom].inputs)
            elif atom not in self._scope:
                v = self.value[atom][0]
                self._scope[atom] = frozenset({v} if self.sizes[v] > 1 else ())
        return frozenset[int]().union(*(self._scope[abs(x)] for x in literals))

    def true(self, literals: Literals, axes: tuple[int, ...]) -> Truth:
        """Return where a clause is true, over these axes; an axis that does not matter has length 1."""
        truth: Truth = np.zeros([1] * len(axes), np.bool_)
        for x in literals:
            if abs(x) in self.gates:
                gate = self.gates[abs(x)]
                some_false = self.true(tuple(-y for y in gate.inputs), axes)
                atom_true = np.not_equal(some_false, gate.literal > 0)
            else:
                v, value = self.value[abs(x)]
                shape = [self.sizes[v] if u == v else 1 for u in axes]
                atom_true = np.equal(np.arange(prod(shape)), value).reshape(shape)
            truth = truth | (atom_true == (x > 0))
        return truth


def _cliques(sizes: list[int], scopes: Iterable[frozenset[int]]) -> Cliques:
    """Order the elimination by the smallest next table. Raises Wide."""
    neighbours: list[set[int]] = [set() for _ in sizes]
    for scope in set(scopes):
        if prod(sizes[v] for v in scope) > MAX_TABLE:
            raise Wide("a clause depends on too many atoms for elimination")
        for v in scope:
            neighbours[v] |= scope - {v}
    heap = [(_cells(sizes, neighbours, v), v) for v, size in enumerate(sizes) if size > 1]
    heapq.heapify(heap)
    cliques: Cliques = {}
    total = 0
    while heap:
        cells, v = heapq.heappop(heap)
        if v in cliques or cells != _cells(sizes, neighbours, v):
            continue
        total += cells
        if cells > MAX_TABLE or total > MAX_CELLS:
            raise Wide("the induced width is too large for elimination")
        cliques[v] = tuple(neighbours[v])
        for u in neighbours[v]:
            neighbours[u] |= neighbours[v]
            neighbours[u] -= {u, v}
            heapq.heappush(heap, (_cells(sizes, neighbours, u), u))
    place = {v: number for number, v in enumerate(cliques)}
    return {v: tuple(sorted(rest, key=place.__getitem__)) for v, rest in cliques.items()}


def _cells(sizes: list[int], neighbours: list[set[int]], v: int) -> int:
    """Return the number of cells of v's table, at most ``MAX_TABLE`` + 1."""
    cells = sizes[v]
    for u in neighbours[v]:
        cells *= sizes[u]
        if cells > MAX_TABLE:
            return MAX_TABLE + 1
    return cells


def probabilities(
    cliques: Cliques, tables: dict[int, Floats], messages: Mapping[int, Floats]
) -> None:
    """Turn the tables from scores to probabilities, given the message of each variable."""
    for v, rest in reversed(cliques.items()):
        message = np.where(np.isfinite(messages[v]), messages[v], 0.0)
        tables[v] = np.exp(tables[v] - message)
        if rest:
            summed_axes = [i for i, u in enumerate((rest[0], *cliques[rest[0]])) if u not in rest]
            tables[v] *= tables[rest[0]].sum(axis=tuple(summed_axes))
