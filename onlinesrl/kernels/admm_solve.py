"""ADMM's rounds until the answer is certified, with a step size that balances the residuals."""

import numpy as np

from onlinesrl.arrays import Floats
from onlinesrl.kernels.admm import Iterate, Rows, certificate, rounds
from onlinesrl.kernels.jit import kernel

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
def advance(rows: Rows, now: Iterate, y: Floats, dual: Floats, control: Floats, n: int) -> None:
    """Do n rounds, and set the step size anew where it is time to; ``y`` and ``dual`` are memory."""
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
        primal, moved = 0.0, 0.0
        for j in range(len(y)):
            primal += (now.y[j] - y[j]) ** 2 * rows.degree[j]
        for i in range(len(dual)):
            if now.dual[i] != dual[i]:  # not in a row without variables, whose row_step is 0
                moved += (now.dual[i] - dual[i]) ** 2 / rows.row_step[i]
        control[ETA] = balanced(primal, moved, control[ETA])


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
