"""Dual ascent that sets the new multiplier to a subgradient (Huynh & Mooney 2010, Algorithm 3).

>>> Simple(sigma=0.5).step(t=2, margin=1.0, dot=0.0, norm=4.0)
(2.0, 1.0)
>>> Simple(sigma=0.5).step(t=2, margin=1.0, dot=3.0, norm=4.0)  # there is no loss
(0.0, 0.0)
"""

from __future__ import annotations

from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.rule import Regularised, UpdateParams


class Simple(Regularised):
    """Dual ascent that sets the new multiplier to a subgradient: steps of 1 / sigma."""

    name = "simple"
    once = "whose steps may lower the dual"

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return c = 1 / sigma where there is a loss."""
        return (1.0 / params.sigma, 1.0) if margin > dot else (0.0, 0.0)
