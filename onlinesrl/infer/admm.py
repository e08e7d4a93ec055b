"""ADMM: the engine for large hinge-loss models, with a certificate of how good its answer is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onlinesrl.ground.hinges import AT_MOST, HingeModel
from onlinesrl.ground.model import Floats
from onlinesrl.infer.dual import ceiling, check_constants, conjugates
from onlinesrl.infer.engine import Infeasible, Relaxed, Round, Watch
from onlinesrl.kernels import admm as kernel

RELAXATION = 1.6
"""Of Boyd et al. 2011, section 3.4.3: 1.5 to 1.8."""

PERIOD = 10
"""Rounds between two looks at the certificate."""

CHANGE = 5.0
"""The most that the step size grows or shrinks at once."""

GROWTH = 1.5
"""The rounds from one change of the step size to the next grow by this, so that it settles."""


@dataclass(frozen=True)
class Admm:
    """ADMM with over-relaxation and a step size that balances the residuals.

    Ends where the energy is shown to be within ``tolerance``, relative to it (absolute below 1), of the
    optimum, and no constraint is violated by more than ``violation``; or, not certified, after
    ``rounds``. Shown by the dual's lower bound, the energy taken with what violations may have
    gained. ``watch`` is told of every tenth round. A variable in no row and without bonus keeps its
    value, 1/2 without a start.
    """

    tolerance: float = 1e-6
    violation: float = 1e-4
    rounds: int = 25_000
    watch: Watch | None = field(default=None, compare=False)

    def solve(
        self,
        model: HingeModel,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: Relaxed | None = None,
    ) -> Relaxed:
        """See ``RelaxedEngine.solve``."""
        check_constants(model)
        state = AdmmState(model, weights, bonus, start)
        highest = ceiling(model, weights, bonus)
        highest += self.tolerance * max(1.0, abs(highest))
        while True:
            state.step(PERIOD)
            energy, bound, violation, price = state.certificate()
            if bound > highest:
                raise Infeasible("no values satisfy the constraints")
            gap = abs(energy - bound) + price
            close = gap <= self.tolerance * max(1.0, abs(energy))
            if self.watch is not None:
                self.watch(Round(state.n_rounds, energy, bound, violation))
            certified = close and violation <= self.violation
            if certified or state.n_rounds >= self.rounds:
                break
        rows = state.rows
        dual = np.clip(state.now.dual, rows.low, rows.high)
        return Relaxed(
            state.y, energy, dual, bound, violation, state.n_rounds, "admm", certified=certified
        )


class AdmmState:
    """ADMM between two rounds, for algorithms that interleave others with it.

    The copies of row i have the penalty ``eta m_i`` (``penalties``). ``eta`` starts at 1; after 10, 20,
    30, 45, ... rounds it becomes the ratio of the dual's movement to the values' in the last rounds,
    in the norms of the copies: the one for which the dual residual eta |dy| and the primal residual
    |du| / eta are in balance where both shrink alike.
    """

    def __init__(
        self,
        model: HingeModel,
        weights: Floats,
        bonus: Floats | None = None,
        start: Relaxed | None = None,
    ):
        rows = conjugates(model, weights)
        penalty = penalties(model, weights)
        degrees = np.bincount(model.variable, penalty[model.row], model.n_variables)
        norms = np.bincount(model.row, model.coefficient**2, model.n_rows)
        row_step = np.divide(penalty, norms, np.zeros(model.n_rows), where=norms > 0)
        self.rows = kernel.Rows(
            model.start,
            model.variable,
            model.coefficient,
            model.constant,
            rows.low,
            rows.high,
            rows.curvature,
            row_step,
            np.where(degrees > 0, degrees, 1.0),
            np.zeros(model.n_variables) if bonus is None else bonus,
            np.zeros(model.n_variables),
        )
        y = np.full(model.n_variables, 0.5) if start is None else start.y.copy()
        dual = rows.slope(model.forms(y)) if start is None else start.dual
        dual = np.clip(dual, rows.low, rows.high)
        self.now = kernel.Iterate(y, dual, np.empty_like(y), np.empty_like(y))
        self.eta = 1.0
        self.n_rounds = 0
        self._next = PERIOD
        kernel.pulled(self.rows, self.now)

    @property
    def y(self) -> Floats:
        """The values, float64[n_variables] in [0, 1]."""
        return np.clip(self.now.y, 0.0, 1.0)

    def step(self, n: int) -> None:
        """Do ``n`` rounds."""
        y, dual = self.now.y.copy(), self.now.dual.copy()
        kernel.rounds(self.rows, self.now, self.eta, RELAXATION, n)
        self.n_rounds += n
        if self.n_rounds >= self._next:
            self._next = int(GROWTH * self.n_rounds)
            self._balance(self.now.y - y, self.now.dual - dual)

    def _balance(self, dy: Floats, du: Floats) -> None:
        """Set the step size by the last movement: ``eta = |du| / |dy|`` over the copies."""
        moving = du != 0  # not in a row without variables, whose row_step is 0
        primal = np.sqrt(np.sum(dy**2 * self.rows.degree))
        dual = np.sqrt(np.sum(du[moving] ** 2 / self.rows.row_step[moving]))
        if primal > 0 and dual > 0:
            self.eta = float(np.clip(dual / primal, self.eta / CHANGE, self.eta * CHANGE))

    def certificate(self) -> tuple[float, float, float, float]:
        """Return energy, lower bound, violation and price, as ``kernel.certificate``."""
        return kernel.certificate(self.rows, self.now, self.now.ahead)


def penalties(model: HingeModel, weights: Floats) -> Floats:
    """Return every row's penalty before ``eta``, ``m`` float64[n_rows].

    A potential's is its weight, without sign; a constraint's is what its variables' potentials have
    together, on the average of its variables, or 1 where they have none. So it weighs as much as
    what pulls at it, and lifted rows weigh as much as those that they stand for.
    """
    weight = np.abs(model.row_weights(weights))
    pulls = np.bincount(model.variable, weight[model.row], model.n_variables)
    length = np.maximum(np.diff(model.start), 1)
    mean = np.bincount(model.row, pulls[model.variable], model.n_rows) / length
    return np.where(model.kind >= AT_MOST, np.where(mean > 0, mean, 1.0), weight)
