"""ADMM's rounds until the answer is certified, with a step size that balances the residuals."""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.jit import kernel
from onlinesrl.psl.kernels.admm import Iterate, Problem, certificate, rounds
from onlinesrl.psl.kernels.admm_rows import duals
from onlinesrl.psl.kernels.potentials import Potentials

CERTIFIED, OPEN, INFEASIBLE = 0, 1, 2
"""What a certificate proves: the answer good enough, nothing yet, or the constraints infeasible."""

RELAXATION = 1.6
"""Over-relaxation; Boyd et al. 2011, section 3.4.3, have 1.5 to 1.8."""

PERIOD = 10
"""Rounds from one certificate to the next."""

CHANGE = 5.0
"""The most that the step size grows or shrinks at once."""

GROWTH = 1.5
"""The rounds from one change of the step size to the next grow by this, so that it settles."""

ETA, ROUNDS, NEXT = 0, 1, 2
"""What ``control`` holds: the step size, the rounds done, and the round at which it next changes."""


@kernel
def balanced(values: float, duals: float, eta: float) -> float:
    """Return the new step size, given how far values and duals have moved with the one before.

    Both in the squared norm of the copies. It is the ratio of the duals' movement to the values': the
    one for which the dual residual eta |dy| and the primal residual |du| / eta are in balance where
    both shrink alike.
    """
    if values > 0.0 and duals > 0.0:
        return min(max(np.sqrt(duals / values), eta / CHANGE), eta * CHANGE)
    return eta


@kernel
def advance(
    problem: Problem, now: Iterate, y: Floats, dual: Floats, control: Floats, n: int
) -> None:
    """Do n rounds and adapt the step size where that is due; ``y`` and ``dual`` are working memory."""
    control[ROUNDS] += n
    due = control[ROUNDS] >= control[NEXT]
    if due:
        for j in range(len(y)):
            y[j] = now.y[j]
        for i in range(len(dual)):
            dual[i] = now.dual[i]
    rounds(problem, now, control[ETA], RELAXATION, n)
    if due:
        control[NEXT] = np.floor(GROWTH * control[ROUNDS])
        primal, moved = 0.0, 0.0
        for j in range(len(y)):
            primal += (now.y[j] - y[j]) ** 2 * problem.degree[j]
        for i in range(len(dual)):
            if now.dual[i] != dual[i]:  # not in a row without variables, whose row_step is 0
                moved += (now.dual[i] - dual[i]) ** 2 / problem.row_step[i]
        control[ETA] = balanced(primal, moved, control[ETA])


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
    """Return what a certificate proves; ``highest`` is an upper bound of the least energy.

    A lower bound above it, by more than the tolerance, shows that no values are feasible.
    """
    if bound > highest + tolerance * max(1.0, abs(highest)):
        return INFEASIBLE
    close = abs(energy - bound) + complementarity <= tolerance * max(1.0, abs(energy))
    return CERTIFIED if close and violation <= most_violation else OPEN


@kernel
def solve(
    rows: Potentials,
    problem: Problem,
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

    ``y`` and ``dual`` are working memory; ``dual`` ends as that of the answer. Returns the verdict,
    energy, bound and violation.
    """
    while True:
        advance(problem, now, y, dual, control, PERIOD)
        energy, bound, violation, rest = certificate(problem, now, now.ahead)
        found = verdict(energy, bound, violation, rest, highest, tolerance, most_violation)
        if found != OPEN or control[ROUNDS] >= most_rounds:
            duals(rows, problem, now, dual)
            return found, energy, bound, violation
