"""Stochastic gradient steps over the rows of a hinge-loss model, kept in the box.

The thesis' 4.4 and 4.5: y <- clip(y - rate w_i grad phi_i), the weight once (printed, it comes twice).
"""

import numpy as np

from onlinesrl.arrays import Floats, Ints
from onlinesrl.kernels.frames import Frame
from onlinesrl.kernels.jit import kernel
from onlinesrl.kernels.potentials import Rows, form, slope, within

FIRST_DECAY, SECOND_DECAY, SMALL = 0.9, 0.999, 1e-8
"""beta_1, beta_2 and epsilon of Adam (Kingma & Ba 2014, Algorithm 1)."""


class Moments(Frame):
    """Adam's state; a variable's moments change where a row that has it is visited."""

    first: Floats  # [variable]
    second: Floats  # [variable]
    visits: Ints  # [variable]


@kernel
def descend(rows: Rows, order: Ints, y: Floats, rate: float) -> None:
    """Take one step for each of the rows in ``order``."""
    for i in order:
        pull = rate * slope(rows, i, rows.constant[i] + form(rows, i, y))
        if pull != 0.0:
            for e in range(rows.start[i], rows.start[i + 1]):
                j = rows.variable[e]
                y[j] = within(y[j] - pull * rows.coefficient[e])


@kernel
def descend_adam(rows: Rows, order: Ints, y: Floats, rate: float, m: Moments) -> None:
    """Take one step of Adam for each of the rows in ``order``."""
    for i in order:
        pull = slope(rows, i, rows.constant[i] + form(rows, i, y))
        for e in range(rows.start[i], rows.start[i + 1]):
            j, g = rows.variable[e], pull * rows.coefficient[e]
            m.visits[j] += 1
            m.first[j] += (1.0 - FIRST_DECAY) * (g - m.first[j])
            m.second[j] += (1.0 - SECOND_DECAY) * (g * g - m.second[j])
            first = m.first[j] / (1.0 - FIRST_DECAY ** m.visits[j])
            second = m.second[j] / (1.0 - SECOND_DECAY ** m.visits[j])
            y[j] = within(y[j] - rate * first / (np.sqrt(second) + SMALL))


@kernel
def descend_adagrad(rows: Rows, order: Ints, y: Floats, rate: float, squares: Floats) -> float:
    """Take one step of AdaGrad (Duchi et al. 2011, figure 1) for each of the rows in ``order``.

    A variable's rate is ``rate`` over the root of its entry in ``squares``, to which its steps add. A
    row of infinite weight is a constraint, and its step is the projection onto it. Returns the
    energy of the potentials, each as it was before its step.
    """
    energy = 0.0
    for i in order:
        at = rows.constant[i] + form(rows, i, y)
        if at <= 0.0 and rows.hinge[i] != 0:
            continue
        pull = slope(rows, i, at)
        if np.isinf(pull):
            _project(rows, i, at, y)
            continue
        energy += 0.5 * pull * at if rows.square[i] else pull * at
        for e in range(rows.start[i], rows.start[i + 1]):
            j, g = rows.variable[e], pull * rows.coefficient[e]
            squares[j] += g * g
            y[j] = within(y[j] - rate * g / (np.sqrt(squares[j]) + SMALL))
    return energy


@kernel
def _project(rows: Rows, i: int, at: float, y: Floats) -> None:
    """Move to the nearest values for which row i is 0, where the box lets them."""
    norm = SMALL
    for e in range(rows.start[i], rows.start[i + 1]):
        norm += rows.coefficient[e] ** 2
    for e in range(rows.start[i], rows.start[i + 1]):
        j = rows.variable[e]
        y[j] = within(y[j] - at / norm * rows.coefficient[e])


@kernel
def gain(bonus: Floats, y: Floats, rate: float) -> None:
    """Take one step for the bonus, whose energy is -bonus . y."""
    for j in range(len(y)):
        y[j] = within(y[j] + rate * bonus[j])
