"""Trust-region Newton for squared hinges over a box (Lin & Moré 1999; Srinivasan 2020, section 5.6).

It minimises f(y) = sum_i w_i phi_i(y) - bonus . y over [0, 1]^n, with the generalised Hessian, the sum H of
2 w q q' over the active squared rows (5.16; its ridge is a row for each variable here). A step, of length at
most ``radius``, goes to the Cauchy point, continues by conjugate gradients in the free variables, and ends
with a projected search. Functions work on one micrograph: a range of variables and one of rows.
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.psl.kernels.potentials import (
    HingeRows,
    Range,
    clip,
    dot,
    form,
    is_off,
    potential,
    slope,
)

DECREASE = 0.01
"""Sufficient decrease: the least ratio of the model's decrease to that predicted by the gradient."""

ACCURACY = 0.1
"""The tolerance of conjugate gradients, relative to the gradient in the free variables."""

ACCEPT, GOOD = 1e-4, 0.75
"""Ratios of actual to predicted decrease from which a step is taken, and the radius doubled."""

ROUNDING = 1e-12
"""Energies closer than this, relatively, count as equal, and the step is taken."""


class Objective(Frame):
    """f: weighted rows without constraints, and bonus."""

    rows: HingeRows
    weights: Floats
    bonus: Floats  # [variable]


class Memory(Frame):
    """Working memory, shared by all micrographs."""

    active: Annotated[Bytes, "row"]  # in the Hessian
    free: Annotated[Bytes, "variable"]  # strictly within its bounds at the end of the step
    gradient: Annotated[Floats, "variable"]  # of f
    step: Annotated[Floats, "variable"]
    curved: Annotated[Floats, "variable"]  # H step
    residual: Annotated[Floats, "variable"]
    direction: Annotated[Floats, "variable"]
    product: Annotated[Floats, "variable"]  # H direction
    inner: Annotated[Floats, "variable"]  # step of conjugate gradients


@kernel
def energy(f: Objective, g: Range, y: Floats) -> float:
    """Return f(y)."""
    total = 0.0 - dot(f.bonus, y, g)
    for i in range(g.first, g.last):
        total += potential(f.rows, f.weights, i, f.rows.constant[i] + form(f.rows, i, y))
    return total


@kernel
def differentiate(f: Objective, m: Memory, g: Range, y: Floats) -> None:
    """Compute the gradient (5.15) at y and the active rows."""
    rows = f.rows
    for j in range(g.low, g.high):
        m.gradient[j] = 0.0 - f.bonus[j]
    for i in range(g.first, g.last):
        at = rows.constant[i] + form(rows, i, y)
        m.active[i] = rows.power[i] == 2 and not is_off(rows, i, at)
        grow = slope(rows, f.weights, i, at)
        if grow != 0.0:
            for e in range(rows.start[i], rows.start[i + 1]):
                m.gradient[rows.variable[e]] += grow * rows.coefficient[e]


@kernel
def multiply(f: Objective, m: Memory, g: Range, x: Floats, out: Floats) -> None:
    """Set out to H x (5.16)."""
    rows = f.rows
    for j in range(g.low, g.high):
        out[j] = 0.0
    for i in range(g.first, g.last):
        if m.active[i]:
            scale = 2.0 * f.weights[rows.weight_index[i]] * form(rows, i, x)
            for e in range(rows.start[i], rows.start[i + 1]):
                out[rows.variable[e]] += scale * rows.coefficient[e]


@kernel
def _optimality(m: Memory, g: Range, y: Floats) -> float:
    """Return the largest move of the projected gradient step."""
    worst = 0.0
    for j in range(g.low, g.high):
        worst = max(worst, abs(clip(y[j] - m.gradient[j], 0.0, 1.0) - y[j]))
    return worst


@kernel
def _cauchy(f: Objective, m: Memory, g: Range, y: Floats, radius: float) -> None:
    """Set the step to P(y - alpha gradient) - y, with alpha halved until sufficient decrease.

    The first alpha minimises the model along the gradient.
    """
    multiply(f, m, g, m.gradient, m.curved)
    squared, curvature = dot(m.gradient, m.gradient, g), dot(m.gradient, m.curved, g)
    alpha = squared / curvature if curvature > 0.0 else 1.0 / np.sqrt(squared)
    while True:
        for j in range(g.low, g.high):
            m.step[j] = clip(y[j] - alpha * m.gradient[j], 0.0, 1.0) - y[j]
        multiply(f, m, g, m.step, m.curved)
        promise = dot(m.gradient, m.step, g)
        inside = dot(m.step, m.step, g) <= radius * radius
        if inside and promise + 0.5 * dot(m.step, m.curved, g) <= DECREASE * promise:
            return
        alpha *= 0.5


@kernel
def _to_radius(m: Memory, g: Range, radius: float) -> float:
    """Return t >= 0 with |step + inner + t direction| = radius."""
    a, b, c = 0.0, 0.0, -radius * radius
    for j in range(g.low, g.high):
        at = m.step[j] + m.inner[j]
        a += m.direction[j] * m.direction[j]
        b += at * m.direction[j]
        c += at * at
    return (np.sqrt(max(b * b - a * c, 0.0)) - b) / a


@kernel
def _conjugate_gradients(f: Objective, m: Memory, g: Range, y: Floats, radius: float) -> None:
    """Set inner to a minimiser of the model at the step, in the free variables, within the radius."""
    for j in range(g.low, g.high):
        m.free[j] = 0.0 < y[j] + m.step[j] < 1.0
        m.residual[j] = -(m.gradient[j] + m.curved[j]) if m.free[j] else 0.0
        m.direction[j] = m.residual[j]
        m.inner[j] = 0.0
    squared = dot(m.residual, m.residual, g)
    goal = ACCURACY * ACCURACY * squared
    for _ in range(2 * (g.high - g.low)):
        if squared <= goal or squared == 0.0:
            return
        multiply(f, m, g, m.direction, m.product)
        curvature = dot(m.direction, m.product, g)
        edge = _to_radius(m, g, radius)
        t = squared / curvature if curvature > 0.0 else edge
        for j in range(g.low, g.high):
            m.inner[j] += min(t, edge) * m.direction[j]
            m.residual[j] -= t * m.product[j] if m.free[j] else 0.0
        if t >= edge:
            return
        before, squared = squared, dot(m.residual, m.residual, g)
        for j in range(g.low, g.high):
            m.direction[j] = m.residual[j] + squared / before * m.direction[j]


@kernel
def _search(f: Objective, m: Memory, g: Range, y: Floats) -> None:
    """Add inner to the step, halved until its projection gives sufficient decrease, if it does."""
    for _ in range(30):
        for j in range(g.low, g.high):
            m.direction[j] = clip(y[j] + m.step[j] + m.inner[j], 0.0, 1.0) - y[j] - m.step[j]
        multiply(f, m, g, m.direction, m.product)
        promise = dot(m.gradient, m.direction, g) + dot(m.curved, m.direction, g)
        if promise + 0.5 * dot(m.direction, m.product, g) <= DECREASE * min(promise, 0.0):
            for j in range(g.low, g.high):
                m.step[j] += m.direction[j]
                m.curved[j] += m.product[j]
            return
        for j in range(g.low, g.high):
            m.inner[j] *= 0.5


@kernel
def minimise(
    f: Objective, m: Memory, g: Range, y: Floats, tolerance: float, iterations: int
) -> int:
    """Minimise in place from y; return the steps tried, ``iterations`` if not converged."""
    radius = np.sqrt(float(g.high - g.low))  # the box's diagonal
    current = energy(f, g, y)
    differentiate(f, m, g, y)
    for k in range(iterations):
        if _optimality(m, g, y) <= tolerance:
            return k
        _cauchy(f, m, g, y, radius)
        _conjugate_gradients(f, m, g, y, radius)
        _search(f, m, g, y)
        predicted = -(dot(m.gradient, m.step, g) + 0.5 * dot(m.step, m.curved, g))
        length = np.sqrt(dot(m.step, m.step, g))
        for j in range(g.low, g.high):
            m.inner[j] = y[j]
            y[j] = clip(y[j] + m.step[j], 0.0, 1.0)
        new = energy(f, g, y)
        ratio = (current - new) / predicted if predicted > 0.0 else 0.0
        rounding = ROUNDING * max(1.0, abs(current))
        if ratio > ACCEPT or (predicted <= rounding and new <= current + rounding):
            current = new
            differentiate(f, m, g, y)
            radius = max(radius, 2.0 * length) if ratio > GOOD else radius
        else:
            radius = 0.25 * length
            for j in range(g.low, g.high):
                y[j] = m.inner[j]
    return iterations


@kernel
def minimise_each(
    f: Objective,
    m: Memory,
    first_variable: Ints,
    first_row: Ints,
    y: Floats,
    tolerance: float,
    iterations: Ints,
) -> None:
    """Minimise every micrograph; ``iterations`` [micrograph]: limits, replaced by the steps tried."""
    for k in range(len(iterations)):
        g = Range(first_variable[k], first_variable[k + 1], first_row[k], first_row[k + 1])
        iterations[k] = minimise(f, m, g, y, tolerance, iterations[k])


@kernel
def certify_each(
    f: Objective,
    first_variable: Ints,
    first_row: Ints,
    y: Floats,
    dual: Floats,
    gradient: Floats,
    energies: Floats,
    bounds: Floats,
) -> None:
    """Compute every micrograph's energy, and the bound that the slopes of its rows give as a dual.

    See ``psl.inference.dual``. ``dual`` is written by row, ``gradient`` by variable.
    """
    rows = f.rows
    for k in range(len(energies)):
        g = Range(first_variable[k], first_variable[k + 1], first_row[k], first_row[k + 1])
        energies[k] = energy(f, g, y)
        bound = 0.0
        for j in range(g.low, g.high):
            gradient[j] = -f.bonus[j]
        for i in range(g.first, g.last):
            u = slope(rows, f.weights, i, rows.constant[i] + form(rows, i, y))
            dual[i] = u
            if u != 0.0:
                bound += u * rows.constant[i]
                if rows.power[i] == 2:
                    bound -= u * u / (4.0 * f.weights[rows.weight_index[i]])
                for e in range(rows.start[i], rows.start[i + 1]):
                    gradient[rows.variable[e]] += u * rows.coefficient[e]
        for j in range(g.low, g.high):
            bound += min(gradient[j], 0.0)
        bounds[k] = bound
