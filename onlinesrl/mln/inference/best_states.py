"""The best states of a model, no two of which agree on all visible atoms.

All narrow components are one forest, whose tables elimination fills once. A state that is read back from
them splits the others by the first variable in which they differ (Lawler 1972), and the tables tell the best
of each part (Nilsson 1998). The states of a wide component come from one branch and bound. Where that ends at
its limit, the component is solved anew for each of its states, without those before. The best sums over
components come from a heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, islice
from operator import attrgetter
from typing import TypeVar

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, network_of
from onlinesrl.mln.inference.branch_and_bound import SEARCHED, Search
from onlinesrl.mln.inference.components import Components, components, restrict, solve_components
from onlinesrl.mln.inference.protocols import MapEngine, Solution, Wide
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.inference.router import build_structure, route
from onlinesrl.mln.kernels import elimination
from onlinesrl.mln.kernels.elimination_order import MAX_CELLS, Structure
from onlinesrl.mln.kernels.ground_network import VARIABLES, Network

Result = TypeVar("Result")


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
    max_work: int | None,
    best: Solution | None = None,
) -> tuple[list[Ranked], bool]:
    """Return the ``n`` best states, fewer where there are fewer, and False where a search ended at its limit.

    No two states have the same values of the atoms ``visible``; the others have their best values. States of
    equal score, up to rounding, are in the order of their visible atoms, false before true. The ``engine``
    solves wide components that one search for all of their states, up to ``max_work`` as in ``Alternation``,
    does not; it need not find their ``best`` states again, where these are known and proven.
    Raises Infeasible, and Unsolved where there is no state at all.
    """
    parts = rankings(model, weight, visible, n, engine, max_work, best)
    every = [ranking for _, ranking in parts]
    solutions = list[Solution]()
    for chosen in islice(sums(every), n):
        state = np.zeros(model.n_atoms, np.uint8)
        for (atoms, _), part in zip(parts, chosen, strict=True):
            state[atoms] = part.state
        score = model.score(state, weight)
        bound = score + sum(part.bound - part.score for part in chosen)
        way, proven = route(part.route for part in chosen), all(r.proven for r in every)
        solutions.append(Solution(state, score, bound, way, proven))
    complete = len(solutions) == n or all(ranking.proven for ranking in every)
    return ranked(solutions, visible, Magnitude.of(weight).rounding), complete


def rankings(
    model: GroundMRF,
    weight: Floats,
    visible: Ints,
    n: int,
    engine: MapEngine,
    max_work: int | None,
    best: Solution | None = None,
) -> list[tuple[Ints, Ranking]]:
    """Return the best states of parts that no clause connects, each with its atoms; see ``best_states``.

    All narrow components may be one part.
    """
    problem = _Problem(model, weight, _flags(model, visible), n, engine, max_work, best)

    def narrow(atoms: Ints, clauses: Ints) -> Ranking | None:
        forest = problem.forest(atoms, clauses)
        return None if forest is None else Ranking(forest.solutions())

    return problem.solve(narrow, problem.alone)


def runners_up(
    model: GroundMRF,
    weight: Floats,
    visible: Ints,
    n: int,
    engine: MapEngine,
    max_work: int | None,
    best: Solution,
) -> list[tuple[Ints, float, Ranking | None]]:
    """Return of each component its atoms, and how much less than the ``best`` state another one scores.

    Infinite: there is no other. A wide component also has the ranking from which this is known; where a
    search ended at its limit, the difference is 0, the least that it may be. See ``best_states``.
    """
    problem = _Problem(model, weight, _flags(model, visible), n, engine, max_work, best)
    number = problem.components.number

    def narrow(atoms: Ints, clauses: Ints) -> list[tuple[Ints, float, Ranking | None]] | None:
        if (forest := problem.forest(atoms, clauses)) is None:
            return None
        parts, part = np.unique(number[atoms], return_inverse=True)
        state, loss = forest.losses()
        least = np.full(len(parts), np.inf)
        np.minimum.at(least, part, loss)
        least[part[problem.visible[atoms] & (state != best.state[atoms])]] = 0.0  # a tie
        ends = np.cumsum(np.bincount(part))[:-1]
        members = np.split(atoms[np.argsort(part, kind="stable")], ends)
        return [(*pair, None) for pair in zip(members, least.tolist(), strict=True)]

    def alone(atoms: Ints, clauses: Ints) -> list[tuple[Ints, float, Ranking | None]]:
        ranking, seen = problem.alone(atoms, clauses), problem.visible[atoms]
        state = best.state[atoms]
        score = restrict(model, atoms, clauses).score(state, weight[clauses])
        scores = [
            solution.score
            for solution in ranking.first(2)
            if np.any((solution.state != state) & seen)
        ]
        loss = max(0.0, score - scores[0]) if scores else np.inf
        return [(atoms, loss if ranking.proven else 0.0, ranking)]

    return [row for _, rows in problem.solve(narrow, alone) for row in rows]


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
    solve: Callable[[], Solution], exclude: Callable[[State], None], first: Solution | None = None
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


def _flags(model: GroundMRF, atoms: Ints) -> Bools:
    flags = np.zeros(model.n_atoms, np.bool_)
    flags[atoms] = True
    return flags


@dataclass(frozen=True, eq=False)
class _Problem:
    """A search for the best states of components; see ``best_states``. ``visible`` is bool[atoms]."""

    model: GroundMRF
    weight: Floats
    visible: Bools
    n: int
    engine: MapEngine
    max_work: int | None
    best: Solution | None

    @cached_property
    def components(self) -> Components:
        """The components of the model. Raises Infeasible."""
        return components(self.model, self.model.hard | (self.weight != 0))

    def solve(
        self, narrow: Callable[[Ints, Ints], Result | None], alone: Callable[[Ints, Ints], Result]
    ) -> list[tuple[Ints, Result]]:
        """See ``solve_components``."""
        return solve_components(self.components, narrow, alone)

    def forest(self, atoms: Ints, clauses: Ints) -> _Forest | None:
        """Return the tables of components; None where some are wide."""
        w = self.weight[clauses]
        if not Magnitude.of(w).coarse:
            with suppress(Wide):
                part = restrict(self.model, atoms, clauses)
                return _Forest(part, w, self.visible[atoms], self.n, growth=1)
        return None

    def alone(self, atoms: Ints, clauses: Ints) -> Ranking:
        """Return the best states of a wide component."""
        part, w, first = restrict(self.model, atoms, clauses), self.weight[clauses], None
        if self.best is not None:
            score = part.score(state := self.best.state[atoms], w)
            first = Solution(state, score, score, self.best.route, certified=True)
        seen = self.visible[atoms]
        return Ranking(_wide(part, w, seen, self.n, self.engine, self.max_work, first))


def _wide(
    model: GroundMRF,
    weight: Floats,
    visible: Bools,
    n: int,
    engine: MapEngine,
    max_work: int | None,
    first: Solution | None,
) -> Iterator[Solution]:
    """Yield the best states of a model.

    The search for all of them is short, unless branch and bound has proven the ``first``. Without a proof,
    each state that is yielded is hard to take again.
    """
    from onlinesrl.mln.inference.alternation import CELLS, LONG, SHORT

    atoms = np.flatnonzero(visible)
    search = Search(model, weight, n=n, visible=atoms)
    limit = LONG if max_work is None else max_work
    best = search.go_on(CELLS * min(SHORT, limit))
    if not best.certified:
        with suppress(Wide):  # whatever fits memory
            yield from _Forest(model, weight, visible, n, MAX_CELLS).solutions()
            return
        first = first or engine.solve(model, weight)
        if first.route == SEARCHED:
            best = search.go_on(CELLS * min(LONG, limit))
    if best.certified:
        yield from search.solutions()
        return

    def solve() -> Solution:
        return engine.solve(model, weight)

    def exclude(state: State) -> None:
        nonlocal model, weight
        model, weight = model.without(state, atoms), np.append(weight, 0.0)

    yield from distinct_solutions(solve, exclude, first)


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

    def solutions(self) -> list[Solution]:
        """Return the ``n`` best states, fewer where there are fewer. The tables need not be kept for them."""
        certified, found = not Magnitude.of(self._weight).coarse, list[Solution]()
        states = narrow_states(self._net, self._tables, self._weight, self._n)
        for values in islice(states, self._n):
            state = np.empty_like(values)
            state[self._order] = values
            score = self._model.score(state, self._weight)
            found.append(Solution(state, score, score, "elimination", certified))
        return found

    def losses(self) -> tuple[State, Floats]:
        """Return the best state, and how much less the best of those scores that decide otherwise.

        The loss is float64[atoms], at the first atom of each variable, infinite at all other atoms.
        """
        net, tables, order = self._net, self._tables, self._order
        start = net.var_start[: net.size[VARIABLES] + 1]
        variables = len(start) - 1
        of_value = np.empty(len(order) + variables)
        elimination.complete(net, tables, self._weight, variables, of_value)
        loss = np.full(len(order), np.inf)
        state = np.zeros(len(order), np.uint8)
        if variables:
            first = start[:-1]
            loss[order[first]] = np.minimum.reduceat(of_value, first + np.arange(variables))
            values = tables.value[:variables]
            true = np.flatnonzero(values)
            state[order[start[true] + values[true] - 1]] = 1
        return state, loss


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

    def __init__(self, solutions: Iterable[Solution]) -> None:
        self._rest, self._first = iter(solutions), list[Solution]()
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


def sums(rankings: Sequence[Ranking]) -> Iterator[list[Solution]]:
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
