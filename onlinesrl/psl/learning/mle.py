"""Maximum likelihood with the most probable values in place of expectations: the structured perceptron.

The gradient of the logarithm of the likelihood is ``E_w[Phi] - Phi(truth)`` (Srinivasan 2020, equation
2.15). With ``Phi(MAP)`` for the expectation it is that of ``-(w . Phi(truth) - min over y of w . Phi(y))``,
by how much the truth's energy is above the least. This gap is convex in w and grows with its scale, which
does not matter for the most probable values: weights have the sum 1, and the regulariser of PSL 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, Trace, Watch
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.learning.cutting_planes import CuttingPlanes, Minimum, Oracle, Plane
from onlinesrl.psl.learning.problem import PslProblem, uncertain

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class OnSimplex(BatchLearner):
    """A convex function of weights with the sum 1 is minimised, with a regulariser."""

    log: Positive = 1.0
    """the weight of the regulariser - sum log w, which keeps weights above 0."""
    entropy: NotNegative = 10.0
    """the weight of the regulariser sum w log w, which draws weights together."""

    def minimum(self, problem: PslProblem, oracle: Oracle, trace: Trace) -> Minimum:
        """Minimise from the weights of the program's soft rules."""
        start = np.maximum(problem.start[problem.soft], 1e-6)
        planes = CuttingPlanes(LogEntropy(self.log, self.entropy), simplex=True)
        return planes.minimise(oracle, start / start.sum(), trace)


class Mle(OnSimplex):
    """Maximum likelihood, with the most probable values in place of expectations."""

    name = "mle"

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Minimise ``w . (Phi(truth) - Phi(MAP)) + regulariser`` over weights with the sum 1."""
        trace, observed, soft = Trace(watch), problem.observed, problem.soft
        solutions: list[HingeSolution] = []

        def gap(w: Floats) -> Plane:
            weights = problem.whole(w)
            solution = problem.solve(weights, solutions[-1] if solutions else None)
            solutions.append(solution)
            slope = observed - problem.totals(solution.y)
            return Plane(0.0, slope[soft], max(solution.energy - solution.bound, 0.0))

        least = self.minimum(problem, gap, trace)
        stats = {"bound": least.bound, "map_states": len(solutions)}
        return Learned(problem.whole(least.w), trace.steps, stats, uncertain(least))


class Energy(OnSimplex):
    """The energy of the truth, a loss of PSL 2.4: nothing is inferred."""

    name = "energy"

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Minimise ``w . Phi(truth) + regulariser`` over weights with the sum 1."""
        trace, truth = Trace(watch), Plane(0.0, problem.observed[problem.soft], 0.0)
        least = self.minimum(problem, lambda w: truth, trace)
        stats = {"bound": least.bound}
        return Learned(problem.whole(least.w), trace.steps, stats, uncertain(least))


@dataclass(frozen=True)
class LogEntropy:
    """The regulariser ``- log sum log w + entropy sum w log w``; see ``Regulariser``."""

    log: float
    entropy: float

    def value(self, w: Floats) -> float:
        """Return R(w)."""
        return float(np.sum((self.entropy * w - self.log) * np.log(w)))

    def gradient(self, w: Floats) -> Floats:
        """Return R'(w)."""
        return self.entropy * (np.log(w) + 1.0) - self.log / w

    def curvature(self, w: Floats) -> Floats:
        """Return R''(w)."""
        return self.entropy / w + self.log / w**2
