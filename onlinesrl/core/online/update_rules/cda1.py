"""Coordinate dual ascent, regularised once: CDA1 (Huynh & Mooney 2010, Algorithm 3).

>>> Cda1(sigma=0.5).step(t=3, margin=1.0, dot=0.0, norm=4.0)  # the loss by ||Delta||^2
(0.25, 0.125)
>>> Cda1(sigma=0.5).step(t=3, margin=9.0, dot=0.0, norm=3.0)  # at most 1 / sigma
(2.0, 1.0)
"""

from __future__ import annotations

from abc import ABC

from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.rule import Regularised, UpdateParams


class CoordinateAscent(Regularised, ABC):
    """An update that sets the dual multiplier of its example to the best value, no more than 1 / sigma."""

    moves = True

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return c = min(1 / sigma, loss / ||Delta||^2), and sigma c."""
        loss, most = margin - dot, 1.0 / params.sigma
        ratio = loss / norm if loss > 0.0 else 0.0
        c = ratio if ratio < most else most
        return c, params.sigma * c


class Cda1(CoordinateAscent):
    """Coordinate dual ascent, regularised once."""

    name = "cda1"
