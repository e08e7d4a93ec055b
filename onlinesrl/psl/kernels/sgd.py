"""Projected stochastic gradient steps over the rows of a hinge-loss model.

Srinivasan (2020), equations 4.4 and 4.5: y <- clip(y - rate w_i grad phi_i), with the weight once (it is
printed twice).
"""

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.psl.kernels.potentials import AT_MOST, HingeRows, clip, form, is_off, slope

SMALL = 1e-8
"""What keeps roots and norms from 0."""


@threaded
def descend(
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
def _project(rows: HingeRows, i: int, at: float, y: Floats) -> None:
    """Project onto the values for which row i is 0, then onto the box."""
    norm = SMALL
    for e in range(rows.start[i], rows.start[i + 1]):
        norm += rows.coefficient[e] ** 2
    for e in range(rows.start[i], rows.start[i + 1]):
        j = rows.variable[e]
        y[j] = clip(y[j] - at / norm * rows.coefficient[e], 0.0, 1.0)
