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

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Unsolved
from onlinesrl.core.kernels.random import generator
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.linear_relaxation import LinearRelaxation
from onlinesrl.mln.inference.maxwalksat import WalkSat, feasible_state
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.inference.router import Router

INTEGRAL = 1e-6
"""How close to 0 or 1 an atom's value counts as integral: the solver's tolerance is 1e-7."""
Violated = Callable[[Floats], tuple[GroundMRF, Floats] | None]
"""Values of the atoms, float64[atoms], in [0, 1]; the clauses over the same atoms that they violate, with
weights, each once; None: there is none."""


class CuttingPlanes:
    """The model that is ground so far, simplified, to which violated clauses are added."""

    def __init__(self, model: GroundMRF, weight: Floats, violated: Violated) -> None:
        self._reduced = reduced(model, weight)
        self._model, self._weight = self._reduced.core
        self._violated = violated

    def solve(self, max_work: int | None = None) -> Solution:
        """Return an answer that violates no clause, ground or not.

        ``max_work`` ends each search of the integer program as in ``Ilp``; None: it goes on to the proof. The
        score and the bound leave out a constant. Raises Infeasible, Unsolved, and what ``violated`` raises.
        """
        scale, answer = Magnitude.of(self._weight).for_solvers, None
        with suppress(Unsolved):
            answer = self._relaxed(LinearRelaxation(self._model, self._weight, scale))
        if answer is None or not answer.certified:
            bound, before = np.inf if answer is None else answer.bound, float(self._weight.sum())
            answer = self._integral(max_work)
            bound += float(self._weight.sum()) - before  # what is added later was true
            answer = replace(answer, bound=max(answer.score, min(answer.bound, bound)))
        return replace(answer, state=self._reduced.expand(answer.state))

    def _relaxed(self, relaxation: LinearRelaxation) -> Solution:
        """Solve the relaxation until no clause is violated; return the nearest state."""
        while True:
            value, bound = relaxation.solve()
            added = self._add(value)
            if added is None:
                return self._rounded(value, bound)
            relaxation.add(*added)

    def _integral(self, max_work: int | None) -> Solution:
        """Search for a state that violates no clause; without a proof, return the best one at hand."""
        engine = Router(Ilp(max_work=max_work), WalkSat(), growth=1)
        while True:
            answer, before = engine.solve(self._model, self._weight), float(self._weight.sum())
            if self._add(answer.state.astype(np.float64)) is None:
                return answer
            if not answer.certified:
                states = [self._mended(near) for near in (answer.state, 0 * answer.state)]
                bound = answer.bound + float(self._weight.sum()) - before
                score, state = max(
                    ((self._model.score(x, self._weight), x) for x in states), key=itemgetter(0)
                )
                return replace(answer, state=state, score=score, bound=bound, route="walksat")

    def _mended(self, near: State) -> State:
        """Return a state near another one that violates no clause, ground or not."""
        while True:
            problem = reduced(self._model, self._weight)
            order = np.arange(problem.n_atoms, dtype=np.int32)
            some = feasible_state(problem, WalkSat.flips, generator(0), near[problem.atoms], order)
            state = problem.expand(some)
            if self._add(state.astype(np.float64)) is None:
                return state

    def _add(self, value: Floats) -> tuple[GroundMRF, Floats] | None:
        """Add the clauses that values of the remaining atoms violate, and return them."""
        part = self._violated(self._reduced.expand(value))
        if part is None:
            return None
        model, weight = self._reduced.rewritten(*part)
        self._model = self._model.with_clauses(model)
        self._weight = np.concatenate((self._weight, weight))
        return model, weight

    def _rounded(self, value: Floats, bound: float) -> Solution:
        """Return the nearest state, certified where it is proven to be the best."""
        state = np.rint(value).astype(np.uint8)
        score, size = self._model.score(state, self._weight), Magnitude.of(self._weight)
        integral = bool(np.all(np.abs(value - state) < INTEGRAL)) and self._model.feasible(state)
        certified = integral and size.certifies(bound - score + size.rounding)
        return Solution(state, score, max(bound, score), "lp", certified)
