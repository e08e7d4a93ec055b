"""The energy loss of PSL 2.4: weights with which the truth has little energy; nothing is inferred."""

from __future__ import annotations

from typing import Literal

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.learning.batch import Learned, Trace, Watch
from onlinesrl.psl.learning.cutting_planes import CuttingPlanes, Plane
from onlinesrl.psl.learning.mle import LogEntropy, NotNegative
from onlinesrl.psl.learning.problem import PslBatchLearner, PslProblem, uncertain


class Energy(PslBatchLearner):
    """The energy of the truth."""

    kind: Literal["energy"] = "energy"
    log: Positive = 1.0
    """the weight of the regulariser - sum log w, which keeps weights above 0."""
    entropy: NotNegative = 10.0
    """the weight of the regulariser sum w log w, which draws weights together."""

    def learn(self, problem: PslProblem, watch: Watch) -> Learned:
        """Minimise ``w . Phi(truth) + regulariser`` over weights with the sum 1."""
        trace, soft = Trace(watch), problem.soft
        truth = Plane(0.0, problem.observed[soft], 0.0)

        def energy(w: Floats) -> Plane:
            return truth

        start = np.maximum(problem.start[soft], 1e-6)
        planes = CuttingPlanes(LogEntropy(self.log, self.entropy), simplex=True)
        least = planes.minimise(energy, start / start.sum(), trace)
        return Learned(
            problem.whole(least.w), trace.steps, {"bound": least.bound}, uncertain(least)
        )
