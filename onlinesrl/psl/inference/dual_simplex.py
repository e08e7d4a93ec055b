"""The least energy of linear models, by HiGHS's dual simplex over the rows that are near their kinks.

The dual of ``psl.inference.dual`` is a linear program with a row for every variable,

    least 1 . v - c . u   where   v + Q' u >= bonus,   low <= u <= high,   v >= 0,

and the multipliers of its rows are the values y. A hinge far from its kink has the dual of its side, 0 or its
weight; a constraint that holds by far has 0. So the program has columns for what the duals of those rows
alone differ from this that are near their kinks at given values. Rows that its answer has on another side are
added, and the simplex goes on from its last basis, until there are none.

Importing this module imports HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from onlinesrl.core import highs
from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HingeLossMRF
from onlinesrl.psl.inference.dual import conjugates, lower_bound

NEAR = 10
"""How many rows for each variable the program begins with."""
ROUNDING = 1e-9
"""How far a row may be on another side than its dual says."""


def optimum(
    model: HingeLossMRF, weights: Floats, bonus: Floats, y: Floats, steps: int, violation: float
) -> tuple[Floats, Floats] | None:
    """Return the values float64[n_variables] and duals float64[n_rows] of the least energy.

    All potentials are linear; ``y``, float64[n_variables], are values of low energy. A variable in no row
    that has no bonus keeps its value. None where so many ``steps`` of the simplex are not enough. Raises
    Infeasible where all values violate a constraint by more than ``violation``.
    """
    n, rows, form = model.n_variables, conjugates(model, weights), model.forms(y)
    side = np.where(form > 0.0, rows.high, rows.low)
    side[model.kind >= AT_MOST] = 0.0
    pull = np.bincount(model.variable, model.coefficient * side[model.row], n)
    idle = (np.bincount(model.variable, minlength=n) == 0) & (bonus == 0.0)
    outside = rows.low < rows.high
    added = _near(model, form, outside)
    chosen = added[:0]

    solver: Any = highs.solver(
        presolve="off", solver="simplex"
    )  # with presolve there may be no ray
    number, ones, infinite = np.arange(n, dtype=np.int32), np.ones(n), np.full(n, np.inf)
    solver.addRows(n, bonus - pull, infinite, 0, number[:0], number[:0], ones[:0])
    solver.addCols(n, ones, 0.0 * ones, infinite, n, number, number, ones)
    while True:
        part = model.chosen(added)
        ends = rows.low[added] - side[added], rows.high[added] - side[added]
        entries = part.start[:-1].astype(np.int32), part.variable, part.coefficient
        solver.addCols(len(added), -part.constant, *ends, len(part.variable), *entries)
        chosen, outside[added] = np.concatenate((chosen, added)), False
        solver.setOptionValue("simplex_iteration_limit", steps)
        highs.run(solver)
        steps -= solver.getInfo().simplex_iteration_count
        _, has_ray, ray = solver.getPrimalRay()
        if has_ray:
            proof = np.zeros(model.n_rows)
            proof[chosen] = ray[n:]
            if lower_bound(model, 0.0 * weights, proof / np.abs(proof).sum()) > violation:
                raise Infeasible("no values satisfy the constraints")
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = solver.getSolution()
        y = np.where(idle, y, np.clip(solution.row_dual, 0.0, 1.0))
        form = model.forms(y)
        wrong = np.where(side > 0.0, form < -ROUNDING, form > ROUNDING)
        added = np.flatnonzero(wrong & outside)
        if not len(added):
            side[chosen] += solution.col_value[n:]
            return y, side


def _near(model: HingeLossMRF, form: Floats, varies: Bools) -> Ints:
    """Return the rows nearest to their kinks, with all equalities and violated constraints."""
    distance = np.where(model.kind == AT_MOST, np.maximum(-form, 0.0), np.abs(form))
    distance[model.kind == EQUAL] = 0.0
    distance[~varies] = np.inf
    most = max(NEAR * model.n_variables, int(np.count_nonzero(distance == 0.0)))
    near: Ints = np.argsort(distance, kind="stable")[: min(most, int(np.count_nonzero(varies)))]
    return near
