"""The 1-best margin infused relaxed algorithm (Crammer et al. 2005).

>>> Mira().step(t=2, margin=1.0, dot=0.0, norm=4.0)
(0.25, 0.0)
"""

from __future__ import annotations

from typing import Literal

from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.rule import Update, UpdateParams


class Mira(Update):
    """The 1-best margin infused relaxed algorithm (Crammer et al. 2005)."""

    name = "mira"
    loss: Literal["pl"] = "pl"

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return c = loss / ||Delta||^2."""
        loss = margin - dot
        return (loss / norm if loss > 0.0 else 0.0), 0.0
