"""Weights with their averages; an update touches only the non-zeros of its gap.

A weight is stored as base, u and v:

    w_t = base + s_t u_t,    mean of w_2 .. w_{T+1} = base + (S u - v) / T,    S = s_2 + .. + s_{T+1}

with s_t = 1, or 1 / (t - 1) for the updates that shrink all weights (see ``update_rules.rule``). Where each
base is 0, only u and v are stored.
"""

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

T, S, NORM, DUAL, PRIMAL, LOSS = 0, 1, 2, 3, 4, 5
"""The scalars beside the weights: the number T of updates, the sum S of s_2 .. s_{T+1}, and ||u||^2 in the
metric of the update; then three sums over the updates: alpha (rho - <base, Delta>), the regularised loss, and
the loss."""
HUGE = 1e150
"""The limit of sums in an update, so that squares and averages are finite."""


class Averaged(Frame):
    """The weights, and the gap of the current update."""

    value: Floats  # [weight, 3] base, u, v; or [weight, 2] u, v
    uses: Ints  # [weight] its number of updates; or [0]: they are not counted
    delta: Floats  # [place] the gap of each touched weight; 0 between updates
    mark: Ints32  # [weight] its place in ``delta``, from 1; 0: this update does not touch it
    touched: Ints  # [place] the weights that this update touches


@kernel
def add(w: Averaged, n: int, i: int, x: float) -> int:
    """Add x to the gap of weight i; ``n`` weights were touched before, and the new number is returned."""
    if not w.mark[i]:
        w.touched[n] = i
        n += 1
        w.mark[i] = n
    w.delta[w.mark[i] - 1] += x
    return n


@kernel
def u_column(w: Averaged) -> int:
    """Return the column of u in ``value``: 1 after the base, else 0."""
    return w.value.shape[1] - 2


@kernel
def measure(weights: Averaged, n: int, rho: float) -> tuple[float, float, float]:
    """Return rho - <base, Delta>, <u, Delta> and ||Delta||^2 of a gap that touches ``n`` weights."""
    margin, dot, norm, u = rho, 0.0, 0.0, u_column(weights)
    for j in range(n):
        i, delta = weights.touched[j], weights.delta[j]
        norm += delta * delta
        dot += weights.value[i, u] * delta
        if u > 0:
            margin -= weights.value[i, 0] * delta
    return margin, dot, norm


@kernel
def clear_gap(weights: Averaged, n: int) -> None:
    """Clear the gap, which touches ``n`` weights."""
    for j in range(n):
        weights.delta[j] = 0.0
        weights.mark[weights.touched[j]] = 0


@kernel
def move(weights: Averaged, n: int, c: float, s: float) -> bool:
    """Add c Delta to u and c s Delta to v, and clear the gap, which touches ``n`` weights.

    Returns False, and changes no weight, if one would not be finite.
    """
    value, u, fits = weights.value, u_column(weights), abs(c) <= HUGE
    for j in range(n):
        i, step = weights.touched[j], c * weights.delta[j]
        fits &= abs(value[i, u] + step) <= HUGE and abs(value[i, u + 1] + step * s) <= HUGE
    for j in range(n):
        i = weights.touched[j]
        if fits and c != 0.0 and weights.delta[j] != 0.0:
            step = c * weights.delta[j]
            value[i, u] += step
            value[i, u + 1] += step * s
            if len(weights.uses) > 0:
                weights.uses[i] += 1
        weights.delta[j] = 0.0
        weights.mark[i] = 0
    return fits
