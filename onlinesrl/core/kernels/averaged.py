"""Weights with their averages, moved along gaps: an update touches the non-zeros of its gap only.

A weight is kept as base, u and v:

    w_t = base + s_t u_t,    mean of w_2 .. w_{T+1} = base + (S u - v) / T,    S = s_2 + .. + s_{T+1}

with s_t = 1, or 1 / (t - 1) for the updates that shrink all weights (online-learning.md).
"""

from onlinesrl.core.arrays import Bytes, Floats, Ints
from onlinesrl.core.kernels.frames import Frame
from onlinesrl.core.kernels.jit import kernel

HUGE = 1e150  # no sum of an update may be larger, so that its squares and averages are finite too


class Averaged(Frame):
    """The weights, and the gap that an update is made along."""

    value: Floats  # [weight, 3] base, u, v
    uses: Ints  # [weight] updates it took part in
    delta: Floats  # [weight] scratch, all zero between updates
    mark: Bytes  # [weight] scratch, 1: touched by this update
    touched: Ints  # [weight] scratch


@kernel
def measure(weights: Averaged, n: int, rho: float) -> tuple[float, float, float]:
    """Return rho - <base, Delta>, <u, Delta> and ||Delta||^2 of a gap that touches ``n`` weights."""
    margin, dot, norm = rho, 0.0, 0.0
    for j in range(n):
        i = weights.touched[j]
        delta = weights.delta[i]
        norm += delta * delta
        dot += weights.value[i, 1] * delta
        margin -= weights.value[i, 0] * delta
    return margin, dot, norm


@kernel
def move(weights: Averaged, n: int, c: float, s: float) -> bool:
    """Make u += c Delta, v += c s Delta, and forget the gap, which touches ``n`` weights.

    False, with nothing changed: some weight would not be finite.
    """
    value, fits = weights.value, abs(c) <= HUGE
    for j in range(n):
        i = weights.touched[j]
        step = c * weights.delta[i]
        fits &= abs(value[i, 1] + step) <= HUGE and abs(value[i, 2] + step * s) <= HUGE
    for j in range(n):
        i = weights.touched[j]
        if fits and c != 0.0 and weights.delta[i] != 0.0:
            step = c * weights.delta[i]
            value[i, 1] += step
            value[i, 2] += step * s
            weights.uses[i] += 1
        weights.delta[i] = 0.0
        weights.mark[i] = 0
    return fits
