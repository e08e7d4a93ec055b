"""The weighted potentials of a hinge-loss model, as TRON, SGD and ADMM read them."""

from typing import NamedTuple

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

HINGE, PLAIN, AT_MOST, EQUAL = 0, 1, 2, 3
"""The kinds of a row: potentials max(l, 0)^p and l^p, constraints l <= 0 and l = 0."""


class Potentials(Frame):
    """Weighted rows; row i adds w max(l, 0)^p to the energy, or w l^p without hinge.

    A row of infinite weight is a constraint: l <= 0 with hinge, l = 0 without.
    """

    start: Ints | Ints32  # [row + 1]
    variable: Ints32  # [entry]
    coefficient: Floats  # [entry]
    constant: Floats  # [row]
    weight: Floats  # [row]
    hinge: Bytes  # [row] whether with max
    square: Bytes  # [row] whether the power is 2
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
def form(rows: Potentials, i: int, y: Floats) -> float:
    """Return the linear part q . y of row i."""
    total = 0.0
    for e in range(rows.start[i], rows.start[i + 1]):
        total += rows.coefficient[e] * y[rows.variable[e]]
    return total


@kernel
def clip(x: float, low: float, high: float) -> float:
    """Return the nearest number in [low, high]."""
    return min(max(x, low), high)


@kernel
def potential(rows: Potentials, i: int, at: float) -> float:
    """Return w phi(l) of row i at l."""
    if at <= 0.0 and rows.hinge[i] != 0:
        return 0.0
    return rows.weight[i] * (at * at if rows.square[i] else at)


@kernel
def slope(rows: Potentials, i: int, at: float) -> float:
    """Return w phi'(l) of row i at l; 0 at the kink of a hinge."""
    if at <= 0.0 and rows.hinge[i] != 0:
        return 0.0
    return rows.weight[i] * (2.0 * at if rows.square[i] else 1.0)


@kernel
def energy(rows: Potentials, g: Range, y: Floats) -> float:
    """Return f(y)."""
    total = rows.ridge * dot(y, y, g) - dot(rows.bonus, y, g)
    for i in range(g.first, g.last):
        total += potential(rows, i, rows.constant[i] + form(rows, i, y))
    return total
