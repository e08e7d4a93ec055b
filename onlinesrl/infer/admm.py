"""ADMM: the engine for hinge-loss models, with a certificate of how good its answer is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onlinesrl.arrays import Floats
from onlinesrl.errors import Infeasible
from onlinesrl.ground.hinges import HingeModel
from onlinesrl.infer.dual import check_constants, weighted_rows
from onlinesrl.infer.hinge_engine import HingeSolution, Round, Watch
from onlinesrl.kernels import admm as kernel
from onlinesrl.kernels import admm_rows, admm_solve


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
        start: HingeSolution | None = None,
    ) -> HingeSolution:
        """See ``HingeEngine.solve``."""
        state = AdmmState(model, weights, bonus, start)
        found = state.solve(
            self.tolerance, self.violation, self.rounds if self.watch is None else 0
        )
        while self.watch is not None:
            self.watch(Round(found.iterations, found.energy, found.bound, found.violation))
            if found.certified or found.iterations >= self.rounds:
                break
            found = state.solve(self.tolerance, self.violation, 0)
        return found


class AdmmState:
    """ADMM between two rounds, for algorithms that interleave others with it.

    The copies of row i have the penalty ``eta m_i``, m as in ``kernels.admm_rows``. The step size ``eta``
    starts at 1 and changes after 10, 20, 30, 45, ... rounds.
    """

    def __init__(
        self,
        model: HingeModel,
        weights: Floats,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
    ):
        check_constants(model)
        n, m = model.n_variables, model.n_rows
        given_bonus = np.zeros(n) if bonus is None else bonus
        self._potentials = weighted_rows(model, weights)
        pulls, ridge = np.zeros(n), np.zeros(n)
        self._highest = admm_rows.weigh(self._potentials, pulls, ridge)
        self._highest += float(np.maximum(-given_bonus, 0.0).sum())
        self.rows = kernel.Rows(
            model.start,
            model.variable,
            model.coefficient,
            model.constant,
            low=np.empty(m),
            high=np.empty(m),
            curvature=np.empty(m),
            row_step=np.empty(m),
            degree=np.zeros(n),
            bonus=given_bonus,
            ridge=ridge,
        )
        admm_rows.expand(self._potentials, pulls, self.rows)
        y = np.full(n, 0.5) if start is None else start.y.copy()
        dual = np.empty(m) if start is None else start.dual.copy()
        self.now = kernel.Iterate(y, dual, -given_bonus, np.empty(n))
        degree, known = self.rows.degree, start is not None
        admm_rows.begin(self._potentials, pulls, self.rows, self.now, degree, known)
        degree[(degree == 0) & (ridge == 0)] = 1.0
        self._memory = np.empty(n), np.empty(m)
        self._control = np.array([1.0, 0.0, admm_solve.PERIOD])

    @property
    def y(self) -> Floats:
        """The values, float64[n_variables] in [0, 1]."""
        return np.clip(self.now.y, 0.0, 1.0)

    @property
    def n_rounds(self) -> int:
        """The rounds so far."""
        return int(self._control[admm_solve.ROUNDS])

    @property
    def eta(self) -> float:
        """The step size."""
        return float(self._control[admm_solve.ETA])

    def step(self, n: int) -> None:
        """Do ``n`` rounds."""
        admm_solve.advance(self.rows, self.now, *self._memory, self._control, n)

    def solve(self, tolerance: float, violation: float, rounds: int) -> HingeSolution:
        """Go on as ``Admm`` does, until there have been ``rounds``, or ten more; raises Infeasible."""
        ended, energy, bound, worst = admm_solve.solve(
            self.rows,
            self.now,
            *self._memory,
            self._control,
            self._highest,
            tolerance,
            violation,
            float(rounds),
        )
        if ended == admm_solve.INFEASIBLE:
            raise Infeasible("no values satisfy the constraints")
        dual, certified = self._dual(), ended == admm_solve.CERTIFIED
        return HingeSolution(
            self.y, energy, dual, bound, worst, self.n_rounds, "admm", certified=certified
        )

    def certificate(self) -> tuple[float, float, float, float, Floats]:
        """Return energy, lower bound, violation and price, as ``kernel.certificate``, and the dual."""
        return *kernel.certificate(self.rows, self.now, self.now.ahead), self._dual()

    def _dual(self) -> Floats:
        """Return the dual of the last certificate, whose pull is still in ``ahead``."""
        dual = np.clip(self.now.dual, self.rows.low, self.rows.high)
        admm_rows.ridge_duals(self._potentials, self.rows.ridge, self.now.ahead, dual)
        return dual
