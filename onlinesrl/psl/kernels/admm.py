"""ADMM for hinge-loss MRFs (Bach et al. 2015, section 2; Boyd et al. 2011), without local copies.

Consensus ADMM has a local copy ``v_ij`` and a multiplier ``alpha_ij`` of variable ``j`` for every row
``i`` that contains it, and iterates v = prox(ybar - alpha / eta), ybar = clip(mean(v + alpha / eta), 0, 1),
alpha += eta (v - ybar). A row moves its copies only along its coefficients q: v = ybar - alpha / eta -
(u / eta) q with one dual ``u`` per row. After a round alpha = eta (ybar_old - ybar) - u q, so the same
iterates are

    ybar' = clip(ybar - (Q' u - bonus) / (eta d), 0, 1)
    u'    = prox(u + sigma (Q (2 ybar' - ybar) + c)),  sigma_i = eta / |q_i|^2

with ``d_j`` the number of rows that contain variable ``j``. Here the copy ``v_ij`` has the penalty
``eta m_ij``, so 1 / sigma_i is the sum of q_ij^2 / (eta m_ij), and d_j that of the ``m_ij``.
Over-relaxation multiplies the step of (ybar, u) by ``relaxation`` and converges for values in (0, 2)
(He & Yuan 2012). A round is one pass over the entries, in order, so that results are deterministic.
"""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.psl.kernels.potentials import HingeRows, clip

BLOCK = 4096
"""Rows, or variables, of a block: work is divided among threads by blocks."""


class AdmmProblem(Frame):
    """Weighted rows, the conjugates of the functions of their forms, and separable terms of variables.

    Row i adds max over low <= u <= high of u l - curvature u^2 / 2 (``psl.inference.dual``).
    """

    rows: HingeRows
    weights: Floats
    low: Floats  # [row]
    high: Floats  # [row]
    curvature: Floats  # [row]
    row_step: Floats  # [row] sigma / eta, 0 for a row without variables
    degree: Floats  # [variable] d; it or the ridge is above 0
    bonus: Floats  # [variable] subtracted from the energy
    ridge: Floats  # [variable] the energy has ridge y^2


class Iterate(Frame):
    """The state, and working memory."""

    y: Floats  # [variable] outside [0, 1] only by over-relaxation
    dual: Floats  # [row]
    gradient: Floats  # [variable] of the Lagrangian's linear part: Q' dual - bonus
    ahead: Floats  # [variable] 2 ybar' - ybar


@kernel
def add_gradient(problem: AdmmProblem, i: int, u: float, gradient: Floats) -> None:
    """Add u q_i to the gradient."""
    rows = problem.rows
    for e in range(rows.start[i], rows.start[i + 1]):
        gradient[rows.variable[e]] += u * rows.coefficient[e]


@kernel
def x_step(
    problem: AdmmProblem, iterate: Iterate, j: int, gradient: float, eta: float, relaxation: float
) -> None:
    """Update y_j."""
    weight = eta * problem.degree[j]
    moved = (weight * iterate.y[j] - gradient) / (weight + 2.0 * problem.ridge[j])
    step = clip(moved, 0.0, 1.0) - iterate.y[j]
    iterate.ahead[j] = iterate.y[j] + 2.0 * step
    iterate.y[j] += relaxation * step


@kernel
def x_update(problem: AdmmProblem, iterate: Iterate, eta: float, relaxation: float) -> None:
    """Update y, the first half of a round; resets the gradient to -bonus for the dual update."""
    for j in range(len(iterate.y)):
        x_step(problem, iterate, j, iterate.gradient[j], eta, relaxation)
        iterate.gradient[j] = -problem.bonus[j]


@threaded
def dual_update(problem: AdmmProblem, iterate: Iterate, eta: float, relaxation: float) -> None:
    """Update the duals of all rows or of a page, the second half of a round, and add to the gradient."""
    rows = problem.rows
    for i in range(len(rows.constant)):
        form = rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            form += rows.coefficient[e] * iterate.ahead[rows.variable[e]]
        sigma = eta * problem.row_step[i]
        u = (iterate.dual[i] + sigma * form) / (1.0 + sigma * problem.curvature[i])
        u = clip(u, problem.low[i], problem.high[i])
        iterate.dual[i] += relaxation * (u - iterate.dual[i])
        add_gradient(problem, i, iterate.dual[i], iterate.gradient)


@kernel
def rounds(problem: AdmmProblem, iterate: Iterate, eta: float, relaxation: float, n: int) -> None:
    """Do n rounds with step size eta."""
    for _ in range(n):
        x_update(problem, iterate, eta, relaxation)
        dual_update(problem, iterate, eta, relaxation)


@kernel
def copied(
    problem: AdmmProblem,
    iterate: Iterate,
    before: Floats,
    eta: float,
    relaxation: float,
    form: Floats,
) -> None:
    """Set ``form`` [row] to the forms at the local copies of the last round, done with step size eta.

    That of row i, by Moreau's identity, is its form at ``iterate.ahead`` plus (u - u') / sigma, where u was
    ``before``; without a penalty its form at y.
    """
    rows = problem.rows
    for i in range(len(form)):
        sigma = eta * problem.row_step[i]
        form[i] = rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            j = rows.variable[e]
            value = iterate.ahead[j] if sigma > 0.0 else clip(iterate.y[j], 0.0, 1.0)
            form[i] += rows.coefficient[e] * value
        if sigma > 0.0:
            form[i] -= (iterate.dual[i] - before[i]) / (relaxation * sigma)


@kernel
def certificate(
    problem: AdmmProblem, iterate: Iterate, gradient: Floats
) -> tuple[float, float, float, float]:
    """Return energy, lower bound, largest violation and complementarity of clipped y and the dual.

    Complementarity is the sum over constraints of |u_i l_i|, so that ``energy + complementarity - bound``
    is never below 0. ``gradient`` [variable] is set to Q' dual - bonus.
    """
    for j in range(len(gradient)):
        gradient[j] = -problem.bonus[j]
    energy, bound, violation, complementarity = of_rows(problem, iterate, gradient, 0, 1)
    linear, least = of_variables(problem, iterate, gradient)
    return energy + linear, bound + least, violation, complementarity


@kernel
def of_variables(problem: AdmmProblem, iterate: Iterate, gradient: Floats) -> tuple[float, float]:
    """Return the energy of bonus and ridge, and the minimum of gradient . y + ridge y^2 over the box."""
    energy, least = 0.0, 0.0
    for j in range(len(gradient)):
        y, ridge = clip(iterate.y[j], 0.0, 1.0), problem.ridge[j]
        energy += (ridge * y - problem.bonus[j]) * y
        y = 1.0 if gradient[j] < 0.0 else 0.0
        if ridge > 0.0:
            y = clip(-gradient[j] / (2.0 * ridge), 0.0, 1.0)
        least += (gradient[j] + ridge * y) * y
    return energy, least


@threaded
def of_rows(
    problem: AdmmProblem, iterate: Iterate, gradient: Floats, part: int, parts: int
) -> tuple[float, float, float, float]:
    """Return the certificate's terms of every ``parts``-th block of rows, and add to the gradient."""
    rows = problem.rows
    energy, bound, violation, complementarity = 0.0, 0.0, 0.0, 0.0
    for block in range(part * BLOCK, len(rows.constant), parts * BLOCK):
        for i in range(block, min(block + BLOCK, len(rows.constant))):
            form, curvature = rows.constant[i], problem.curvature[i]
            for e in range(rows.start[i], rows.start[i + 1]):
                form += rows.coefficient[e] * clip(iterate.y[rows.variable[e]], 0.0, 1.0)
            slope = problem.high[i] if form > 0.0 else problem.low[i]
            if curvature > 0.0:
                slope = clip(form / curvature, problem.low[i], problem.high[i])
            u = clip(iterate.dual[i], problem.low[i], problem.high[i])
            bound += u * rows.constant[i] - 0.5 * curvature * u * u
            if curvature == 0.0 and np.isinf(problem.high[i]):  # a constraint
                violation = max(violation, abs(form) if np.isinf(slope) else 0.0)
                complementarity += abs(u * form)
            else:
                energy += slope * form - 0.5 * curvature * slope * slope
            add_gradient(problem, i, u, gradient)
    return energy, bound, violation, complementarity
