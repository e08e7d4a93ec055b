"""ADMM for small hinge-loss models: two kernel calls from a model and its weights to the answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.ground.hinges import HingeModel
from onlinesrl.ground.model import Floats
from onlinesrl.infer.admm import CHANGE, GROWTH, PERIOD, RELAXATION
from onlinesrl.infer.dual import FEASIBLE, conjugates
from onlinesrl.infer.engine import Infeasible, Relaxed
from onlinesrl.kernels import admm
from onlinesrl.kernels import admm_solve as kernel


@dataclass(frozen=True)
class SmallAdmm:
    """``Admm`` without a watch: the same rounds and the same answer, up to rounding.

    What that does in Python between the rounds takes most of the time where a model has few rows; here
    it is compiled.
    """

    tolerance: float = 1e-6
    violation: float = 1e-4
    rounds: int = 25_000

    def solve(
        self,
        model: HingeModel,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: Relaxed | None = None,
    ) -> Relaxed:
        """See ``RelaxedEngine.solve``."""
        n, m = model.n_variables, model.n_rows
        low, high, curvature, row_step = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
        rows = admm.Rows(
            model.start,
            model.variable,
            model.coefficient,
            model.constant,
            low,
            high,
            curvature,
            row_step,
            np.empty(n),
            np.zeros(n) if bonus is None else bonus,
            np.zeros(n),
        )
        highest, excess = kernel.prepare(rows, model.kind, model.power, model.weight_index, weights)
        if not np.isfinite(highest):
            conjugates(model, weights)  # says what is wrong
        if excess > FEASIBLE:
            raise Infeasible("a constraint without variables is false")
        now = admm.Iterate(
            np.full(n, 0.5) if start is None else start.y.copy(),
            np.empty(m) if start is None else start.dual.copy(),
            np.empty(n),
            np.empty(n),
        )
        kernel.begin(rows, now, start is not None)
        schedule = kernel.Schedule(
            RELAXATION, PERIOD, GROWTH, CHANGE, self.tolerance, self.violation, self.rounds
        )
        ended, count, energy, bound, violation = kernel.solve(
            rows, now, np.empty(n), np.empty(m), highest, schedule
        )
        if ended == kernel.INFEASIBLE:
            raise Infeasible("no values satisfy the constraints")
        certified = ended == kernel.CERTIFIED
        y, dual = np.clip(now.y, 0.0, 1.0), np.clip(now.dual, low, high)
        return Relaxed(y, energy, dual, bound, violation, count, "admm", certified=certified)
