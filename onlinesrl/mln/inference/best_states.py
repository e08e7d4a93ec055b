"""The best states of a model, no two of which agree on all visible atoms.

All narrow components are one forest, whose tables elimination fills once. A state that is read back from
them splits the others by the first variable in which they differ (Lawler 1972), and the tables tell the best
of each part (Nilsson 1998). A wide component is solved anew for each of its states, without those before.
The best sums over components come from a heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, islice
from operator import attrgetter

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, network_of
from onlinesrl.mln.inference.components import components, restrict, solve_components
from onlinesrl.mln.inference.protocols import MapEngine, Solution, Wide
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.inference.router import build_structure, route
from onlinesrl.mln.kernels import elimination
from onlinesrl.mln.kernels.elimination_order import MAX_CELLS, Structure
from onlinesrl.mln.kernels.ground_network import VARIABLES, Network


@dataclass(frozen=True)
class Ranked:
    """A state, and how much less than the best state it scores.

    ``rank`` counts from 1; states of equal score have the same rank. No state that is not listed before this
    one scores more, if the solution is certified.
    """

    solution: Solution
    rank: int
    difference: float


def best_states(
    model: GroundMRF,
    weight: Floats,
    visible: Ints,
    n: int,
    engine: MapEngine,
    best: Solution | None = None,
) -> tuple[list[Ranked], bool]:
    """Return the ``n`` best states, fewer where there are fewer, and False where a search ended at its limit.

    No two states have the same values of the atoms ``visible``; the others have their best values. States of
    equal score, up to rounding, are in the order of their visible atoms, false before true. The ``engine``
    solves wide components; it need not find their ``best`` states again, where these are known and proven.
    Raises Infeasible, and Unsolved where there is no state at all.
    """
    is_visible = np.zeros(model.n_atoms, np.bool_)
    is_visible[visible] = True

    def narrow(atoms: Ints, clauses: Ints) -> Iterator[Solution] | None:
        w = weight[clauses]
        if not Magnitude.of(w).coarse:
            with suppress(Wide):
                part = restrict(model, atoms, clauses)
                return _Forest(part, w, is_visible[atoms], n, growth=1).solutions()
        return None

    def alone(atoms: Ints, clauses: Ints) -> Iterator[Solution]:
        part, w = restrict(model, atoms, clauses), weight[clauses]
        with suppress(Wide):  # whatever fits memory, since a wide model is solved n times
            return _Forest(part, w, is_visible[atoms], n, MAX_CELLS).solutions()
        first = None
        if best is not None:
            score = part.score(state := best.state[atoms], w)
            first = Solution(state, score, score, best.route, certified=True)
        return _excluded(part, w, np.flatnonzero(is_visible[atoms]), engine, first)

    parts = solve_components(components(model, model.hard | (weight != 0)), narrow, alone)
    rankings = [Ranking(solutions) for _, solutions in parts]
    solutions = list[Solution]()
    for chosen in islice(_sums(rankings), n):
        state = np.zeros(model.n_atoms, np.uint8)
        for (atoms, _), part in zip(parts, chosen, strict=True):
            state[atoms] = part.state
        score = model.score(state, weight)
        bound = score + sum(part.bound - part.score for part in chosen)
        way, proven = route(part.route for part in chosen), all(r.proven for r in rankings)
        solutions.append(Solution(state, score, bound, way, proven))
    complete = len(solutions) == n or all(ranking.proven for ranking in rankings)
    return ranked(solutions, visible, Magnitude.of(weight).rounding), complete


def ranked(solutions: Sequence[Solution], visible: Ints, error: float) -> list[Ranked]:
    """Return solutions from the best one down, as ``best_states`` does; ``error`` is that of a score."""
    falling = sorted(solutions, key=attrgetter("score"), reverse=True)
    tied = list[list[Solution]]()
    for solution in falling:
        if tied and tied[-1][0].score - solution.score <= 2 * error:
            tied[-1].append(solution)
        else:
            tied.append([solution])
    rows, best = list[Ranked](), falling[0].score
    for block in tied:
        difference = best - block[0].score
        block.sort(key=lambda solution: solution.state[visible].tolist())
        rank = len(rows) + 1
        rows += (Ranked(solution, rank, difference) for solution in block)
    return rows


def distinct_solutions(
    solve: Callable[[], Solution],
    exclude: Callable[[State], None],
    first: Solution | None = None,
) -> Iterator[Solution]:
    """Yield an answer, ``first`` if given, another one when its state is excluded, and so on.

    After one that is not certified, none is. Raises Infeasible where there is none at first, and Unsolved.
    """
    solution = first or solve()
    while True:
        yield solution
        exclude(solution.state)
        try:
            further = solve()
        except Infeasible:
            return
        solution = replace(further, certified=solution.certified and further.certified)


def _excluded(
    model: GroundMRF, weight: Floats, visible: Ints, engine: MapEngine, first: Solution | None
) -> Iterator[Solution]:
    """Yield the best states of a model; each one is hard to take again."""

    def solve() -> Solution:
        return engine.solve(model, weight)

    def exclude(state: State) -> None:
        nonlocal model, weight
        model, weight = model.without(state, visible), np.append(weight, 0.0)

    return distinct_solutions(solve, exclude, first)


class _Forest:
    """The tables of an elimination whose last variables are the visible ones.

    So each value of a visible variable that is read back leaves the best completion below it. Raises Wide,
    also for a group with visible atoms and others, and Infeasible.
    """

    def __init__(
        self, model: GroundMRF, weight: Floats, visible: Bools, n: int, growth: int
    ) -> None:
        self._model, self._weight, self._n = model, weight, n
        self._net, self._order = net, order = network_of(model)
        start = net.var_start[: net.size[VARIABLES] + 1]
        seen = np.diff(np.append(0, np.cumsum(visible[order]))[start])
        if np.any((seen > 0) & (seen < np.diff(start))):
            raise Wide("a group of atoms is visible in part")
        self._tables = build_structure(net, model, growth, seen > 0)
        truth, none = np.zeros(model.n_atoms + 1, np.uint8), np.zeros(model.n_atoms)
        if elimination.eliminate(net, self._tables, weight, none, truth) == -np.inf:
            raise Infeasible("no state satisfies the hard rules")

    def solutions(self) -> Iterator[Solution]:
        """Yield the best states, at least ``n`` where there are so many."""
        certified = not Magnitude.of(self._weight).coarse
        for values in narrow_states(self._net, self._tables, self._weight, self._n):
            state = np.empty_like(values)
            state[self._order] = values
            score = self._model.score(state, self._weight)
            yield Solution(state, score, score, "elimination", certified)


def narrow_states(net: Network, tables: Structure, weight: Floats, n: int) -> Iterator[State]:
    """Yield the best states of a network, at least ``n`` where there are so many, uint8[atoms].

    ``elimination`` has filled the ``tables`` by these weights. States differ in variables that are ``last``
    there. A heap has the best of each part: loss, values, place, and value there.
    """
    start, number = net.var_start[: net.size[VARIABLES] + 1], count()
    variables = len(start) - 1
    variable = np.repeat(np.arange(variables), np.diff(start) + 1)
    loss = np.zeros(len(variable))
    heap = [(0.0, next(number), tables.value[:variables].copy(), variables, 0)]
    while heap:
        lost, _, values, place, x = heappop(heap)
        tables.value[:variables] = values
        if place < variables:
            tables.value[tables.order[place]] = x
        elimination.complete(net, tables, weight, place, loss)
        values = tables.value[:variables].copy()
        for slot in np.argsort(loss, kind="stable")[:n].tolist():
            v = variable[slot]
            if loss[slot] < np.inf:
                at, other = int(tables.place[v]), int(slot - start[v] - v)
                heappush(heap, (lost + loss[slot], next(number), values, at, other))
        true = np.flatnonzero(values)
        state = np.zeros(int(start[-1]), np.uint8)
        state[start[true] + values[true] - 1] = 1
        yield state


class Ranking:
    """The best states of a part of a model, found as far as they are asked for.

    ``proven``: no search for them has ended at its limit.
    """

    def __init__(self, solutions: Iterator[Solution]) -> None:
        self._rest, self._first = solutions, list[Solution]()
        self.proven = True

    def first(self, n: int) -> list[Solution]:
        """Return the first ``n`` solutions, fewer where no more are known. Raises Unsolved without any."""
        try:
            self._first += islice(self._rest, max(0, n - len(self._first)))
        except Unsolved:
            if not self._first:
                raise
            self.proven = False
        self.proven &= all(solution.certified for solution in self._first)
        return self._first[:n]


def _sums(rankings: Sequence[Ranking]) -> Iterator[list[Solution]]:
    """Yield the combinations of one solution of each ranking, by the sum of their scores.

    After a combination come those with the next solution of one ranking, in which all later rankings have
    their first: so each combination comes once.
    """
    number = count()
    heap = [(0.0, next(number), (0,) * len(rankings), 0)]
    while heap:
        lost, _, places, last = heappop(heap)
        chosen = [r.first(place + 1)[place] for r, place in zip(rankings, places, strict=True)]
        yield chosen
        for k in range(last, len(rankings)):
            place = places[k] + 1
            if len(others := rankings[k].first(place + 1)) > place:
                more = lost + chosen[k].score - others[place].score
                heappush(heap, (more, next(number), (*places[:k], place, *places[k + 1 :]), k))
