"""Maximum likelihood with expectations by sampling (Srinivasan 2020, equation 2.15; Geyer 1991).

The gradient of the logarithm of the likelihood is ``E_w[Phi] - Phi(truth)``. The expectation is the mean over
some sweeps of a Markov chain that goes on while weights change (Tieleman 2008).
"""

from __future__ import annotations

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Count, Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, Trace, Watch
from onlinesrl.core.learning.diagonal_newton import Newton
from onlinesrl.psl.inference.sampling import Sampler
from onlinesrl.psl.learning.problem import PslProblem

TRUST = 0.01
"""The trust in the first Newton step."""


class SampledMle(BatchLearner):
    """Maximum likelihood, with sampled expectations; the objective shown is the gradient's norm."""

    name = "sampled-mle"
    steps: Count = 200
    """the number of steps, of which the mean weights of the last half are returned."""
    samples: Count = 50
    """how many sweeps of the chain a step takes."""
    prior_sd: Positive = 10.0
    """the standard deviation of a Gaussian prior of every weight."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Maximise by steps of the diagonal Newton method over w >= 0."""
        trace, soft, observed = Trace(watch), problem.soft, problem.observed
        weights, mean, averaged = problem.start[soft], np.zeros(int(soft.sum())), 0
        chain = Sampler(problem.model, problem.solve(problem.start).y, problem.seed)
        newton = Newton(TRUST)
        for t in range(self.steps):
            drawn = totals(chain, problem, problem.whole(weights), self.samples)[:, soft]
            gradient = drawn.mean(axis=0) - observed[soft] - weights / self.prior_sd**2
            gradient = np.where((weights > 0) | (gradient > 0), gradient, 0.0)
            trace.add(float(np.linalg.norm(gradient)))
            step = newton.of(gradient, drawn, np.full(len(weights), self.prior_sd**-2))
            weights = np.maximum(weights + step, 0.0)
            if 2 * t >= self.steps:
                averaged += 1
                mean += (weights - mean) / averaged
        return Learned(problem.whole(mean), trace.steps, {"sweeps": self.steps * self.samples})


def totals(chain: Sampler, problem: PslProblem, weights: Floats, n: int) -> Floats:
    """Return ``Phi`` after each of ``n`` sweeps, float64[n, rules]."""
    return np.stack([problem.totals(y) for y in chain.draw(weights, n)])
