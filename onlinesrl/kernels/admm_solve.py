"""ADMM from a model and its weights to the answer, compiled: what counts where models are small.

The penalty of a potential is its weight, without sign; that of a constraint what its variables' potentials
have together, on the average of its variables, or 1 where they have none. So it weighs as much as what
pulls at it, and lifted rows weigh as much as those that they stand for.
"""

import numpy as np

from onlinesrl.kernels.admm import Iterate, Rows, certificate, pulled, rounds
from onlinesrl.kernels.jit import inlined, kernel
from onlinesrl.kernels.network import Bytes, Floats, Ints

HINGE, PLAIN, AT_MOST, EQUAL = 0, 1, 2, 3
"""As in ``ground.hinges``."""

CERTIFIED, LIMIT, INFEASIBLE = 0, 1, 2
"""How it ended: with a proof, after its last round, or with a bound that nothing can be above."""

RELAXATION = 1.6
"""Of Boyd et al. 2011, section 3.4.3: 1.5 to 1.8."""

PERIOD = 10
"""Rounds between two looks at the certificate."""

CHANGE = 5.0
"""The most that the step size grows or shrinks at once."""

GROWTH = 1.5
"""The rounds from one change of the step size to the next grow by this, so that it settles."""

ETA, ROUNDS, NEXT = 0, 1, 2
"""What a control holds: the step size, the rounds so far, those at which it changes next."""


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
    """Set low, high, curvature and row_step of all rows, and the variables' degrees.

    Returns what no energy is above on [0, 1]^n, so that a lower bound beyond it proves infeasibility,
    or NaN where a weight is not allowed; and how far constraints without variables are from satisfied.
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


@kernel
def advance(rows: Rows, now: Iterate, y: Floats, dual: Floats, control: Floats, n: int) -> None:
    """Do n rounds, and set the step size anew where it is time to; ``y`` and ``dual`` are memory.

    It becomes the ratio of the duals' movement to the values' in these rounds, in the norms of the
    copies: the one for which the dual residual eta |dy| and the primal residual |du| / eta are in
    balance where both shrink alike.
    """
    control[ROUNDS] += n
    due = control[ROUNDS] >= control[NEXT]
    if due:
        for j in range(len(y)):
            y[j] = now.y[j]
        for i in range(len(dual)):
            dual[i] = now.dual[i]
    rounds(rows, now, control[ETA], RELAXATION, n)
    if due:
        control[NEXT] = np.floor(GROWTH * control[ROUNDS])
        primal, moved, eta = 0.0, 0.0, control[ETA]
        for j in range(len(y)):
            primal += (now.y[j] - y[j]) ** 2 * rows.degree[j]
        for i in range(len(dual)):
            if now.dual[i] != dual[i]:  # not in a row without variables, whose row_step is 0
                moved += (now.dual[i] - dual[i]) ** 2 / rows.row_step[i]
        if primal > 0.0 and moved > 0.0:
            control[ETA] = min(max(np.sqrt(moved / primal), eta / CHANGE), eta * CHANGE)


@kernel
def solve(
    rows: Rows,
    now: Iterate,
    y: Floats,
    dual: Floats,
    control: Floats,
    highest: float,
    tolerance: float,
    most_violation: float,
    most_rounds: float,
) -> tuple[int, float, float, float]:
    """Do rounds until the answer is certified, or cannot be, or there have been ``most_rounds``.

    ``y`` and ``dual`` are memory. Returns how it ended, energy, bound and violation.
    """
    highest += tolerance * max(1.0, abs(highest))
    while True:
        advance(rows, now, y, dual, control, PERIOD)
        energy, bound, violation, price = certificate(rows, now, now.ahead)
        if bound > highest:
            return INFEASIBLE, energy, bound, violation
        close = abs(energy - bound) + price <= tolerance * max(1.0, abs(energy))
        if close and violation <= most_violation:
            return CERTIFIED, energy, bound, violation
        if control[ROUNDS] >= most_rounds:
            return LIMIT, energy, bound, violation
