"""ADMM for hinge-loss MRFs (Bach et al. 2015, section 2; Boyd et al. 2011), without the copies.

The textbook keeps a copy ``v_ij`` and a multiplier ``alpha_ij`` of variable ``j`` for every row ``i``
that has it, and iterates v = prox(ybar - alpha / eta), ybar = clip(mean(v + alpha / eta), 0, 1),
alpha += eta (v - ybar). A row moves its copies along its coefficients only, v = ybar - alpha / eta -
(u / eta) q with one number ``u`` a row, so that after a round alpha = eta (ybar_old - ybar) - u q,
and the same iterates are

    ybar' = clip(ybar - (Q' u - bonus) / (eta d), 0, 1)
    u'    = prox(u + sigma (Q (2 ybar' - ybar) + c)),  sigma_i = eta / |q_i|^2

with ``d_j`` the number of rows that have variable ``j``. A penalty ``eta m_i`` for the copies of row
``i``, as here, makes that sigma_i = eta m_i / |q_i|^2 and d_j the sum of the ``m_i``.
Over-relaxation moves (ybar, u) by ``relaxation`` times that step; it converges for any in (0, 2) (He
& Yuan 2012). One pass over the entries a round, in order, so the same bits on every machine that
rounds alike.
"""

import numpy as np

from onlinesrl.arrays import Floats, Ints, Ints32
from onlinesrl.kernels.frames import Frame
from onlinesrl.kernels.jit import kernel


class Rows(Frame):
    """The problem: linear forms, their functions' conjugates, and a linear term.

    Row i adds max over low <= u <= high of u l - curvature u^2 / 2.
    """

    start: Ints | Ints32  # [row + 1]
    variable: Ints32  # [entry]
    coefficient: Floats  # [entry]
    constant: Floats  # [row]
    low: Floats  # [row]
    high: Floats  # [row]
    curvature: Floats  # [row]
    row_step: Floats  # [row] m / |q|^2, 0 for a row without variables
    degree: Floats  # [variable] d; it or the ridge is above 0
    bonus: Floats  # [variable] subtracted from the energy
    ridge: Floats  # [variable] the energy has ridge y^2


class Iterate(Frame):
    """The state, and memory for the next one."""

    y: Floats  # [variable] outside of [0, 1] by over-relaxation only
    dual: Floats  # [row]
    pull: Floats  # [variable] Q' dual - bonus
    ahead: Floats  # [variable] 2 ybar' - ybar


@kernel
def _within(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


@kernel
def _spread(rows: Rows, i: int, u: float, pull: Floats) -> None:
    """Add u q_i to the pull."""
    for e in range(rows.start[i], rows.start[i + 1]):
        pull[rows.variable[e]] += u * rows.coefficient[e]


@kernel
def move(rows: Rows, now: Iterate, eta: float, relaxation: float) -> None:
    """Do the variables' half of a round; the pull is then -bonus, and wants the rows' half."""
    for j in range(len(now.y)):
        weight = eta * rows.degree[j]
        moved = (weight * now.y[j] - now.pull[j]) / (weight + 2.0 * rows.ridge[j])
        step = _within(moved, 0.0, 1.0) - now.y[j]
        now.ahead[j] = now.y[j] + 2.0 * step
        now.y[j] += relaxation * step
        now.pull[j] = -rows.bonus[j]


@kernel
def answer(rows: Rows, now: Iterate, eta: float, relaxation: float) -> None:
    """Do the rows' half of a round, for all rows or for some: their duals, and their pull."""
    for i in range(len(rows.constant)):
        form = rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            form += rows.coefficient[e] * now.ahead[rows.variable[e]]
        sigma = eta * rows.row_step[i]
        u = (now.dual[i] + sigma * form) / (1.0 + sigma * rows.curvature[i])
        u = _within(u, rows.low[i], rows.high[i])
        now.dual[i] += relaxation * (u - now.dual[i])
        _spread(rows, i, now.dual[i], now.pull)


@kernel
def rounds(rows: Rows, now: Iterate, eta: float, relaxation: float, n: int) -> None:
    """Do n rounds with step size eta."""
    for _ in range(n):
        move(rows, now, eta, relaxation)
        answer(rows, now, eta, relaxation)


@kernel
def certificate(rows: Rows, now: Iterate, pull: Floats) -> tuple[float, float, float, float]:
    """Return of y clipped to [0, 1] and the dual: energy, lower bound, worst violation, and a price.

    The price is the sum over constraints of |u_i l_i|: what a violation may gain, and what a slack
    constraint's multiplier loses; ``energy + price - bound`` is never below 0.
    ``pull`` is memory, [variable].
    """
    for j in range(len(pull)):
        pull[j] = -rows.bonus[j]
    energy, bound, violation, price = tally(rows, now, pull)
    linear, least = ends(rows, now, pull)
    return energy + linear, bound + least, violation, price


@kernel
def ends(rows: Rows, now: Iterate, pull: Floats) -> tuple[float, float]:
    """Return the energy of bonus and ridge, and the least of pull . y and the ridge on [0, 1]^n."""
    energy, least = 0.0, 0.0
    for j in range(len(pull)):
        y, ridge = _within(now.y[j], 0.0, 1.0), rows.ridge[j]
        energy += (ridge * y - rows.bonus[j]) * y
        y = 1.0 if pull[j] < 0.0 else 0.0
        if ridge > 0.0:
            y = _within(-pull[j] / (2.0 * ridge), 0.0, 1.0)
        least += (pull[j] + ridge * y) * y
    return energy, least


@kernel
def tally(rows: Rows, now: Iterate, pull: Floats) -> tuple[float, float, float, float]:
    """Return the parts of the certificate that the rows, all or some, have; add theirs to the pull."""
    energy, bound, violation, price = 0.0, 0.0, 0.0, 0.0
    for i in range(len(rows.constant)):
        form = rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            form += rows.coefficient[e] * _within(now.y[rows.variable[e]], 0.0, 1.0)
        curvature = rows.curvature[i]
        slope = rows.high[i] if form > 0.0 else rows.low[i]
        if curvature > 0.0:
            slope = _within(form / curvature, rows.low[i], rows.high[i])
        u = _within(now.dual[i], rows.low[i], rows.high[i])
        if curvature == 0.0 and np.isinf(rows.high[i]):
            excess = abs(form) if np.isinf(slope) else 0.0
            violation = max(violation, excess)
            price += abs(u * form)
        else:
            energy += slope * form - 0.5 * curvature * slope * slope
        bound += u * rows.constant[i] - 0.5 * curvature * u * u
        _spread(rows, i, u, pull)
    return energy, bound, violation, price
