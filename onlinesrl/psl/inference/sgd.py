"""Stochastic gradient descent: passes over the rows in random order (Srinivasan 2020, chapter 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.dual import dual_at
from onlinesrl.psl.inference.protocols import HingeSolution, Round, Watch
from onlinesrl.psl.inference.tron import potential_rows
from onlinesrl.psl.inference.weight_scale import in_scale, scale, unscaled
from onlinesrl.psl.kernels import potentials
from onlinesrl.psl.kernels import sgd as kernel

CERTIFIED = 1e-5
"""How close energy and bound must be, relative to the energy (absolute below 1)."""


@dataclass(frozen=True)
class Sgd:
    """SGD with the rate ``rate / t`` in round t (decaying), ``rate`` (constant), or Adam's.

    Takes no constraints. It ends after ``rounds`` passes, or when a pass changes the energy by less
    than ``tolerance``, relative to it (absolute below 1), and returns the values of lowest energy after
    any pass. The default start is 1/2. ``watch`` is called after every pass. The orders of rows depend
    on ``seed`` only. The best rate depends on the weights and on the number of rows per variable.
    """

    schedule: Literal["decaying", "constant", "adam"] = "decaying"
    rate: float = 0.5
    rounds: int = 500
    tolerance: float = 1e-6
    seed: int = 0
    watch: Watch | None = field(default=None, compare=False)

    def solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
    ) -> HingeSolution:
        """See ``HingeEngine.solve``; ValueError for constraints. Seldom certified."""
        engine = replace(self, watch=unscaled(self.watch, scale(weights, bonus)))
        return in_scale(engine._solve, model, weights, bonus, start, CERTIFIED)

    def _solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        bonus: Floats | None,
        start: HingeSolution | None,
    ) -> HingeSolution:
        rows = potential_rows(model, weights, bonus, 0.0)
        whole = potentials.Range(0, model.n_variables, 0, model.n_rows)
        y = np.full(model.n_variables, 0.5) if start is None else start.y.copy()
        moments = kernel.Moments(np.zeros_like(y), np.zeros_like(y), np.zeros(len(y), np.int64))
        random = np.random.default_rng(self.seed)
        energy = lowest = potentials.energy(rows, whole, y)
        best, t, change = y.copy(), 0, np.inf
        while t < self.rounds and change > self.tolerance * max(1.0, abs(energy)):
            t += 1
            self._round(rows, random.permutation(model.n_rows), y, t, moments)
            before, energy = energy, potentials.energy(rows, whole, y)
            change = abs(energy - before)
            if self.watch is not None:
                self.watch(Round(t, energy, -np.inf, 0.0))
            if energy < lowest:
                best[:], lowest = y, energy
        dual, bound = dual_at(model, weights, best, bonus)
        close = lowest - bound <= CERTIFIED * max(1.0, abs(lowest))
        return HingeSolution(best, lowest, dual, bound, 0.0, t, "sgd", certified=close)

    def _round(
        self,
        rows: potentials.Potentials,
        order: np.ndarray,
        y: Floats,
        t: int,
        moments: kernel.Moments,
    ) -> None:
        rate = self.rate / t if self.schedule == "decaying" else self.rate
        if self.schedule == "adam":
            kernel.descend_adam(rows, order, y, rate, moments)
        else:
            kernel.descend(rows, order, y, rate)
        np.clip(y + rate * rows.bonus, 0.0, 1.0, out=y)
