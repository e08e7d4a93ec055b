"""Exact MPE: elimination where the induced width is small, PuLP for the components where it is not."""

from __future__ import annotations

import numpy as np

from onlinesrl.core import interrupt
from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import Infeasible, OnlinesrlError
from onlinesrl.mln.engines.engine import MapEngine, Solution, value
from onlinesrl.mln.ground.convert import network_of
from onlinesrl.mln.ground.model import ClauseModel, State
from onlinesrl.mln.kernels import elimination, structure
from onlinesrl.mln.kernels.network import Network


class Wide(OnlinesrlError):
    """The induced width is beyond elimination; the engine gives no answer."""


class Elimination:
    """Max-sum variable elimination. Raises Wide where the tables would be too large."""

    def solve(self, model: ClauseModel, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; ties go to the first value of each variable."""
        net, order = network_of(model)
        memory = structured(net, model)
        bonus = np.zeros(model.n_atoms) if bonus is None else bonus
        found = np.zeros(model.n_atoms + 1, np.uint8)
        if elimination.eliminate(net, memory, weight, bonus[order], found) == -np.inf:
            raise Infeasible("no state satisfies the hard rules")
        state = np.empty(model.n_atoms, np.uint8)
        state[order] = found[: model.n_atoms]
        score = value(model, state, weight, bonus)
        return Solution(state, score, score, "elimination", certified=True)


def structured(net: Network, model: ClauseModel) -> structure.Structure:
    """Return the tables of an elimination.

    Raises Wide where they would be too large, Infeasible where a hard clause is empty.
    """
    arcs, cells = 64 + 8 * len(model.literals), 4096
    while True:
        memory = structure.structure_memory(
            model.n_atoms + 1, model.n_clauses + 1, arcs, cells, interrupt.flag()
        )
        status = structure.structure(net, memory)
        if status == structure.SOLVED:
            return memory
        if status == structure.CONTRADICTION:
            raise Infeasible("no state satisfies the hard rules")
        if status == structure.WIDE:
            raise Wide("the induced width is too large for elimination")
        arcs, cells = 2 * arcs, 4 * cells


class Mpe:
    """Exact MPE with the reductions of mpe.md: zero clauses out, components apart, narrow ones eliminated.

    ``core`` solves the components that are too wide; its answers say whether they are certified.
    """

    def __init__(self, core: MapEngine):
        self.core = core
        self.elimination = Elimination()

    def solve(self, model: ClauseModel, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``."""
        live = model.hard | (weight != 0)
        state = np.zeros(model.n_atoms, np.uint8)
        bonus = np.zeros(model.n_atoms) if bonus is None else bonus
        parts = []
        for atoms, clauses in components(model, live):
            part = restrict(model, atoms, clauses)
            parts.append(self._solve(part, weight[clauses], bonus[atoms]))
            state[atoms] = parts[-1].state
        score = value(model, state, weight, bonus)
        slack = sum(p.bound - p.score for p in parts)
        route = next((p.route for p in parts if p.route != "elimination"), "elimination")
        return Solution(state, score, score + slack, route, all(p.certified for p in parts))

    def _solve(self, part: ClauseModel, weight: Floats, bonus: Floats) -> Solution:
        try:
            return self.elimination.solve(part, weight, bonus=bonus)
        except Wide:
            return self.core.solve(part, weight, bonus=bonus)


def components(model: ClauseModel, live: State) -> list[tuple[Ints, Ints]]:
    """Return the connected components as (atoms, live clauses), in order of their first atom."""
    parent = list(range(model.n_atoms))

    def root(a: int) -> int:
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        return a

    def join(atoms: list[int]) -> None:
        for a in atoms[1:]:
            low, high = sorted((root(atoms[0]), root(a)))
            parent[high] = low

    literals = np.abs(model.literals) - 1
    rows = [literals[model.start[c] : model.start[c + 1]].tolist() for c in range(model.n_clauses)]
    live_clauses: list[int] = np.flatnonzero(live).tolist()
    for c in live_clauses:
        join(rows[c])
    for g in range(len(model.exactly)):
        join(np.flatnonzero(model.group == g).tolist())
    atoms_of: dict[int, list[int]] = {}
    clauses_of: dict[int, list[int]] = {}
    tops = [root(a) for a in range(model.n_atoms)]
    for atom, top in enumerate(tops):
        atoms_of.setdefault(top, []).append(atom)
        clauses_of.setdefault(top, [])
    for c in live_clauses:
        if not rows[c]:
            raise Infeasible("a hard clause is empty")
        clauses_of[tops[rows[c][0]]].append(c)
    return [
        (np.asarray(atoms_of[r], np.int64), np.asarray(clauses_of[r], np.int64)) for r in atoms_of
    ]


def restrict(model: ClauseModel, atoms: Ints, clauses: Ints) -> ClauseModel:
    """Return the sub-model of some atoms and clauses; the clauses mention no other atoms."""
    number = np.full(model.n_atoms, -1, np.int64)
    number[atoms] = np.arange(len(atoms))
    lengths = np.diff(model.start)[clauses]
    start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    picked = np.repeat(model.start[clauses] - start[:-1], lengths) + np.arange(start[-1])
    literals = model.literals[picked]
    groups, group = np.unique(model.group[atoms], return_inverse=True)
    free = int(len(groups) > 0 and groups[0] < 0)
    return ClauseModel(
        n_atoms=len(atoms),
        start=start,
        literals=(np.sign(literals) * (number[np.abs(literals) - 1] + 1)).astype(np.int32),
        hard=model.hard[clauses],
        group=(group.reshape(-1) - free).astype(np.int32),
        exactly=model.exactly[groups[free:]],
    )
