"""Averaged weights under an online update: one update along a gap, and what it certifies.

``kernels.averaged`` says how weights and their averages are kept, and ``updates`` how they are moved.
"""

from __future__ import annotations

import math
from typing import Any

from onlinesrl.core.arrays import Floats
from onlinesrl.core.counts import certificate
from onlinesrl.core.kernels.averaged import HUGE
from onlinesrl.core.update import Update

T, S, NORM, DUAL = 0, 1, 2, 3
"""What ``scalar`` begins with: updates, the sum of s_2 .. s_{T+1}, ||u||^2 in the metric of the update, and
the sum of alpha (rho - <base, Delta>) over the updates. Then come their regularised losses and losses.
"""


class AveragedWeights:
    """What an ``update`` has made of weights; ``kept`` has what it keeps beside them."""

    arrays: Any  # Averaged, or a frame with more
    kept: dict[str, Floats]

    def __init__(self, update: Update):
        self.update = update
        self.scalar = [0.0] * 6
        self.before = 0
        self.dropped = 0

    @property
    def updates(self) -> int:
        """The number of updates so far: T, and those ``before`` the last restart."""
        return self.before + int(self.scalar[T])

    def scale(self) -> float:
        """Return s_{T+1}: the present weights are base + s_{T+1} u."""
        return self.update.scale(int(self.scalar[T]) + 1)

    def mean(self) -> tuple[float, float]:
        """Return (cu, cv): the averaged weight is base + cu u + cv v."""
        t = self.scalar[T]
        return (self.scalar[S] / t, -1.0 / t) if t else (0.0, 0.0)

    def learn(self, n: int, rho: float) -> float:
        """Make one update along the gap in ``arrays.delta``, of ``n`` weights; returns the loss g_t(w_t).

        NaN: some number would not be finite; nothing has been changed.
        """
        update, t = self.update, int(self.scalar[T]) + 1
        _, sum_s, length, dual, primal, losses = self.scalar
        gap = update.measure(self.arrays, self.kept, n, update.required(rho))
        s = update.scale(t)
        loss = max(0.0, gap.margin - s * gap.dot)
        c, alpha = update.step(t, gap.margin, gap.moved, gap.norm) if gap.norm else (0.0, 1.0)
        primal += loss
        if update.shrinks:
            primal += 0.5 * update.sigma * s * s * length
        if c:
            length += gap.rescaled + (2.0 * c * gap.moved + c * c * gap.norm)
        dual += alpha * gap.margin
        fits = abs(primal) <= HUGE and abs(length) <= HUGE and abs(dual) <= HUGE
        if not update.move(self.arrays, self.kept, n, c if fits else math.nan, sum_s):
            return math.nan
        sum_s += update.scale(t + 1)
        self.scalar[:] = float(t), sum_s, length, dual, primal, losses + loss
        return loss

    def restart(self) -> None:
        """Start over from the present weights: they are the base, and T = 0."""
        value = self.arrays.value
        value[:, 0] += self.scale() * value[:, 1]
        for array in (value[:, 1:], *self.kept.values()):
            array[:] = 0.0
        self.before = self.updates
        self.scalar[:] = [0.0] * len(self.scalar)

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value D_T and the bound it gives on the regret.

        Of updates that shrink the weights an upper bound on the regret, of others on the excess of the
        summed loss over the least regularised one. None for updates without a dual, and once weights
        were dropped. After a restart all are of the updates since, and the weights it started from.
        """
        t, _, length, dual, primal, loss = self.scalar
        if not self.update.dual or self.dropped or not t:
            return certificate(int(t), loss, primal, None, self.before)
        sigma = self.update.sigma
        dual -= (sigma / (2.0 * t) if self.update.shrinks else sigma / 2.0) * length
        return certificate(int(t), loss, primal, dual, self.before)
