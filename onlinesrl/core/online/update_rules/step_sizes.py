"""The steps of online updates, see ``core.online.update_rule`` (Huynh & Mooney 2010, Algorithm 3)."""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

ASCENT, SHRINKING_ASCENT, SIMPLE, MARGIN, SUBGRADIENT, CONSTANT = 0, 1, 2, 3, 4, 5


class UpdateParams(Frame):
    """An update and its constants."""

    kind: int
    shrinks: bool  # each step shrinks all weights by (t - 1) / t
    rooted: bool  # it asks for the square root of the label loss
    sigma: float
    eta: float  # CONSTANT: the size of a step
    delta: float  # with rates: what is added to the norm of a weight's gaps
    square: Floats  # [weight] with rates: the sum of its squared gaps; else empty
    rates: bool

    @classmethod
    def _without(cls, values: dict[str, object]) -> tuple[str, ...]:
        return () if values["rates"] else ("rates",)


@kernel
def scale(shrinks: bool, t: int) -> float:
    """Return s_t: w_t = base + s_t u_t."""
    if not shrinks:
        return 1.0
    return 1.0 / (t - 1) if t > 1 else 0.0


@kernel
def required(rooted: bool, rho: float) -> float:
    """Return by how much the truth's score is to exceed that of a rival whose label loss is ``rho``."""
    return float(np.sqrt(rho)) if rooted else rho


@kernel
def divisor(delta: float, square: float) -> float:
    """Return H, what the steps of a weight are divided by, with rates; see ``core.online.adagrad``."""
    return delta + np.sqrt(square)


@kernel
def step(how: UpdateParams, t: int, margin: float, dot: float, norm: float) -> tuple[float, float]:
    """Return (c, alpha): the step on u, and the multiplier of the dual (0 where there is none).

    ``margin``, ``dot`` and ``norm`` are rho - <base, Delta>, <u, Delta> and ||Delta||^2 > 0.
    """
    sigma = how.sigma
    loss = margin - dot / t if how.kind == SHRINKING_ASCENT else margin - dot
    ratio = loss / norm if loss > 0.0 else 0.0
    if how.kind == SHRINKING_ASCENT:  # (t-1)/t <w_t, Delta> = <u_t, Delta> / t
        most = 1.0 / (sigma * t)
        least = ratio if ratio < most else most
        return t * least, sigma * t * least
    if how.kind == ASCENT:
        most = 1.0 / sigma
        least = ratio if ratio < most else most
        return least, sigma * least
    if how.kind == SIMPLE:
        return (1.0 / sigma, 1.0) if margin > dot else (0.0, 0.0)
    if how.kind == MARGIN:
        return ratio, 0.0
    if how.kind == SUBGRADIENT:
        return 1.0 / sigma, 1.0
    return how.eta, 0.0
