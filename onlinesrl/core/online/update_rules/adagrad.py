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

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.online.update_rules.cda1 import CoordinateAscent
from onlinesrl.core.online.update_rules.rule import OptimizerState, Regularised


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
        return self.delta + np.sqrt(state["square"] + delta**2)

    def accumulate(self, state: OptimizerState, delta: Floats) -> None:
        """See ``Update.accumulate``."""
        state["square"][:] += delta**2


class AdaGradCda(AdaptiveRates, CoordinateAscent):
    """Coordinate dual ascent, each weight's step divided by ``delta`` + the norm of its gaps so far."""

    name = "adagrad"
