"""Coordinate dual ascent with a rate of its own for each weight (Duchi, Hazan & Singer 2011).

The regulariser is sigma/2 ||w - base||_H^2 with the diagonal H = delta + sqrt(sum of Delta^2 over the steps
so far), so that weights which have rarely moved take large steps. As in CDA1 there is one dual multiplier
alpha_t in [0, 1] per example, the one that raises the dual

    D = sum_t alpha_t (rho_t - <base, Delta_t>) - 1 / (2 sigma) ||sum_t alpha_t Delta_t||^2 in H^-1

most, by H with its own Delta^2 in it: w_{t+1} - base = u = H^-1 sum_t alpha_t Delta_t / sigma. An example
without a loss changes neither u nor H. By weak duality D, taken with the H of the end, is below the
regularised loss of all fixed weights: the bound is on the excess of the summed loss over the least
regularised loss.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.averaged import HUGE, Averaged
from onlinesrl.core.kernels.jit import kernel, ready
from onlinesrl.core.update import CoordinateAscent, Gap, Kept
from onlinesrl.core.values import Positive


class AdaGradCda(CoordinateAscent):
    """Coordinate dual ascent, each weight's step divided by ``delta`` + the norm of its gaps so far."""

    columns = ("square",)
    update: Literal["adagrad"] = "adagrad"
    loss: Literal["ml", "pl"] = "ml"
    delta: Positive = 1.0
    """what is added to the norm of a weight's gaps; smaller values make larger first steps."""

    def compile(self, weights: Averaged, kept: Kept) -> None:
        """See ``Update.compile``."""
        ready(_measure, weights, kept["square"], self.delta, 0, 0.0)
        ready(_move, weights, kept["square"], self.delta, 0, 0.0, 0.0)

    def measure(self, weights: Averaged, kept: Kept, n: int, rho: float) -> Gap:
        """See ``Update.measure``."""
        return Gap(*_measure(weights, kept["square"], self.delta, n, rho))

    def move(self, weights: Averaged, kept: Kept, n: int, c: float, s: float) -> bool:
        """See ``Update.move``."""
        return _move(weights, kept["square"], self.delta, n, c, s)

    def metric(self, kept: Kept, delta: Floats) -> Floats:
        """See ``Update.metric``."""
        return self.delta + np.sqrt(kept["square"] + delta**2)

    def keep(self, kept: Kept, delta: Floats) -> None:
        """See ``Update.keep``."""
        kept["square"][:] += delta**2


@kernel
def _measure(
    weights: Averaged, square: Floats, delta: float, n: int, rho: float
) -> tuple[float, float, float, float, float]:
    """Measure a gap that touches ``n`` weights, in the metric that it makes; see ``Gap``."""
    margin, dot, norm, moved, rescaled = rho, 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        i = weights.touched[j]
        d, u = weights.delta[i], weights.value[i, 1]
        old, new = delta + np.sqrt(square[i]), delta + np.sqrt(square[i] + d * d)
        margin -= weights.value[i, 0] * d
        dot += u * d
        norm += d * d / new
        moved += u * old / new * d
        rescaled += u * u * old * (old / new - 1.0)
    return margin, dot, norm, moved, rescaled


@kernel
def _move(  # noqa: PLR0913, PLR0917 - a kernel
    weights: Averaged, square: Floats, delta: float, n: int, c: float, s: float
) -> bool:
    """Make u = H_old / H u + c Delta / H, and v to follow it, and forget the gap; False: not finite."""
    value, fits = weights.value, abs(c) <= HUGE
    for j in range(n):
        i = weights.touched[j]
        fits &= abs(c * weights.delta[i]) <= HUGE and abs(value[i, 2]) + s * HUGE <= HUGE * HUGE
    for j in range(n):
        i = weights.touched[j]
        d, u = weights.delta[i], value[i, 1]
        if fits and c != 0.0 and d != 0.0:
            old, new = delta + np.sqrt(square[i]), delta + np.sqrt(square[i] + d * d)
            change = u * old / new + c * d / new - u
            value[i, 1] += change
            value[i, 2] += change * s
            square[i] += d * d
            weights.uses[i] += 1
        weights.delta[i] = 0.0
        weights.mark[i] = 0
    return fits
