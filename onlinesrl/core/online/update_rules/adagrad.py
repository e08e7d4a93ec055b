"""Coordinate dual ascent with a rate of its own for each weight (Duchi, Hazan & Singer 2011).

The regulariser is sigma/2 ||w - base||_H^2 with the diagonal H = delta + sqrt(sum of Delta^2 over the steps
so far), so weights that have rarely moved take large steps. As in CDA1, each example has one dual multiplier
alpha_t in [0, 1]. It is the one that maximises the dual

    D = sum_t alpha_t (rho_t - <base, Delta_t>) - 1 / (2 sigma) ||sum_t alpha_t Delta_t||^2 in H^-1

where H includes the example's own Delta^2. Then w_{t+1} - base = u = H^-1 sum_t alpha_t Delta_t / sigma. An
example without a loss changes neither u nor H. By weak duality, D with the final H is at most the regularised
loss of any fixed weights. So it bounds the excess of the summed loss over the least regularised loss.

>>> AdaGradCda(delta=1.0).metric({"square": np.array([9.0, 0.0])}, np.array([4.0, 0.0]))
array([6., 1.])
"""

from __future__ import annotations

from abc import ABC
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.jit.decorators import kernel, kernel_of, plain
from onlinesrl.core.kernels.averaging import HUGE, Averaged, u_column
from onlinesrl.core.online.update_rules.cda1 import CoordinateAscent
from onlinesrl.core.online.update_rules.rule import OptimizerState, Regularised, UpdateParams


@kernel
def divisor(delta: float, square: float) -> float:
    """Return H, the divisor of a weight's steps."""
    return delta + np.sqrt(square)


class AdaptiveRates(Regularised, ABC):
    """An update that divides each weight's step by ``delta`` + the norm of its gaps so far."""

    delta: Positive = 1.0
    """what is added to the norm of a weight's gaps; smaller values make larger first steps."""

    @property
    def columns(self) -> tuple[str, ...]:
        """See ``Update.columns``."""
        return ("square",)

    @property
    def constant(self) -> float:
        """See ``Update.constant``."""
        return self.delta

    def metric(self, state: OptimizerState, delta: Floats | float = 0.0) -> Floats | float:
        """See ``Update.metric``."""
        of_arrays: Any = plain(divisor)
        rates: Floats = of_arrays(self.delta, state["square"] + delta**2)
        return rates

    def accumulate(self, state: OptimizerState, delta: Floats) -> None:
        """See ``Update.accumulate``."""
        state["square"][:] += delta**2


class AdaGradCda(AdaptiveRates, CoordinateAscent):
    """Coordinate dual ascent, each weight's step divided by ``delta`` + the norm of its gaps so far."""

    name = "adagrad"


@kernel_of("rates", (0.0, 0.0, 0.0, 0.0, 0.0))
def measure_by_rates(
    weights: Averaged, params: UpdateParams, n: int, rho: float
) -> tuple[float, float, float, float, float]:
    """Measure a gap in the new metric H, which includes the gap.

    Returns rho - <base, Delta>, <u, Delta>, ||Delta||^2 in H^-1, <u, Delta> of the rescaled u, and the change
    of ||u||^2 by the new metric.
    """
    square, delta = params.square, params.constant
    margin, dot, norm, moved, rescaled = rho, 0.0, 0.0, 0.0, 0.0
    column = u_column(weights)
    for j in range(n):
        i, d = weights.touched[j], weights.delta[j]
        u = weights.value[i, column]
        old, new = divisor(delta, square[i]), divisor(delta, square[i] + d * d)
        if column > 0:
            margin -= weights.value[i, 0] * d
        dot += u * d
        norm += d * d / new
        moved += u * old / new * d
        rescaled += u * u * old * (old / new - 1.0)
    return margin, dot, norm, moved, rescaled


@kernel_of("rates", False)
def move_by_rates(weights: Averaged, params: UpdateParams, n: int, c: float, s: float) -> bool:
    """Set u = H_old / H u + c Delta / H, update v, and clear the gap; False: u would not be finite."""
    square, delta = params.square, params.constant
    value, column, fits = weights.value, u_column(weights), abs(c) <= HUGE
    for j in range(n):
        v = abs(value[weights.touched[j], column + 1])
        fits &= abs(c * weights.delta[j]) <= HUGE and v + s * HUGE <= HUGE * HUGE
    for j in range(n):
        i, d = weights.touched[j], weights.delta[j]
        u = value[i, column]
        if fits and c != 0.0 and d != 0.0:
            old, new = divisor(delta, square[i]), divisor(delta, square[i] + d * d)
            change = u * old / new + c * d / new - u
            value[i, column] += change
            value[i, column + 1] += change * s
            square[i] += d * d
            if len(weights.uses) > 0:
                weights.uses[i] += 1
        weights.delta[j] = 0.0
        weights.mark[i] = 0
    return fits
