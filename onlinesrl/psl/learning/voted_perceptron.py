"""The voted perceptron: steps by the likelihood's gradient (Srinivasan 2020, equation 2.15; Collins 2002)."""

from __future__ import annotations

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Count, Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, Trace, Watch
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.learning.problem import PslProblem


class VotedPerceptron(BatchLearner):
    """Steps along ``Phi(MAP) - Phi(truth)``, over w >= 0; the mean of the weights is returned.

    The objective shown is by how much the truth's energy is above the least, which ``Mle`` minimises.
    """

    name = "voted-perceptron"
    steps: Count = 100
    """the number of steps."""
    step: Positive = 1.0
    """the size of a step, which is divided by the number of potentials of each rule."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Return the mean of the weights after each step."""
        trace, observed, counts = Trace(watch), problem.observed, np.maximum(problem.counts, 1.0)
        weights, mean = problem.start, np.zeros(len(problem.start))
        state: HingeSolution | None = None
        for t in range(1, self.steps + 1):
            state = problem.solve(weights, state)
            trace.add(float(weights @ observed) - state.energy)
            gradient: Floats = (problem.totals(state.y) - observed) / counts
            weights = np.where(problem.soft, np.maximum(weights + self.step * gradient, 0.0), 0.0)
            mean += (weights - mean) / t
        return Learned(mean, trace.steps, {"map_states": self.steps})
