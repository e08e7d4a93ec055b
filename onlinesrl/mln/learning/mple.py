"""Maximum pseudo-likelihood: `mln.pseudo_likelihood` as a batch learner."""

from __future__ import annotations

from typing import Literal

import numpy as np

from onlinesrl.core.batch import Learned, Trace, Watch
from onlinesrl.core.values import Positive
from onlinesrl.mln.learning.problem import MlnLearner, MlnProblem


class Mple(MlnLearner):
    """Maximum pseudo-likelihood of the query atoms, from counts: nothing is grounded."""

    kind: Literal["mple"] = "mple"
    prior_sd: Positive | None = None
    """the standard deviation of a Gaussian prior of every weight; null: none."""

    def learn(self, problem: MlnProblem, watch: Watch) -> Learned:
        """Return the weights of the greatest pseudo-likelihood. The objective is its negative logarithm."""
        from onlinesrl.mln.counting.world import world_of
        from onlinesrl.mln.pseudo_likelihood import Changes, changes, maximise

        trace, worlds = Trace(watch), [world_of(problem.program, w) for w in problem.worlds]
        each = [changes(problem.program, world, problem.query) for world in worlds]
        rows = [np.zeros((len(of.rows), len(problem.start))) for of in each]
        for here, of, world in zip(rows, each, worlds, strict=True):
            here[:, problem.places(world.domains)] = of.rows
        number = np.concatenate([of.number for of in each])
        every = Changes(np.concatenate(rows), number)
        trace.add(-every.value(problem.start)[0])
        found = maximise(every, self.prior_sd)
        trace.add(-found.value)
        return Learned(found.weights, trace.steps, warnings=found.warnings)
