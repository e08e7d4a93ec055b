"""Samples of the values of a hinge-loss model: moves along given lines, each by slice sampling.

On a line the density ``exp(-energy)`` is log-concave, so the slices are intervals; drawing one by shrinkage
(Neal 2003, section 4) from all of the line's room leaves it as it is, without a step size.
"""

import math

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.random import Generator, uniform
from onlinesrl.psl.kernels.potentials import AT_MOST, HingeRows, potential

NARROW = 1e-12
"""A line with less room than this is not moved on."""
SHRINKAGES = 200
"""The most points that are tried on a line."""


class Lines(Frame):
    """Directions: ``amount`` of each ``variable``, which changes the forms of rows by ``slope``."""

    start: Ints  # [line + 1]
    variable: Ints  # [entry]
    amount: Floats  # [entry]
    first: Ints  # [line + 1] of rows
    row: Ints  # [place]
    slope: Floats  # [place]


@kernel
def sweep(
    rows: HingeRows, weights: Floats, lines: Lines, form: Floats, y: Floats, rng: Generator
) -> None:
    """Draw a point on each line in turn; ``form`` are those of the rows, with their constants."""
    for line in range(len(lines.start) - 1):
        low, high = room(rows, lines, line, form, y)
        if high - low > NARROW:
            move(lines, line, drawn(rows, weights, lines, line, form, low, high, rng), form, y)


@kernel
def room(rows: HingeRows, lines: Lines, line: int, form: Floats, y: Floats) -> tuple[float, float]:
    """Return how far values may move back and forth, by the box and by constraints ``l <= 0``."""
    low, high = -math.inf, math.inf
    for e in range(lines.start[line], lines.start[line + 1]):
        at, amount = y[lines.variable[e]], lines.amount[e]
        zero, one = -at / amount, (1.0 - at) / amount
        low, high = max(low, min(zero, one)), min(high, max(zero, one))
    for p in range(lines.first[line], lines.first[line + 1]):
        i = lines.row[p]
        if rows.kind[i] >= AT_MOST:
            end = max(-form[i], 0.0) / lines.slope[p]
            if end > 0.0 or lines.slope[p] > 0.0:
                high = min(high, end)
            else:
                low = max(low, end)
    return low, high


@kernel
def drawn(
    rows: HingeRows,
    weights: Floats,
    lines: Lines,
    line: int,
    form: Floats,
    low: float,
    high: float,
    rng: Generator,
) -> float:
    """Draw how far values move, from ``low < 0 < high``."""
    level = energy(rows, weights, lines, line, form, 0.0) - math.log(1.0 - uniform(rng))
    for _ in range(SHRINKAGES):
        step = low + uniform(rng) * (high - low)
        if energy(rows, weights, lines, line, form, step) <= level:
            return step
        if step < 0.0:
            low = step
        else:
            high = step
    return 0.0


@kernel
def energy(
    rows: HingeRows, weights: Floats, lines: Lines, line: int, form: Floats, step: float
) -> float:
    """Return the energy of the line's potentials where values have moved."""
    total = 0.0
    for p in range(lines.first[line], lines.first[line + 1]):
        i = lines.row[p]
        if rows.kind[i] < AT_MOST:
            total += potential(rows, weights, i, form[i] + step * lines.slope[p])
    return total


@kernel
def move(lines: Lines, line: int, step: float, form: Floats, y: Floats) -> None:
    """Move values along a line."""
    for e in range(lines.start[line], lines.start[line + 1]):
        j = lines.variable[e]
        y[j] = min(max(y[j] + step * lines.amount[e], 0.0), 1.0)
    for p in range(lines.first[line], lines.first[line + 1]):
        form[lines.row[p]] += step * lines.slope[p]
