"""Exact MPE of clauses that are ground only where a state violates them: cutting plane inference.

The model without them is solved; the ground clauses that the answer violates are added; and so on, until
there are none (Riedel 2008; Noessner, Niepert & Stuckenschmidt 2013). A clause that is not ground counts as
true, so that every bound on the smaller model is a bound on the whole. First the linear relaxation is solved
so, which takes up the search for violated clauses where it is cheap; most often its optimum is integral.

Importing this module imports HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.kernels.random import generator
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, signed
from onlinesrl.mln.inference.best_states import Ranking, distinct_solutions
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.linear_relaxation import LinearRelaxation
from onlinesrl.mln.inference.maxwalksat import WalkSat, feasible_state
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.inference.router import Router

INTEGRAL = 1e-6
"""How close to 0 or 1 an atom's value counts as integral: the solver's tolerance is 1e-7."""
MORE = 16
"""How many atoms are free where there is no answer, beside twice as many as before."""
NOTHING = np.zeros(0, np.int32)
Violated = Callable[[Floats, bool], tuple[GroundMRF, Floats] | None]
"""Values of the atoms, float64[atoms], in [0, 1]; the clauses over the same atoms that they violate, with
weights, each once; None: there is none. True: only those of two atoms, where they are not too many."""


class CuttingPlanes:
    """The model that is ground so far, simplified, to which violated clauses are added.

    At first these are the clauses of two atoms that gain by themselves.
    """

    def __init__(self, model: GroundMRF, weight: Floats, violated: Violated) -> None:
        self._bare = model.select(np.zeros(0, np.int64))
        self._reduced = reduced(model, weight)
        core, weight = self._reduced.core
        self._parts, self._total = [(core, weight)], float(weight.sum())
        self._violated = violated
        self._root: tuple[float, Floats] | None = None
        """The weight that any state loses by the first relaxation, and the reduced costs of the atoms."""
        self._gap: float | None = None
        """How much more the last answer loses, from the second answer on."""
        gain, _ = core.gains(weight)
        self._add((gain > 0).astype(np.float64), conflicts=True)

    def solve(self, max_work: int | None = None) -> Solution:
        """Return an answer that violates no clause, ground or not, and none that was excluded.

        ``max_work`` ends the linear programs, and each search of the integer program, as in ``Ilp``; None:
        they go on to the proof. The score and the bound leave out a constant. Raises Infeasible, Unsolved,
        and what ``violated`` raises.
        """
        if self._gap is not None and self._root is not None:
            near = self._near(max_work, self._gap, *self._root)
            self._gap = self._total - near.score - self._root[0]
            return replace(near, state=self._reduced.expand(near.state))
        (model, weight), answer, loss = self._clauses(), None, -np.inf
        relaxation = LinearRelaxation(model, weight, Magnitude.of(weight).for_solvers, max_work)
        with suppress(Unsolved):
            answer = self._relaxed(relaxation)
            loss = self._total - answer.bound
        if answer is None or not (answer.certified or relaxation.exhausted):
            answer = self._integral(max_work)
            bound = min(answer.bound, self._total - loss)
            answer = replace(answer, bound=max(answer.score, bound))
        return replace(answer, state=self._reduced.expand(answer.state))

    def ranking(self, visible: Ints, max_work: int | None = None) -> Ranking:
        """Return the best answers, no two of which agree on all ``visible`` atoms; see ``solve``."""

        def exclude(state: State) -> None:
            self._gap = self._gap or 0.0
            self._extend(self._bare.without(state, visible), np.zeros(1))

        return Ranking(distinct_solutions(lambda: self.solve(max_work), exclude))

    def _relaxed(self, relaxation: LinearRelaxation) -> Solution:
        """Solve the relaxation until no clause is violated; return the nearest state."""
        while True:
            value = relaxation.solve()
            if relaxation.exhausted:
                loss = self._total - relaxation.bound()[0]
                return self._searched(np.rint(value).astype(np.uint8), loss)
            added = self._add(value)
            if added is None:
                bound, cost = relaxation.bound()
                self._root = self._total - bound, cost
                return self._rounded(value, bound)
            relaxation.add(*added)

    def _near(self, max_work: int | None, gap: float, loss: float, cost: Floats) -> Solution:
        """Return the best answer, of which few atoms are not as the first relaxation would have them.

        Atoms of large reduced ``cost`` are fixed (Nemhauser & Wolsey 1988, II.5.2): with its other value, a
        state would lose that much more than ``loss``. An answer that loses no more is the best. Else the
        atoms that may differ in a better one are free in the next try. The first is by the ``gap`` of the
        answer before.
        """
        size = np.abs(cost)
        while True:
            fixed = np.flatnonzero(size > max(0.0, gap))
            least = float(size[fixed].min(initial=np.inf))
            try:
                answer = self._integral(max_work, signed(fixed, cost[fixed] > 0))
            except Infeasible:
                if not len(fixed):
                    raise
                more = min(2 * (len(size) - len(fixed)) + MORE, len(size) - 1)
                gap = float(np.partition(size, more)[more])
                continue
            lost = self._total - answer.score - loss
            if not answer.certified:
                return replace(answer, bound=max(answer.score, self._total - loss))
            if lost <= least:
                return answer
            gap = lost

    def _integral(self, max_work: int | None, units: Ints32 = NOTHING) -> Solution:
        """Search for a state with these literals that violates no clause.

        Without a proof, return the best one at hand, whatever its literals.
        """
        engine = Router(Ilp(max_work=max_work), WalkSat(), growth=1)
        while True:
            answer = self._fixed(engine, units)
            loss = self._total - answer.bound
            if self._add(answer.state.astype(np.float64)) is None:
                return answer
            if not answer.certified:
                return self._searched(answer.state, loss)

    def _fixed(self, engine: Router, units: Ints32) -> Solution:
        """Return the best state with these literals by the clauses that are ground so far."""
        model, weight = self._clauses()
        if not len(units):
            return engine.solve(model, weight)
        weighted = np.append(weight, np.zeros(len(units)))
        rest = reduced(model.with_units(units, hard=True), weighted)
        answer = engine.solve(*rest.core)
        state = rest.expand(answer.state)
        score = model.score(state, weight)
        return replace(answer, state=state, score=score, bound=score + answer.bound - answer.score)

    def _searched(self, near: State, loss: float) -> Solution:
        """Return the better one of two states that violate no clause: near another state, and near nothing.

        Any state is proven to lose so much of the weight of all clauses, however many are added: they
        counted as true.
        """
        states = [self._mended(start) for start in (near, 0 * near)]
        model, weight = self._clauses()
        score, state = max(((model.score(x, weight), x) for x in states), key=itemgetter(0))
        bound = max(score, self._total - loss)
        return Solution(state, score, bound, "walksat", certified=False)

    def _mended(self, near: State) -> State:
        """Return a state near another one that violates no clause, ground or not."""
        while True:
            problem = reduced(*self._clauses())
            order = np.arange(problem.n_atoms, dtype=np.int32)
            some = feasible_state(problem, WalkSat.flips, generator(0), near[problem.atoms], order)
            state = problem.expand(some)
            if self._add(state.astype(np.float64)) is None:
                return state

    def _add(self, value: Floats, conflicts: bool = False) -> tuple[GroundMRF, Floats] | None:
        """Add the clauses that values of the remaining atoms violate, and return them."""
        part = self._violated(self._reduced.expand(value), conflicts)
        return None if part is None else self._extend(*part)

    def _extend(self, model: GroundMRF, weight: Floats) -> tuple[GroundMRF, Floats]:
        """Add clauses of the whole model, and return them over the remaining atoms."""
        model, weight = self._reduced.rewritten(model, weight)
        self._parts.append((model, weight))
        self._total += float(weight.sum())
        return model, weight

    def _clauses(self) -> tuple[GroundMRF, Floats]:
        """Return what is ground so far."""
        models, weights = zip(*self._parts, strict=True)
        self._parts = [(models[0].with_clauses(*models[1:]), np.concatenate(weights))]
        return self._parts[0]

    def _rounded(self, value: Floats, bound: float) -> Solution:
        """Return the nearest state, certified where it is proven to be the best."""
        state, (model, weight) = np.rint(value).astype(np.uint8), self._clauses()
        score, size = model.score(state, weight), Magnitude.of(weight)
        integral = bool(np.all(np.abs(value - state) < INTEGRAL)) and model.feasible(state)
        certified = integral and size.certifies(bound - score + size.rounding)
        return Solution(state, score, max(bound, score), "lp", certified)
