"""What ADMM makes of a model's rows; a row of infinite weight is a constraint.

A constraint with a hinge is l <= 0, one without is l = 0.

The penalty of a potential is its weight, without sign; that of a constraint what its variables' potentials
have together, on the average of its variables, or 1 where they have none. So it weighs as much as what
pulls at it, and lifted rows weigh as much as those that they stand for. A squared prior towards 0 is a
ridge of its variable, and no row: in about half as many rounds ADMM is as far.
"""

import numpy as np

from onlinesrl.arrays import Bytes, Floats, Ints
from onlinesrl.kernels import admm
from onlinesrl.kernels.jit import kernel
from onlinesrl.kernels.potentials import AT_MOST, HINGE, Rows, slope, within


@kernel
def describe(kind: Bytes, power: Bytes, weight_index: Ints, weights: Floats, rows: Rows) -> bool:
    """Set weight, hinge and square of a model's rows; tell whether every row is convex."""
    for i in range(len(kind)):
        hard, square = kind[i] >= AT_MOST, power[i] == 2
        weight = np.inf if hard else weights[weight_index[i]]
        if not hard and not np.isfinite(weight):
            return False
        if weight < 0.0 and (square or kind[i] == HINGE):
            return False
        rows.weight[i] = weight
        rows.hinge[i] = kind[i] == HINGE or kind[i] == AT_MOST
        rows.square[i] = square
    return True


@kernel
def _is_ridge(rows: Rows, i: int) -> bool:
    """Tell whether row i is w q^2 y^2 on [0, 1]: a squared prior towards 0."""
    e = rows.start[i]
    return (
        rows.start[i + 1] == e + 1
        and rows.square[i] != 0
        and rows.constant[i] == 0.0
        and (rows.hinge[i] == 0 or rows.coefficient[e] > 0.0)
    )


@kernel
def weigh(rows: Rows, pulls: Floats, ridge: Floats) -> float:
    """Add the potentials' weights, without sign, to their variables' ``pulls``.

    Those that are a ``ridge`` go there instead, and ADMM passes them by. Returns what the rows'
    energy is not above on [0, 1]^n.
    """
    ceiling = 0.0
    for i in range(len(rows.constant)):
        weight = rows.weight[i]
        if np.isinf(weight):
            continue
        if _is_ridge(rows, i):
            added = weight * rows.coefficient[rows.start[i]] ** 2
            ridge[rows.variable[rows.start[i]]] += added
            ceiling += added
            continue
        top = bottom = rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            pulls[rows.variable[e]] += abs(weight)
            top += max(rows.coefficient[e], 0.0)
            bottom += min(rows.coefficient[e], 0.0)
        ceiling += max(_potential(rows, i, top), _potential(rows, i, bottom))
    return ceiling


@kernel
def _potential(rows: Rows, i: int, at: float) -> float:
    """Return w phi(l) of row i at l."""
    if at <= 0.0 and rows.hinge[i] != 0:
        return 0.0
    return rows.weight[i] * (at * at if rows.square[i] else at)


@kernel
def _penalty(rows: Rows, i: int, pulls: Floats) -> float:
    """Return the penalty m_i before the step size."""
    weight = abs(rows.weight[i])
    if np.isfinite(weight):
        return weight
    total = 0.0
    for e in range(rows.start[i], rows.start[i + 1]):
        total += pulls[rows.variable[e]]
    mean = total / max(rows.start[i + 1] - rows.start[i], 1)
    return mean if mean > 0.0 else 1.0


@kernel
def expand(rows: Rows, pulls: Floats, to: admm.Rows) -> None:
    """Set the conjugates (``infer.dual``) and the steps of ``to`` from weights and kinds.

    Those of a ridge are 0, as of a row that is not there.
    """
    for i in range(len(rows.constant)):
        if _is_ridge(rows, i):
            to.high[i] = to.low[i] = to.curvature[i] = to.row_step[i] = 0.0
            continue
        weight, hinge = rows.weight[i], rows.hinge[i] != 0
        square = rows.square[i] != 0 and weight > 0.0
        to.high[i] = np.inf if square else weight
        free = square or np.isinf(weight)
        to.low[i] = 0.0 if hinge else -np.inf if free else weight
        to.curvature[i] = 0.5 / weight if square else 0.0
        norm = 0.0
        for e in range(rows.start[i], rows.start[i + 1]):
            norm += rows.coefficient[e] ** 2
        to.row_step[i] = _penalty(rows, i, pulls) / norm if norm > 0.0 else 0.0


@kernel
def begin(
    rows: Rows, pulls: Floats, of: admm.Rows, now: admm.Iterate, degrees: Floats, given: bool
) -> None:
    """Set the duals to the slopes at ``now.y``, or bring ``given`` ones within their ends.

    They are 0 for a ridge, and for a constraint that has none yet. ``of`` are the expanded rows. Adds the
    duals to the pull, and the rows' penalties to their variables' ``degrees``.
    """
    for i in range(len(rows.constant)):
        if _is_ridge(rows, i):
            now.dual[i] = 0.0
            continue
        penalty, at = _penalty(rows, i, pulls), rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            at += rows.coefficient[e] * now.y[rows.variable[e]]
            degrees[rows.variable[e]] += penalty
        u = now.dual[i] if given else 0.0
        if not given and not np.isinf(rows.weight[i]):
            u = slope(rows, i, at)
        u = min(max(u, of.low[i]), of.high[i])
        now.dual[i] = u
        for e in range(rows.start[i], rows.start[i + 1]):
            now.pull[rows.variable[e]] += u * rows.coefficient[e]


@kernel
def ridge_duals(rows: Rows, ridge: Floats, pull: Floats, dual: Floats) -> None:
    """Set the duals of ridges, so that they bound the energy as the ridges do, given the others' pull."""
    for i in range(len(rows.constant)):
        if _is_ridge(rows, i):
            e = rows.start[i]
            j = rows.variable[e]
            y = within(-pull[j] / (2.0 * ridge[j])) if ridge[j] > 0.0 else 0.0
            dual[i] = slope(rows, i, rows.coefficient[e] * y)
