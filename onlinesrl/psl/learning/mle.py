"""Maximum likelihood by the voted perceptron (Srinivasan 2020, section 2.4; Bach et al. 2017)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from onlinesrl.core.batch import Learned, Trace, Watch
from onlinesrl.core.values import Count, Positive
from onlinesrl.psl.learning.problem import PslLearner, PslProblem


class Mle(PslLearner):
    """Maximum likelihood: the expected potentials are those of the most probable values."""

    kind: Literal["mle"] = "mle"
    steps: Count = 25
    """the number of steps, whose weights are averaged."""
    step: Positive = 1.0
    """the size of a step; the gradient of a weight is divided by the number of its potentials."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Ascend the likelihood's gradient ``Phi(MAP) - Phi(truth)``, and return the mean weights.

        The objective is ``w . (Phi(truth) - Phi(MAP))``, by how much the truth's energy is above the least.
        """
        trace, observed = Trace(watch), problem.observed
        rate = self.step / np.maximum(problem.counts, 1.0)
        weights, found = problem.start.copy(), None
        mean = np.zeros_like(weights)
        for t in range(1, self.steps + 1):
            found = problem.solve(weights, found)
            expected = problem.totals(found.y)
            trace.add(float(weights @ (observed - expected)))
            weights = np.maximum(weights + rate * (expected - observed), 0.0)
            mean += (weights - mean) / t
        return Learned(mean, trace.steps)
