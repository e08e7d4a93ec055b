"""Maximum pseudo-likelihood: `mln.learning.pseudo_likelihood` as a batch learner."""

from __future__ import annotations

from typing import Literal

import numpy as np

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.learning.batch import Learned, Trace, Watch
from onlinesrl.mln.learning.estimated_counts import CountingLearner
from onlinesrl.mln.learning.problem import MlnProblem


class Mple(CountingLearner):
    """Maximum pseudo-likelihood of the query atoms, from counts: nothing is grounded.

    The conditional probability of an atom whose flip would break a hard rule is 1, whatever the weights.
    """

    kind: Literal["mple"] = "mple"
    optimizer: Literal["lbfgs", "newton"] = "lbfgs"
    """L-BFGS, or steps of the diagonal Newton method."""
    prior_sd: Positive | None = None
    """the standard deviation of a Gaussian prior of every weight; null: none."""

    def learn(self, problem: MlnProblem, watch: Watch) -> Learned:
        """Return the weights of the greatest pseudo-likelihood. The objective is its negative logarithm."""
        from onlinesrl.mln.counting.world import world_of
        from onlinesrl.mln.learning.pseudo_likelihood import Changes, changes, maximise, scipy

        sparse, trace = scipy().sparse, Trace(watch)
        worlds = [world_of(problem.program, atoms) for atoms in problem.worlds]
        rows, number = [], []
        for k, world in enumerate(worlds):
            try:
                of = changes(problem.program, world, problem.query, self.bound)
            except ExampleError as error:
                raise problem.located(k, error) from None
            column = problem.places(world.domains)[of.rows.indices]
            shape = len(of.number), len(problem.start)
            rows.append(sparse.csr_matrix((of.rows.data, column, of.rows.indptr), shape))
            number.append(of.number)
        every = Changes(sparse.vstack(rows, "csr"), np.concatenate(number))
        trace.add(-every.value(problem.start)[0])
        found = maximise(every, self.prior_sd, self.optimizer)
        trace.add(-found.value)
        return Learned(found.weights, trace.steps, warnings=found.warnings)
