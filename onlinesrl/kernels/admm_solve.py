"""ADMM from a model and its weights to the answer in two calls: what counts where models are small.

The same as ``infer.admm.AdmmState`` step by step; see there, in ``infer.dual`` and in ``kernels.admm`` for
what the numbers mean.
"""

from typing import NamedTuple

import numpy as np

from onlinesrl.kernels.admm import Iterate, Rows, certificate, pulled, rounds
from onlinesrl.kernels.jit import inlined, kernel
from onlinesrl.kernels.network import Bytes, Floats, Ints

HINGE, PLAIN, AT_MOST, EQUAL = 0, 1, 2, 3
"""As in ``ground.hinges``."""

CERTIFIED, LIMIT, INFEASIBLE = 0, 1, 2
"""How it ended: with a proof, after its last round, or with a bound that nothing can be above."""


class Schedule(NamedTuple):
    """``infer.admm``'s constants, and when to end."""

    relaxation: float
    period: int
    growth: float
    change: float
    tolerance: float
    violation: float
    rounds: int


@inlined
def _conjugate(rows: Rows, i: int, kind: int, square: bool, weight: float) -> None:
    """Set low, high and curvature of a row."""
    hard = kind >= AT_MOST
    curved = square and weight > 0.0
    rows.low[i] = weight if kind == PLAIN and not square else 0.0
    if kind == EQUAL or (kind == PLAIN and curved):
        rows.low[i] = -np.inf
    rows.high[i] = np.inf if hard or curved else weight
    rows.curvature[i] = 0.5 / weight if curved else 0.0


@inlined
def _highest(rows: Rows, i: int, kind: int, square: bool, weight: float) -> float:
    """Return the most that a potential adds to the energy on [0, 1]^n."""
    top = bottom = rows.constant[i]
    for e in range(rows.start[i], rows.start[i + 1]):
        top += max(rows.coefficient[e], 0.0)
        bottom += min(rows.coefficient[e], 0.0)
    if kind == HINGE:
        top, bottom = max(top, 0.0), max(bottom, 0.0)
    if square:
        top, bottom = top * top, bottom * bottom
    return max(weight * top, weight * bottom)


@kernel
def prepare(
    rows: Rows,
    kind: Bytes,
    power: Bytes,
    weight_index: Ints,
    weights: Floats,
) -> tuple[float, float]:
    """Set low, high, curvature and row_step of all rows, and the variables' degrees (1: in no row).

    Returns what no energy is above, NaN where a weight is not allowed, and how far constraints without
    variables are from satisfied.
    """
    highest, excess, degree = 0.0, 0.0, rows.degree
    for j in range(len(degree)):
        degree[j] = 0.0
    for i in range(len(kind)):
        hard = kind[i] >= AT_MOST
        weight = 0.0 if hard else weights[weight_index[i]]
        square = power[i] == 2
        if not np.isfinite(weight) or (weight < 0.0 and (square or kind[i] == HINGE)):
            return np.nan, 0.0
        _conjugate(rows, i, kind[i], square, weight)
        if hard and rows.start[i] == rows.start[i + 1]:
            form = rows.constant[i]
            excess = max(excess, abs(form) if kind[i] == EQUAL else form)
        if not hard:
            highest += _highest(rows, i, kind[i], square, weight)
            for e in range(rows.start[i], rows.start[i + 1]):
                degree[rows.variable[e]] += abs(weight)
    for j in range(len(degree)):
        highest += max(-rows.bonus[j], 0.0)
    _penalties(rows, kind, weight_index, weights)
    for j in range(len(degree)):
        if degree[j] == 0.0:
            degree[j] = 1.0
    return highest, excess


@inlined
def _penalties(rows: Rows, kind: Bytes, weight_index: Ints, weights: Floats) -> None:
    """Set every row's step by its penalty, and add those of constraints to the degrees."""
    degree = rows.degree
    for i in range(len(kind)):
        if kind[i] >= AT_MOST:
            total = 0.0
            for e in range(rows.start[i], rows.start[i + 1]):
                total += degree[rows.variable[e]]
            rows.row_step[i] = total / max(rows.start[i + 1] - rows.start[i], 1)
            if total == 0.0:
                rows.row_step[i] = 1.0
        else:
            rows.row_step[i] = abs(weights[weight_index[i]])
    for i in range(len(kind)):
        norm = 0.0
        for e in range(rows.start[i], rows.start[i + 1]):
            norm += rows.coefficient[e] * rows.coefficient[e]
            if kind[i] >= AT_MOST:
                degree[rows.variable[e]] += rows.row_step[i]
        rows.row_step[i] = rows.row_step[i] / norm if norm > 0.0 else 0.0


@kernel
def begin(rows: Rows, now: Iterate, given: bool) -> None:
    """Set the duals to the slopes at the values, or ``given`` ones to within their ends."""
    for i in range(len(rows.constant)):
        slope = now.dual[i]
        if not given:
            form = rows.constant[i]
            for e in range(rows.start[i], rows.start[i + 1]):
                form += rows.coefficient[e] * now.y[rows.variable[e]]
            slope = rows.high[i] if form > 0.0 else rows.low[i]
            if rows.curvature[i] > 0.0:
                slope = form / rows.curvature[i]
            if not np.isfinite(slope):
                slope = 0.0
        now.dual[i] = min(max(slope, rows.low[i]), rows.high[i])
    pulled(rows, now)


@inlined
def _copy(source: Floats, target: Floats) -> None:
    for i in range(len(source)):
        target[i] = source[i]


@inlined
def _balanced(
    rows: Rows, now: Iterate, y: Floats, dual: Floats, eta: float, change: float
) -> float:
    """Return the step size that balances the movement since ``y`` and ``dual``."""
    primal, moved = 0.0, 0.0
    for j in range(len(y)):
        primal += (now.y[j] - y[j]) ** 2 * rows.degree[j]
    for i in range(len(dual)):
        if now.dual[i] != dual[i]:  # not in a row without variables, whose row_step is 0
            moved += (now.dual[i] - dual[i]) ** 2 / rows.row_step[i]
    if primal > 0.0 and moved > 0.0:
        return min(max(np.sqrt(moved) / np.sqrt(primal), eta / change), eta * change)
    return eta


@kernel
def solve(
    rows: Rows,
    now: Iterate,
    y: Floats,
    dual: Floats,
    highest: float,
    schedule: Schedule,
) -> tuple[int, int, float, float, float]:
    """Do rounds until the answer is certified, or shown not to be, or for the last time.

    ``y`` and ``dual`` are memory. Returns how it ended, the rounds, energy, bound and violation.
    """
    eta, n, due = 1.0, 0, schedule.period
    highest += schedule.tolerance * max(1.0, abs(highest))
    while True:
        n += schedule.period
        if n >= due:
            _copy(now.y, y)
            _copy(now.dual, dual)
        rounds(rows, now, eta, schedule.relaxation, schedule.period)
        if n >= due:
            due = int(schedule.growth * n)
            eta = _balanced(rows, now, y, dual, eta, schedule.change)
        energy, bound, violation, price = certificate(rows, now, now.ahead)
        if bound > highest:
            return INFEASIBLE, n, energy, bound, violation
        close = abs(energy - bound) + price <= schedule.tolerance * max(1.0, abs(energy))
        if close and violation <= schedule.violation:
            return CERTIFIED, n, energy, bound, violation
        if n >= schedule.rounds:
            return LIMIT, n, energy, bound, violation
