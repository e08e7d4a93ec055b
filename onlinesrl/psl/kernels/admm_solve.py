"""The loop of ADMM until a certificate, with a step size that balances the residuals."""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.psl.kernels.admm import AdmmProblem, Iterate, certificate, rounds
from onlinesrl.psl.kernels.admm_rows import duals

CERTIFIED, OPEN, INFEASIBLE = 0, 1, 2
"""Verdicts: optimal within the tolerance, not yet known, or proved infeasible."""

RELAXATION = 1.6
"""Over-relaxation; Boyd et al. 2011, section 3.4.3, recommend 1.5 to 1.8."""

PERIOD = 10
"""Rounds between certificates."""

CHANGE = 5.0
"""The largest factor of one change of the step size."""

GROWTH = 1.5
"""The growth of the interval between changes of the step size, so that it settles."""

ETA, ROUNDS, NEXT = 0, 1, 2
"""Fields of ``control``: step size, rounds done, round of the next change of the step size."""


@kernel
def balanced(values: float, duals: float, eta: float) -> float:
    """Return the new step size, given the changes of values and duals with the old one.

    Both are squared norms over the local copies. The new step size is |du| / |dy|, which balances the
    dual residual eta |dy| and the primal residual |du| / eta. A change is limited to factor ``CHANGE``.
    Where only one of the two moves, it moves too slowly, and the change is as large.
    """
    if values > 0.0:
        return min(max(np.sqrt(duals / values), eta / CHANGE), eta * CHANGE)
    return eta * CHANGE if duals > 0.0 else eta


@threaded
def moved(before: Floats, after: Floats, row_step: Floats) -> float:
    """Return the squared norm, over the local copies, of the change of the rows' duals."""
    total = 0.0
    for i in range(len(before)):
        if after[i] != before[i]:  # a row without variables has row_step 0
            total += (after[i] - before[i]) ** 2 / row_step[i]
    return total


@kernel
def balance(
    problem: AdmmProblem, iterate: Iterate, y: Floats, duals: float, control: Floats
) -> None:
    """Change the step size, given the values before these rounds and how far the duals have ``moved``."""
    control[NEXT] = np.floor(GROWTH * control[ROUNDS])
    values = 0.0
    for j in range(len(y)):
        values += (iterate.y[j] - y[j]) ** 2 * problem.degree[j]
    control[ETA] = balanced(values, duals, control[ETA])


@kernel
def advance(
    problem: AdmmProblem, iterate: Iterate, y: Floats, dual: Floats, control: Floats, n: int
) -> None:
    """Do n rounds, and change the step size if due; ``y`` and ``dual`` are working memory."""
    control[ROUNDS] += n
    due = control[ROUNDS] >= control[NEXT]
    if due:
        for j in range(len(y)):
            y[j] = iterate.y[j]
        for i in range(len(dual)):
            dual[i] = iterate.dual[i]
    rounds(problem, iterate, control[ETA], RELAXATION, n)
    if due:
        balance(problem, iterate, y, moved(dual, iterate.dual, problem.row_step), control)


@kernel
def verdict(
    energy: float,
    bound: float,
    violation: float,
    complementarity: float,
    highest: float,
    tolerance: float,
    most_violation: float,
) -> int:
    """Return the verdict of a certificate; ``highest`` is an upper bound on the least energy.

    If the lower bound exceeds it by more than the tolerance, the constraints are infeasible.
    """
    if bound > highest + tolerance * max(1.0, abs(highest)):
        return INFEASIBLE
    close = abs(energy - bound) + complementarity <= tolerance * max(1.0, abs(energy))
    return CERTIFIED if close and violation <= most_violation else OPEN


@kernel
def solve(
    problem: AdmmProblem,
    iterate: Iterate,
    y: Floats,
    dual: Floats,
    control: Floats,
    highest: float,
    tolerance: float,
    most_violation: float,
    most_rounds: float,
) -> tuple[int, float, float, float]:
    """Do rounds until the verdict is not OPEN, or there have been ``most_rounds``.

    ``y`` and ``dual`` are working memory; ``dual`` is set to the dual of the answer. Returns verdict,
    energy, bound and violation.
    """
    while True:
        advance(problem, iterate, y, dual, control, PERIOD)
        energy, bound, violation, complementarity = certificate(problem, iterate, iterate.ahead)
        status = verdict(
            energy, bound, violation, complementarity, highest, tolerance, most_violation
        )
        if status != OPEN or control[ROUNDS] >= most_rounds:
            duals(problem, iterate, dual)
            return status, energy, bound, violation
