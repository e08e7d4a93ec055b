"""Weights with their averages; an update touches only the non-zeros of its gap.

A weight is kept as base, u and v:

    w_t = base + s_t u_t,    mean of w_2 .. w_{T+1} = base + (S u - v) / T,    S = s_2 + .. + s_{T+1}

with s_t = 1, or 1 / (t - 1) for the updates that shrink all weights (online-learning.md).
"""

from onlinesrl.core.arrays import Bytes, Floats, Ints
from onlinesrl.core.kernels.frames import Frame
from onlinesrl.core.kernels.jit import kernel

HUGE = 1e150  # the limit of sums in an update, so that squares and averages are finite


class Averaged(Frame):
    """The weights, and the gap of the current update."""

    value: Floats  # [weight, 3] base, u, v
    uses: Ints  # [weight] number of updates
    delta: Floats  # [weight] working memory, 0 between updates
    mark: Bytes  # [weight] working memory, 1: touched by this update
    touched: Ints  # [weight] working memory


@kernel
def add(w: Averaged, n: int, i: int, x: float) -> int:
    """Add to the gap of weight i; returns the number of weights touched."""
    if not w.mark[i]:
        w.mark[i] = 1
        w.touched[n] = i
        n += 1
    w.delta[i] += x
    return n


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
    """Add c Delta to u and c s Delta to v, and clear the gap, which touches ``n`` weights.

    Returns False, and changes no weight, if one would not be finite.
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
