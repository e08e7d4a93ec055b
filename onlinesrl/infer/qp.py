"""The reference for hinge-loss inference: one convex quadratic program, solved by HiGHS.

Importing this module imports HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

import highspy
import numpy as np

from onlinesrl.ground.hinges import AT_MOST, EQUAL, HINGE, HingeModel
from onlinesrl.ground.model import Floats
from onlinesrl.infer.dual import check_constants, conjugates, lower_bound
from onlinesrl.infer.engine import Infeasible, Relaxed, Unsolved

TOLERANCE = 1e-6
"""What counts as optimal, relative to the energy (absolute below 1), and as feasible."""


class Qp:
    """The whole model as one QP (the thesis' 3.2): exact, for small models and for tests."""

    def solve(
        self,
        model: HingeModel,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: Relaxed | None = None,
    ) -> Relaxed:
        """See ``RelaxedEngine.solve``; the start is of no use. Raises Unsolved where HiGHS fails."""
        check_constants(model)
        conjugates(model, weights)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        options = {"output_flag": False, "threads": 1, "qp_regularization_value": 0.0}
        for option, setting in options.items():
            solver.setOptionValue(option, setting)
        solver.passModel(_program(model, weights, bonus))
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise Infeasible("no values satisfy the constraints")
        if status != highspy.HighsModelStatus.kOptimal:
            raise Unsolved(f"HiGHS: {solver.modelStatusToString(status)}")
        solution, info = solver.getSolution(), solver.getInfo()
        y = np.clip(np.array(solution.col_value[: model.n_variables], np.float64), 0.0, 1.0)
        dual = -np.array(solution.row_dual, np.float64)
        energy = model.energy(y, weights) - (0.0 if bonus is None else float(bonus @ y))
        bound, violation = lower_bound(model, weights, dual, bonus), model.violation(y)
        close = abs(energy - bound) <= TOLERANCE * max(1.0, abs(energy))
        iterations = max(info.qp_iteration_count, info.simplex_iteration_count)
        certified = close and violation <= TOLERANCE
        return Relaxed(y, energy, dual, bound, violation, iterations, "qp", certified=certified)


def _program(model: HingeModel, weights: Floats, bonus: Floats | None) -> highspy.HighsModel:
    """Return the QP over y and a column ``psi_i`` for every row.

    It minimises ``sum_i w_i psi_i^p_i - bonus . y``; row i is ``l_i(y) - psi_i <= 0`` with
    ``psi_i >= 0`` for a hinge and ``= 0`` for others; for a constraint ``psi_i`` is 0.
    """
    n, rows = model.n_variables, model.n_rows
    weight, infinity = model.row_weights(weights), highspy.kHighsInf
    square, hard = model.power == 2, (model.kind == AT_MOST) | (model.kind == EQUAL)
    program = highspy.HighsModel()
    lp = program.lp_
    lp.num_col_, lp.num_row_ = n + rows, rows
    gain = np.zeros(n) if bonus is None else bonus
    lp.col_cost_ = np.concatenate((-gain, np.where(square, 0.0, weight)))
    bottom = np.where(hard | (model.kind == HINGE), 0.0, -infinity)
    lp.col_lower_ = np.concatenate((np.zeros(n), bottom))
    lp.col_upper_ = np.concatenate((np.ones(n), np.where(hard, 0.0, infinity)))
    inequality = (model.kind == HINGE) | (model.kind == AT_MOST)
    lp.row_lower_ = np.where(inequality, -infinity, -model.constant)
    lp.row_upper_ = -model.constant
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = model.start + np.arange(rows + 1)
    lp.a_matrix_.index_ = np.insert(model.variable, model.start[1:], n + np.arange(rows))
    lp.a_matrix_.value_ = np.insert(model.coefficient, model.start[1:], -1.0)
    curved = square & (weight > 0)
    if np.any(curved):
        program.hessian_.dim_ = n + rows
        program.hessian_.start_ = np.concatenate((np.zeros(n + 1), np.cumsum(curved))).astype(int)
        program.hessian_.index_ = n + np.flatnonzero(curved)
        program.hessian_.value_ = 2.0 * weight[curved]
    return program
