"""The subgradient method with the step 1 / (sigma t) on w (Ratliff, Bagnell & Zinkevich 2007).

>>> Subgradient(sigma=0.5).step(t=2, margin=1.0, dot=0.0, norm=4.0)
(2.0, 1.0)
"""

from __future__ import annotations

from typing import Literal

from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.rule import Regularised, UpdateParams


class Subgradient(Regularised):
    """The subgradient method with the step 1 / (sigma t) (Ratliff, Bagnell & Zinkevich 2007)."""

    name = "subgradient"
    loss: Literal["ml"] = "ml"
    shrinks = True
    once = "whose steps shrink by the number of examples so far"

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return c = 1 / sigma: u = (t - 1) w, so that the step on w is 1 / (sigma t)."""
        return 1.0 / params.sigma, 1.0
