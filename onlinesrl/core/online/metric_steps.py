"""Steps in a metric of the weights: in the units of their numbers, and divided by AdaGrad's rates.

In models with numbers as evidence, a weight has a unit s, a power of ten near the root mean square of the
numbers by which its ground clauses count. An update works on features divided by s, and on weights times s
(as Ross, Mineiro & Langford 2013, algorithm NG, whose s is the largest number). So numbers of other units
change weights and no prediction, up to rounding where the change is a power of ten. Numbers near one have the
unit 1, in which nothing changes. A certificate is for weights that are fixed in units.

 - The mean square of numbers in units is over all examples, and after MEMORY ones forgets: the share of a
   number is 1 / MEMORY. So it is at once where the first number is one unit, as that of what is or is not.
   While the mean is within 1 / OFF^2 and OFF^2 the unit stays, else it becomes the power of ten nearest to
   the root. The weight in units stays.
 - A number is an outlier beyond MOST units, or MOST root mean squares where these are larger. It counts as
   so many in the mean, and its example as much less as the gap of its weight exceeds them, so that no step
   is long. The loss that is reported is that of the whole example.

Weights of features that a network's ground clauses count have units of their own; those of a feature and the
labels of a chain share one.
"""

import numpy as np

from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.core.kernels.averaging import HUGE, Averaged, u_column
from onlinesrl.core.online.update_rules.rule import UpdateParams

MEMORY, OFF, MOST = 100.0, 5.0, 10.0
ROUNDING = 1e-9
SMALLEST = 1e-100
"""The least number that tells a unit, and 1 by the largest one."""


@kernel_of("units", 1.0)
def unit(params: UpdateParams, i: int) -> float:
    """Return the unit s of weight i; 1 before it has one."""
    s = params.unit[i // params.sharing] if len(params.unit) > 0 else 0.0
    return float(s) if s > 0.0 else 1.0


@kernel
def power_of_ten(x: float) -> float:
    """Return the power of ten nearest to x > 0."""
    return float(10.0 ** np.round(np.log10(min(max(x, SMALLEST), 1.0 / SMALLEST))))


@kernel
def add_number(params: UpdateParams, p: int, x: float) -> float:
    """Add a number x > 0 of the example at hand to those of unit p; return as how much it counts.

    It is no outlier before there is a unit.
    """
    s, size = params.unit[p], x
    if s > 0.0:
        size = min(x, MOST * s * np.sqrt(max(params.mean_square[p], 1.0)))
    params.numbers[p, 0] += size * size
    params.numbers[p, 1] += 1.0
    return float(size)


@kernel
def shorten(weights: Averaged, params: UpdateParams, i: int, most: float) -> None:
    """Let the example count as much less as the gap of weight i exceeds ``most``, if it does."""
    if weights.mark[i]:
        gap = abs(weights.delta[weights.mark[i] - 1])
        params.share[0] = min(params.share[0], most / gap)


@kernel
def root_mean_square(params: UpdateParams, p: int) -> float:
    """Return the root mean square of the example's numbers of unit p."""
    return float(np.sqrt(params.numbers[p, 0] / params.numbers[p, 1]))


@kernel
def begin(params: UpdateParams, p: int) -> None:
    """Let unit p begin with the example's numbers, if it has some and there is none so far."""
    if params.unit[p] == 0.0 and params.numbers[p, 1] > 0.0:
        params.unit[p] = power_of_ten(root_mean_square(params, p))


@kernel
def note(weights: Averaged, params: UpdateParams, p: int, learned: bool) -> None:
    """Let the example's numbers count in the mean of unit p, if it was ``learned`` from; clear them."""
    if params.numbers[p, 1] > 0.0:
        if learned:
            _count(weights, params, p, root_mean_square(params, p))
        elif params.examples[p] == 0.0:
            params.unit[p] = 0.0
        params.numbers[p, :] = 0.0


@kernel
def _count(weights: Averaged, params: UpdateParams, p: int, x: float) -> None:
    """Let ``x`` count in the mean of unit p, which changes if that is far off.

    The unit of a weight with a start stays where parts of the dual are moved, as these are in it.
    """
    s, u, first = params.unit[p], u_column(weights), p * params.sharing
    square = x * x / (s * s)
    if params.examples[p] == 0.0:
        params.examples[p] = MEMORY if abs(square - 1.0) < ROUNDING else 1.0
    else:
        params.examples[p] = min(params.examples[p] + 1.0, MEMORY)
        square = params.mean_square[p] + (square - params.mean_square[p]) / params.examples[p]
    stays = u > 0 and weights.value[first, 0] != 0.0 and len(params.block.index) > 0
    if not (stays or 1.0 / OFF**2 <= square <= OFF**2):
        params.unit[p] = power_of_ten(s * np.sqrt(square))
        share = s / params.unit[p]
        for i in range(first, first + params.sharing):
            weights.value[i, u] *= share
            weights.value[i, u + 1] *= share
        square *= share * share
    params.mean_square[p] = square


@kernel_of("units", 1.0)
def divide(weights: Averaged, params: UpdateParams, n: int) -> float:
    """Divide the gap of ``n`` weights by their units; return how much its example counts."""
    share = params.share[0]
    for j in range(n):
        weights.delta[j] *= share / unit(params, weights.touched[j])
    return float(share)


@kernel
def rate(params: UpdateParams, i: int, delta: float) -> float:
    """Return H of weight i, after a step along ``delta``: 1 without AdaGrad's rates."""
    if len(params.square) == 0:
        return 1.0
    divided: float = params.constant + np.sqrt(params.square[i] + delta * delta)
    return divided


@kernel_of("metric", (0.0, 0.0, 0.0, 0.0, 0.0))
def measure_by_metric(
    weights: Averaged, params: UpdateParams, n: int, rho: float
) -> tuple[float, float, float, float, float]:
    """Measure a gap in units, and in the new metric H, which includes the gap.

    Returns rho - <base, Delta>, <u, Delta>, ||Delta||^2 in H^-1, <u, Delta> of the rescaled u, and the change
    of ||u||^2 by the new metric.
    """
    margin, dot, norm, moved, rescaled = rho, 0.0, 0.0, 0.0, 0.0
    column = u_column(weights)
    for j in range(n):
        i, d = weights.touched[j], weights.delta[j]
        s = unit(params, i)
        u = weights.value[i, column] * s
        old, new = rate(params, i, 0.0), rate(params, i, d)
        if column > 0:
            margin -= weights.value[i, 0] * s * d
        dot += u * d
        norm += d * d / new
        moved += u * old / new * d
        rescaled += u * u * old * (old / new - 1.0)
    return margin, dot, norm, moved, rescaled


@kernel_of("metric", False)
def move_by_metric(weights: Averaged, params: UpdateParams, n: int, c: float, s: float) -> bool:
    """Set u = H_old / H u + c Delta / H, update v, and clear the gap; False: u would not be finite."""
    value, column, fits = weights.value, u_column(weights), abs(c) <= HUGE
    for j in range(n):
        i = weights.touched[j]
        v, step = abs(value[i, column + 1]), abs(c * weights.delta[j]) / unit(params, i)
        fits &= step <= HUGE and v + s * HUGE <= HUGE * HUGE
    for j in range(n):
        i, d = weights.touched[j], weights.delta[j]
        if fits and c != 0.0 and d != 0.0:
            old, new = rate(params, i, 0.0), rate(params, i, d)
            u = value[i, column] * unit(params, i)
            change = (u * old / new + c * d / new - u) / unit(params, i)
            value[i, column] += change
            value[i, column + 1] += change * s
            if len(params.square) > 0:
                params.square[i] += d * d
            if len(weights.uses) > 0:
                weights.uses[i] += 1
        weights.delta[j] = 0.0
        weights.mark[i] = 0
    return fits
