"""The rows of a hinge-loss model, as every kernel reads them, with weights beside them."""

from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

HINGE, PLAIN, AT_MOST, EQUAL = 0, 1, 2, 3
"""The kinds of a row: potentials max(l, 0)^p and l^p, constraints l <= 0 and l = 0."""


class HingeRows(Frame):
    """Linear forms in compressed rows; row i adds its weight times max(l, 0)^p or l^p, or is a constraint."""

    n_variables: int
    start: Ints  # [row + 1], of 32 bits on a page
    variable: Ints32  # [entry]
    coefficient: Floats  # [entry]
    constant: Floats  # [row]
    weight_index: Ints  # [row] the number of a potential's weight, -1 for a constraint
    power: Bytes  # [row] 1 or 2
    kind: Bytes  # [row]


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
def form(rows: HingeRows, i: int, y: Floats) -> float:
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
def weight_of(rows: HingeRows, weights: Floats, i: int) -> float:
    """Return the weight of row i, infinite for a constraint."""
    return np.inf if rows.kind[i] >= AT_MOST else weights[rows.weight_index[i]]


@kernel
def is_off(rows: HingeRows, i: int, at: float) -> bool:
    """Return whether the potential of row i, or the violation of a constraint, is 0 at l for its hinge."""
    return at <= 0.0 and (rows.kind[i] == HINGE or rows.kind[i] == AT_MOST)


@kernel
def potential(rows: HingeRows, weights: Floats, i: int, at: float) -> float:
    """Return w phi(l) of row i at l."""
    if is_off(rows, i, at):
        return 0.0
    return weight_of(rows, weights, i) * (at * at if rows.power[i] == 2 else at)


@kernel
def slope(rows: HingeRows, weights: Floats, i: int, at: float) -> float:
    """Return w phi'(l) of row i at l; 0 at the kink of a hinge."""
    if is_off(rows, i, at):
        return 0.0
    return weight_of(rows, weights, i) * (2.0 * at if rows.power[i] == 2 else 1.0)
