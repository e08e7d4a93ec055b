"""Set-up of ADMM for the weighted rows of a model.

The penalty of a row for its copy of a variable is m_i |q_ij|, so that rounds do not depend on the size of
coefficients (Pock & Chambolle 2011, "Diagonal preconditioning for first order primal-dual algorithms"). For a
potential m_i is its absolute weight. For a constraint it is such that its penalties are, on average, the
sums of those that potentials have for its variables, or 1 where these are all 0; a lifted row then has the
penalties of the rows that it replaces. A squared prior towards 0 becomes a ridge of its variable instead
of a row, which halves the number of rounds.
"""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.psl.kernels import admm
from onlinesrl.psl.kernels.potentials import (
    AT_MOST,
    HINGE,
    PLAIN,
    HingeRows,
    clip,
    potential,
    slope,
    weight_of,
)

CONVEX, NOT_FINITE, NOT_CONVEX = 0, 1, 2


@kernel
def check(rows: HingeRows, weights: Floats) -> int:
    """Return CONVEX, or what is wrong with the weights of rows."""
    status = CONVEX
    for i in range(len(rows.kind)):
        if rows.kind[i] >= AT_MOST:
            continue
        weight = weights[rows.weight_index[i]]
        if not np.isfinite(weight):
            return NOT_FINITE
        if weight < 0.0 and (rows.power[i] == 2 or rows.kind[i] == HINGE):
            status = NOT_CONVEX
    return status


@kernel
def conjugate(rows: HingeRows, weights: Floats, i: int) -> tuple[float, float, float]:
    """Return low, high and curvature of row i (``psl.inference.dual``)."""
    weight, hinge = weight_of(rows, weights, i), rows.kind[i] == HINGE or rows.kind[i] == AT_MOST
    square = rows.power[i] == 2 and weight > 0.0
    free = square or np.isinf(weight)
    low = 0.0 if hinge else -np.inf if free else weight
    return low, np.inf if square else weight, 0.5 / weight if square else 0.0


@kernel
def conjugates(
    rows: HingeRows, weights: Floats, low: Floats, high: Floats, curvature: Floats
) -> None:
    """Set ``conjugate`` of every row."""
    for i in range(len(low)):
        low[i], high[i], curvature[i] = conjugate(rows, weights, i)


@kernel
def _is_ridge(rows: HingeRows, i: int) -> bool:
    """Return whether row i is w q^2 y^2 on [0, 1], a squared prior towards 0."""
    e = rows.start[i]
    return (
        rows.start[i + 1] == e + 1
        and rows.power[i] == 2
        and rows.constant[i] == 0.0
        and (rows.kind[i] == PLAIN or rows.coefficient[e] > 0.0)
    )


@kernel
def weigh(rows: HingeRows, weights: Floats, weight_sums: Floats, ridge: Floats) -> float:
    """Add the potentials' penalties to the ``weight_sums`` of their variables.

    Squared priors towards 0 are added to ``ridge`` instead. Returns an upper bound on the rows' energy
    over [0, 1]^n.
    """
    ceiling = 0.0
    for i in range(len(rows.constant)):
        if rows.kind[i] >= AT_MOST:
            continue
        weight = weights[rows.weight_index[i]]
        if _is_ridge(rows, i):
            added = weight * rows.coefficient[rows.start[i]] ** 2
            ridge[rows.variable[rows.start[i]]] += added
            ceiling += added
            continue
        top = bottom = rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            weight_sums[rows.variable[e]] += abs(weight * rows.coefficient[e])
            top += max(rows.coefficient[e], 0.0)
            bottom += min(rows.coefficient[e], 0.0)
        ceiling += max(potential(rows, weights, i, top), potential(rows, weights, i, bottom))
    return ceiling


@kernel
def _penalty(problem: admm.AdmmProblem, i: int, weight_sums: Floats) -> float:
    """Return m_i."""
    rows = problem.rows
    if rows.kind[i] < AT_MOST:
        return abs(problem.weights[rows.weight_index[i]])
    total = size = 0.0
    for e in range(rows.start[i], rows.start[i + 1]):
        total += weight_sums[rows.variable[e]]
        size += abs(rows.coefficient[e])
    return total / size if total > 0.0 else 1.0


@threaded
def expand(problem: admm.AdmmProblem, weight_sums: Floats) -> None:
    """Set the conjugates and steps of a problem; 0 for a ridge, whose row is unused."""
    rows, weights = problem.rows, problem.weights
    for i in range(len(rows.constant)):
        if _is_ridge(rows, i):
            problem.high[i] = problem.low[i] = problem.curvature[i] = problem.row_step[i] = 0.0
            continue
        problem.low[i], problem.high[i], problem.curvature[i] = conjugate(rows, weights, i)
        size = 0.0
        for e in range(rows.start[i], rows.start[i + 1]):
            size += abs(rows.coefficient[e])
        problem.row_step[i] = _penalty(problem, i, weight_sums) / size if size > 0.0 else 0.0


@threaded
def begin(
    problem: admm.AdmmProblem, iterate: admm.Iterate, weight_sums: Floats, resumes: bool
) -> None:
    """Set the duals to the slopes at ``iterate.y``, or, if it ``resumes``, clip the earlier ones.

    They are 0 for a ridge and initially for a constraint. Given ones of rows without variables, which no
    round changes, do not count. ``problem`` is expanded. Adds the duals to the gradient, and the rows'
    penalties to the degrees of their variables.
    """
    rows = problem.rows
    for i in range(len(rows.constant)):
        if _is_ridge(rows, i):
            iterate.dual[i] = 0.0
            continue
        penalty, form = _penalty(problem, i, weight_sums), rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            form += rows.coefficient[e] * iterate.y[rows.variable[e]]
            problem.degree[rows.variable[e]] += penalty * abs(rows.coefficient[e])
        keeps = resumes and problem.row_step[i] > 0.0
        u = iterate.dual[i] if keeps else 0.0
        if not keeps and rows.kind[i] < AT_MOST:
            u = slope(rows, problem.weights, i, form)
        u = clip(u, problem.low[i], problem.high[i])
        iterate.dual[i] = u
        admm.add_gradient(problem, i, u, iterate.gradient)


@kernel
def rescale(before: Floats, after: Floats, dual: Floats) -> None:
    """Multiply the dual of every row by what its penalties, and so its step, are multiplied by.

    Those of a potential go with its weight, so this keeps alpha / m, on which its copies depend. With
    alpha kept, copies would move though nothing but the weight has changed.
    """
    for i in range(len(before)):
        if before[i] > 0.0:
            dual[i] *= after[i] / before[i]


def free_variables(problem: admm.AdmmProblem) -> None:
    """Give variables in no row a degree, so that the bonus moves them."""
    problem.degree[(problem.degree == 0) & (problem.ridge == 0)] = 1.0


@kernel
def duals(problem: admm.AdmmProblem, iterate: admm.Iterate, out: Floats) -> None:
    """Set ``out`` [row] to the certificate's duals, given its gradient in ``iterate.ahead``.

    Rows that are ridges get the duals that give the same bound.
    """
    rows = problem.rows
    for i in range(len(rows.constant)):
        out[i] = clip(iterate.dual[i], problem.low[i], problem.high[i])
        if _is_ridge(rows, i):
            e = rows.start[i]
            j = rows.variable[e]
            ridge = problem.ridge[j]
            y = clip(-iterate.ahead[j] / (2.0 * ridge), 0.0, 1.0) if ridge > 0.0 else 0.0
            out[i] = slope(rows, problem.weights, i, rows.coefficient[e] * y)


@threaded
def set_up(
    problem: admm.AdmmProblem,
    iterate: admm.Iterate,
    weight_sums: Floats,
    before: Floats,
    resumes: bool,
) -> None:
    """Set up ADMM, given the weight sums of all rows: ``expand``, ``rescale`` and ``begin``.

    Given duals are those of the steps ``before`` [row]; empty: of the same.
    """
    expand(problem, weight_sums)
    rescale(before, problem.row_step, iterate.dual)
    begin(problem, iterate, weight_sums, resumes)


@kernel
def prepare(
    problem: admm.AdmmProblem,
    iterate: admm.Iterate,
    weight_sums: Floats,
    before: Floats,
    resumes: bool,
) -> float:
    """Set up ADMM for rows in memory: ``weigh`` and ``set_up`` in one call."""
    ceiling = weigh(problem.rows, problem.weights, weight_sums, problem.ridge)
    set_up(problem, iterate, weight_sums, before, resumes)
    return ceiling
