"""The energy of potentials that have a slope: what TRON and SGD read of a hinge-loss model."""

from typing import NamedTuple

from onlinesrl.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.kernels.frames import Frame
from onlinesrl.kernels.jit import kernel

HINGE, PLAIN, AT_MOST, EQUAL = 0, 1, 2, 3
"""The kinds of a row: potentials max(l, 0)^p and l^p, constraints l <= 0 and l = 0."""


class Rows(Frame):
    """The energy; row i adds w max(l, 0)^p, or w l^p without hinge."""

    start: Ints | Ints32  # [row + 1]
    variable: Ints32  # [entry]
    coefficient: Floats  # [entry]
    constant: Floats  # [row]
    weight: Floats  # [row]
    hinge: Bytes  # [row] with max
    square: Bytes  # [row] power 2, not 1
    bonus: Floats  # [variable]
    ridge: float


class Range(NamedTuple):
    """A micrograph: its variables low .. high - 1, its rows first .. last - 1."""

    low: int
    high: int
    first: int
    last: int


@kernel
def dot(a: Floats, b: Floats, g: Range) -> float:
    """Return a . b over the micrograph's variables."""
    total = 0.0
    for j in range(g.low, g.high):
        total += a[j] * b[j]
    return total


@kernel
def form(rows: Rows, i: int, y: Floats) -> float:
    """Return the linear part q . y of row i."""
    total = 0.0
    for e in range(rows.start[i], rows.start[i + 1]):
        total += rows.coefficient[e] * y[rows.variable[e]]
    return total


@kernel
def within(x: float) -> float:
    """Return the nearest number in [0, 1]."""
    return min(max(x, 0.0), 1.0)


@kernel
def slope(rows: Rows, i: int, at: float) -> float:
    """Return w phi'(l) of row i at l; 0 at the kink of a hinge."""
    if at <= 0.0 and rows.hinge[i] != 0:
        return 0.0
    return rows.weight[i] * (2.0 * at if rows.square[i] else 1.0)


@kernel
def energy(rows: Rows, g: Range, y: Floats) -> float:
    """Return f(y)."""
    total = rows.ridge * dot(y, y, g) - dot(rows.bonus, y, g)
    for i in range(g.first, g.last):
        at = rows.constant[i] + form(rows, i, y)
        if at > 0.0 or rows.hinge[i] == 0:
            total += rows.weight[i] * (at * at if rows.square[i] else at)
    return total
