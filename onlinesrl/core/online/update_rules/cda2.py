"""Coordinate dual ascent, regularised at every step: CDA2 (Huynh & Mooney 2010, Algorithm 3).

>>> Cda2(sigma=0.5).step(t=2, margin=1.0, dot=0.0, norm=4.0)
(0.5, 0.25)
"""

from __future__ import annotations

from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.rule import Regularised, UpdateParams


class Cda2(Regularised):
    """Coordinate dual ascent, regularised at every step."""

    name = "cda2"
    shrinks = True
    moves = True

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return t times the step min(1 / (sigma t), loss / ||Delta||^2) on w, and sigma times this."""
        sigma = params.sigma
        loss, most = margin - dot / t, 1.0 / (sigma * t)  # (t-1)/t <w_t, Delta> = <u_t, Delta> / t
        ratio = loss / norm if loss > 0.0 else 0.0
        tau = ratio if ratio < most else most
        return t * tau, sigma * t * tau
