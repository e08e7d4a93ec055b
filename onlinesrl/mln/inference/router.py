"""The most probable state of each connected component: by elimination, else by engines asked in turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF, network_of
from onlinesrl.mln.inference.components import components, restrict, solve_components
from onlinesrl.mln.inference.protocols import MapEngine, Solution, Wide
from onlinesrl.mln.inference.pure_literals import impure
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.kernels import elimination, elimination_order
from onlinesrl.mln.kernels.ground_network import Network


class Router:
    """Max-sum variable elimination of narrow components; ``engines`` are asked in turn for the others.

    A component is wide if its tables would be too large, or have more than ``growth`` times the cells of the
    clauses' own tables. Its pure literals are fixed first. Its answer is the first certified one, else the
    best state with the least bound. ``growth`` 0: the engines are asked for the whole model. Raises Wide
    where no engine is left to ask, and Unsolved where none found a state.
    """

    def __init__(self, *engines: MapEngine, growth: int = elimination_order.MAX_CELLS) -> None:
        self._engines, self.growth = engines, growth

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; ties of elimination go to the first value of each variable."""
        bonus = np.zeros(model.n_atoms) if bonus is None else bonus
        if not self.growth:
            return self._ask(model, weight, bonus)

        def narrow(atoms: Ints, clauses: Ints) -> Solution | None:
            w, b = weight[clauses], bonus[atoms]
            if not Magnitude.of(w, b).coarse:
                with suppress(Wide):
                    return eliminated(restrict(model, atoms, clauses), w, b, self.growth)
            return None

        def wide(atoms: Ints, clauses: Ints) -> Solution:
            part, w, b = restrict(model, atoms, clauses), weight[clauses], bonus[atoms]
            if Magnitude.of(w, b).coarse:
                with suppress(Wide):
                    return eliminated(part, w, b, self.growth)
            rest = impure(part, w, b)
            if len(rest.atoms) == len(atoms):
                return self._ask(part, w, b)
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
        bound = score + sum(p.bound - p.score for p in parts)
        certified = all(p.certified for p in parts)
        return Solution(state, score, bound, route(p.route for p in parts), certified)

    def _ask(self, model: GroundMRF, weight: Floats, bonus: Floats) -> Solution:
        best, size = None, Magnitude.of(weight, bonus)
        failure: Exception = Wide("the induced width is too large for elimination")
        for engine in self._engines:
            try:
                answer = engine.solve(model, weight, bonus=bonus)
            except Unsolved as unsolved:
                failure = unsolved
                continue
            columns = model.n_atoms + model.n_clauses
            best = answer if best is None else size.better(best, answer, columns)
            if best.certified:
                break
        if best is None:
            raise failure
        return best


def route(parts: Iterable[str]) -> str:
    """Return the route of a model: the first route of its parts that is not elimination."""
    return next((part for part in parts if part != "elimination"), "elimination")


def eliminated(
    model: GroundMRF,
    weight: Floats,
    bonus: Floats,
    growth: int,
    width: int = elimination_order.MAX_DEGREE,
) -> Solution:
    """Return the answer of max-sum variable elimination. Raises Wide, see ``Router``, and Infeasible."""
    net, order = network_of(model)
    memory = build_structure(net, model, growth, width=width)
    truth = np.zeros(model.n_atoms + 1, np.uint8)
    if elimination.eliminate(net, memory, weight, bonus[order], truth) == -np.inf:
        raise Infeasible("no state satisfies the hard rules")
    state = np.empty(model.n_atoms, np.uint8)
    state[order] = truth[: model.n_atoms]
    score, coarse = model.score(state, weight, bonus), Magnitude.of(weight, bonus).coarse
    return Solution(state, score, score, "elimination", certified=not coarse)


def build_structure(
    net: Network,
    model: GroundMRF,
    growth: int = elimination_order.MAX_CELLS,
    last: Bools | None = None,
    width: int = elimination_order.MAX_DEGREE,
) -> elimination_order.Structure:
    """Return the tables of an elimination; for ``growth`` and ``width`` see ``Structure``.

    The variables ``last``, bool[variables], are eliminated after all others. Raises Wide where the tables
    would be too large, Infeasible where a hard clause is empty.
    """
    arcs, cells = 64 + 8 * len(model.literals), 4096 + 2 * len(model.literals)
    while True:
        memory = elimination_order.structure_memory(
            model.n_atoms + 1, model.n_clauses + 1, arcs, cells, growth, width
        )
        if last is not None:
            memory.last[: len(last)] = last
        status = elimination_order.structure(net, memory)
        if status == elimination_order.SOLVED:
            return memory
        if status == elimination_order.CONTRADICTION:
            raise Infeasible("no state satisfies the hard rules")
        if status == elimination_order.WIDE:
            raise Wide("the induced width is too large for elimination")
        arcs, cells = 2 * arcs, 4 * cells
