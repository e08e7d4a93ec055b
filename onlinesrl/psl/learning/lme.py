"""Large-margin estimation (Srinivasan 2020, equation 2.18, with its sign mended; Bach et al. 2013)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, LearningError, Trace, Watch
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.learning.cutting_planes import CuttingPlanes, Plane
from onlinesrl.psl.learning.problem import PslProblem, uncertain


class Lme(BatchLearner):
    """Large margins: the truth's energy is to be below that of others by their L1 distance."""

    name = "lme"
    c: Positive = 1.0
    """what a unit of slack costs, against half the squared norm of the weights."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Minimise ``|w|^2 / 2 + C max over y of L(y) - w . (Phi(y) - Phi(truth))`` over w >= 0.

        L is the L1 distance to the truth, linear in y since the truth is 0 or 1. Raises LearningError for
        other truth.
        """
        trace, observed, soft = Trace(watch), problem.observed, problem.soft
        between = np.flatnonzero((problem.truth > 0) & (problem.truth < 1))
        if len(between):
            atom, value = problem.atom(int(between[0])), problem.truth[between[0]]
            raise LearningError(
                f"{problem.program.file}: the truth of {atom} is {value:g}; large margins need 0 or 1"
            )
        away, solutions = 1.0 - 2.0 * problem.truth, list[HingeSolution]()

        def slack(w: Floats) -> Plane:
            start = solutions[-1] if solutions else None
            solution = problem.solve(problem.whole(w), start, away)
            solutions.append(solution)
            loss = float(np.sum(problem.truth + away * solution.y))
            slope = observed - problem.totals(solution.y)
            return Plane(
                self.c * loss,
                self.c * slope[soft],
                self.c * max(solution.energy - solution.bound, 0.0),
            )

        start = np.maximum(problem.start[soft], 1e-6)
        least = CuttingPlanes(HalfNorm(), simplex=False).minimise(slack, start, trace)
        stats = {"bound": least.bound, "map_states": len(solutions)}
        return Learned(problem.whole(least.w), trace.steps, stats, uncertain(least))


@dataclass(frozen=True)
class HalfNorm:
    """The regulariser ``|w|^2 / 2``; see ``Regulariser``."""

    def value(self, w: Floats) -> float:
        """Return R(w)."""
        return 0.5 * float(w @ w)

    def gradient(self, w: Floats) -> Floats:
        """Return R'(w)."""
        return w

    def curvature(self, w: Floats) -> Floats:
        """Return R''(w)."""
        return np.ones_like(w)
