"""Exact MPE: elimination of the components of small induced width, another engine for the others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.convert import network_of
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.components import components, restrict, solve_components
from onlinesrl.mln.inference.protocols import MapEngine, Solution, Wide
from onlinesrl.mln.inference.pure_literals import impure
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.kernels import elimination, elimination_order
from onlinesrl.mln.kernels.ground_network import Network


def route(parts: Iterable[str]) -> str:
    """Return the route of a model: the first route of its parts that is not elimination."""
    return next((part for part in parts if part != "elimination"), "elimination")


class Elimination:
    """Max-sum variable elimination.

    Raises Wide if the tables would be too large, or have more than ``growth`` times the cells of the
    clauses' own tables.
    """

    def __init__(self, growth: int = elimination_order.MAX_CELLS) -> None:
        self._growth = growth

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; ties go to the first value of each variable."""
        net, order = network_of(model)
        memory = build_structure(net, model, self._growth)
        bonus = np.zeros(model.n_atoms) if bonus is None else bonus
        truth = np.zeros(model.n_atoms + 1, np.uint8)
        if elimination.eliminate(net, memory, weight, bonus[order], truth) == -np.inf:
            raise Infeasible("no state satisfies the hard rules")
        state = np.empty(model.n_atoms, np.uint8)
        state[order] = truth[: model.n_atoms]
        score, size = model.score(state, weight, bonus), Magnitude.of(weight, bonus)
        return Solution(state, score, score, "elimination", not size.coarse)


def build_structure(
    net: Network, model: GroundMRF, growth: int = elimination_order.MAX_CELLS
) -> elimination_order.Structure:
    """Return the tables of an elimination; for ``growth`` see ``Structure``.

    Raises Wide where they would be too large, Infeasible where a hard clause is empty.
    """
    arcs, cells = 64 + 8 * len(model.literals), 4096 + 2 * len(model.literals)
    while True:
        memory = elimination_order.structure_memory(
            model.n_atoms + 1, model.n_clauses + 1, arcs, cells, growth
        )
        status = elimination_order.structure(net, memory)
        if status == elimination_order.SOLVED:
            return memory
        if status == elimination_order.CONTRADICTION:
            raise Infeasible("no state satisfies the hard rules")
        if status == elimination_order.WIDE:
            raise Wide("the induced width is too large for elimination")
        arcs, cells = 2 * arcs, 4 * cells


class Mpe:
    """Exact MPE of each connected component, by elimination where it is narrow.

    ``core`` solves the components that are too wide, without their pure literals; its answers say whether
    they are certified. For ``growth`` see ``Elimination``.
    """

    def __init__(self, core: MapEngine, growth: int = elimination_order.MAX_CELLS) -> None:
        self.core, self.growth = core, growth
        self.elimination = Elimination(growth)

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``."""
        bonus = np.zeros(model.n_atoms) if bonus is None else bonus

        def narrow(atoms: Ints, clauses: Ints) -> Solution | None:
            if Magnitude.of(weight[clauses], bonus[atoms]).coarse:
                return None
            part = restrict(model, atoms, clauses)
            try:
                return self.elimination.solve(part, weight[clauses], bonus=bonus[atoms])
            except Wide:
                return None

        def wide(atoms: Ints, clauses: Ints) -> Solution:
            part, w, b = restrict(model, atoms, clauses), weight[clauses], bonus[atoms]
            if Magnitude.of(w, b).coarse:
                with suppress(Wide):
                    return self.elimination.solve(part, w, bonus=b)
            rest = impure(part, w, b)
            if len(rest.atoms) == len(atoms):
                return self.core.solve(part, w, bonus=b)
            solution = self.solve(rest.model, w[rest.clauses], bonus=b[rest.atoms])
            rest.state[rest.atoms] = solution.state
            score = part.score(rest.state, w, b)
            bound = score + solution.bound - solution.score
            return replace(solution, state=rest.state, score=score, bound=bound)

        state = np.zeros(model.n_atoms, np.uint8)
        solutions = solve_components(components(model, model.hard | (weight != 0)), narrow, wide)
        for atoms, part in solutions:
            state[atoms] = part.state
        parts = [part for _, part in solutions]
        score = model.score(state, weight, bonus)
        slack = sum(p.bound - p.score for p in parts)
        certified = all(p.certified for p in parts)
        route_of_parts = route(p.route for p in parts)
        return Solution(state, score, score + slack, route_of_parts, certified)
