"""The dual of hinge-loss inference: the lower bound that certifies an energy (weak duality).

Every row adds a convex function of its form, ``f_i(l) = max over low_i <= u <= high_i of
u l - curvature_i u^2 / 2``: a hinge has [0, w] and no curvature, a squared one [0, inf] and
``1 / (2 w)``; without the hinge the ends are [w, w] and [-inf, inf]; constraints have [0, inf] and
[-inf, inf] and no curvature. So any dual ``u`` within its ends gives the bound

    energy(y) >= sum_i (u_i c_i - curvature_i u_i^2 / 2) + sum_j min(0, (Q' u - bonus)_j)

for all feasible y in [0, 1]^n, and at the optimum the two sides meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HingeLossMRF
from onlinesrl.psl.kernels import admm_rows

FEASIBLE = 1e-9
"""How far a constraint without variables may be from satisfied."""


@dataclass(frozen=True, eq=False)
class Conjugates:
    """``low``, ``high`` and ``curvature`` of every row, float64[n_rows], for one weight vector."""

    low: Floats
    high: Floats
    curvature: Floats


def conjugates(model: HingeLossMRF, weights: Floats) -> Conjugates:
    """Return the conjugates of a model's rows. Raises ValueError as ``check_weights`` does."""
    check_weights(model, weights)
    low, high, curvature = np.empty((3, model.n_rows))
    admm_rows.conjugates(model, weights, low, high, curvature)
    return Conjugates(low, high, curvature)


def check_weights(model: HingeLossMRF, weights: Floats) -> None:
    """Raise ValueError where a weight is not finite, or is below 0 and makes its row not convex."""
    status = admm_rows.check(model, weights)
    if status == admm_rows.NOT_FINITE:
        raise ValueError("a weight is not finite")
    if status == admm_rows.NOT_CONVEX:
        raise ValueError("a weight below 0: only linear potentials without hinge may have one")


def lower_bound(
    model: HingeLossMRF, weights: Floats, dual: Floats, bonus: Floats | None = None
) -> float:
    """Return a lower bound of the energy of all feasible values, from any ``dual`` float64[n_rows]."""
    rows = conjugates(model, weights)
    u = np.clip(dual, rows.low, rows.high)
    gradient: Floats = np.zeros(model.n_variables) if bonus is None else -bonus
    gradient = gradient + np.bincount(
        model.variable, model.coefficient * u[model.row], model.n_variables
    )
    least = gradient @ np.where(gradient < 0, 1.0, 0.0)
    return float(u @ model.constant - 0.5 * rows.curvature @ u**2 + least)


def residual(model: HingeLossMRF, y: Floats, dual: Floats) -> float:
    """Return the most that a projected step along ``-Q' u`` moves a value; 0 at an optimum."""
    gradient = np.bincount(model.variable, model.coefficient * dual[model.row], model.n_variables)
    return float(np.max(np.abs(y - np.clip(y - gradient, 0.0, 1.0)), initial=0.0))


def check_constants(model: HingeLossMRF) -> None:
    """Raise Infeasible where a constraint without variables is false."""
    form = np.where(model.kind == EQUAL, np.abs(model.constant), model.constant)
    empty = (np.diff(model.start) == 0) & (model.kind >= AT_MOST)
    if np.any(form[empty] > FEASIBLE):
        raise Infeasible("a constraint without variables is false")
