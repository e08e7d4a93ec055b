"""Projected stochastic gradient steps over the rows of a hinge-loss model.

Srinivasan (2020), equations 4.4 and 4.5: y <- clip(y - rate w_i grad phi_i), with the weight once (it is
printed twice).
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.psl.kernels.potentials import (
    AT_MOST,
    HingeRows,
    clip,
    form,
    is_off,
    potential,
    slope,
)

FIRST_DECAY, SECOND_DECAY, SMALL = 0.9, 0.999, 1e-8
"""beta_1, beta_2 and epsilon of Adam (Kingma & Ba 2014, Algorithm 1)."""


class Moments(Frame):
    """Adam's state; a variable's moments change when a row that contains it is visited."""

    first: Annotated[Floats, "variable"]
    second: Annotated[Floats, "variable"]
    visits: Annotated[Ints, "variable"]


@threaded
def descend(rows: HingeRows, weights: Floats, order: Ints, y: Floats, rate: float) -> float:
    """Take one step for each of the rows in ``order``; see ``descend_adagrad``."""
    energy = 0.0
    for i in order:
        at = rows.constant[i] + form(rows, i, y)
        if _is_constraint(rows, i, at, y):
            continue
        energy += potential(rows, weights, i, at)
        grow = rate * slope(rows, weights, i, at)
        if grow != 0.0:
            for e in range(rows.start[i], rows.start[i + 1]):
                j = rows.variable[e]
                y[j] = clip(y[j] - grow * rows.coefficient[e], 0.0, 1.0)
    return energy


@threaded
def descend_adam(
    rows: HingeRows, weights: Floats, order: Ints, y: Floats, rate: float, m: Moments
) -> float:
    """Take one step of Adam for each of the rows in ``order``; see ``descend_adagrad``."""
    energy = 0.0
    for i in order:
        at = rows.constant[i] + form(rows, i, y)
        if _is_constraint(rows, i, at, y):
            continue
        energy += potential(rows, weights, i, at)
        grow = slope(rows, weights, i, at)
        for e in range(rows.start[i], rows.start[i + 1]):
            j, g = rows.variable[e], grow * rows.coefficient[e]
            m.visits[j] += 1
            m.first[j] += (1.0 - FIRST_DECAY) * (g - m.first[j])
            m.second[j] += (1.0 - SECOND_DECAY) * (g * g - m.second[j])
            first = m.first[j] / (1.0 - FIRST_DECAY ** m.visits[j])
            second = m.second[j] / (1.0 - SECOND_DECAY ** m.visits[j])
            y[j] = clip(y[j] - rate * first / (np.sqrt(second) + SMALL), 0.0, 1.0)
    return energy


@threaded
def descend_adagrad(
    rows: HingeRows, weights: Floats, order: Ints, y: Floats, rate: float, squares: Floats
) -> float:
    """Take one step of AdaGrad (Duchi et al. 2011, figure 1) for each of the rows in ``order``.

    A variable's rate is ``rate`` over the root of its entry in ``squares``, the sum of squared gradients.
    The step of a constraint is the projection onto it. Returns the energy of the
    potentials, each before its step.
    """
    energy = 0.0
    for i in order:
        at = rows.constant[i] + form(rows, i, y)
        if is_off(rows, i, at):
            continue
        if rows.kind[i] >= AT_MOST:
            _project(rows, i, at, y)
            continue
        grow = slope(rows, weights, i, at)
        energy += 0.5 * grow * at if rows.power[i] == 2 else grow * at
        for e in range(rows.start[i], rows.start[i + 1]):
            j, g = rows.variable[e], grow * rows.coefficient[e]
            squares[j] += g * g
            y[j] = clip(y[j] - rate * g / (np.sqrt(squares[j]) + SMALL), 0.0, 1.0)
    return energy


@kernel
def _is_constraint(rows: HingeRows, i: int, at: float, y: Floats) -> bool:
    """Project onto row i if it is a violated constraint; return whether it is a constraint."""
    if rows.kind[i] < AT_MOST:
        return False
    if not is_off(rows, i, at):
        _project(rows, i, at, y)
    return True


@kernel
def _project(rows: HingeRows, i: int, at: float, y: Floats) -> None:
    """Project onto the values for which row i is 0, then onto the box."""
    norm = SMALL
    for e in range(rows.start[i], rows.start[i + 1]):
        norm += rows.coefficient[e] ** 2
    for e in range(rows.start[i], rows.start[i + 1]):
        j = rows.variable[e]
        y[j] = clip(y[j] - at / norm * rows.coefficient[e], 0.0, 1.0)
