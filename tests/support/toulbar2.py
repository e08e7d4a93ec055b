"""toulbar2, a solver of weighted constraint satisfaction, as a reference: on branch and bound's tables."""

from __future__ import annotations

import numpy as np
from pytoulbar2 import CFN

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.branch_and_bound import Tables
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.rounding import SUM, Magnitude

DECIMALS = 6
"""The decimal digits of a cost for toulbar2."""


class Toulbar2:
    """Exact MPE by toulbar2; its route is ``toulbar2``.

    Weights are scaled so that their sum is about ``SUM``; a table is then exact up to ``10 ** -DECIMALS``.
    The solver cannot be interrupted.
    """

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``."""
        bonus = np.zeros(model.n_atoms) if bonus is None else bonus
        tables, size = Tables(model, weight), Magnitude.of(weight, bonus)
        scale = size.scale(SUM)
        costs = tables.costs(scale * weight, scale * bonus)
        finite = costs.unary[np.isfinite(costs.unary)]
        top = 2 * float(np.abs(finite).sum() + np.abs(costs.table).sum()) + 1
        problem = CFN(top, resolution=DECIMALS)
        for v, (start, end) in enumerate(zip(costs.start, costs.start[1:], strict=False)):
            problem.AddVariable(f"x{v}", range(end - start))
            problem.AddFunction([v], np.minimum(costs.unary[start:end], top).tolist())
        for e, (low, high) in enumerate(zip(costs.low.tolist(), costs.high.tolist(), strict=True)):
            cells = costs.table[costs.table_start[e] : costs.table_start[e + 1]]
            problem.AddFunction([low, high], cells.tolist())
        answer = problem.Solve()
        state = tables.state(np.asarray(answer[0], np.int32)) if answer else None
        if state is None or not model.feasible(state):
            raise Infeasible("no state satisfies the hard clauses and the groups")
        score = model.score(state, weight, bonus)
        slack = (len(costs.start) + len(costs.low)) * 10.0**-DECIMALS / scale
        certified = size.certifies(slack + size.rounding)
        return Solution(state, score, score + slack, "toulbar2", certified)
