"""The reference for hinge-loss inference: one convex quadratic program, solved by Clarabel."""

from __future__ import annotations

from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HINGE, PLAIN, HingeLossMRF
from onlinesrl.psl.inference.dual import check_constants, check_weights, lower_bound
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.weight_scale import ScaledEngine, ScaledProblem

TOLERANCE = 1e-6
"""What counts as optimal, relative to the energy (absolute below 1), and as feasible."""


@dataclass(frozen=True)
class Qp(ScaledEngine):
    """The whole model as one QP (Srinivasan 2020, equation 3.2), by an interior point method.

    Clarabel ends at gaps and residuals of ``precision``, absolute and relative. A start is ignored. Raises
    Unsolved if Clarabel fails.
    """

    gap = TOLERANCE
    precision: float = 1e-9

    def solve_scaled(self, problem: ScaledProblem) -> HingeSolution:
        """See ``ScaledEngine``."""
        model, weights, bonus, _, _ = problem
        check_constants(model)
        check_weights(model, weights)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.precision
        settings.max_threads = 1
        solution = _program(model, weights, bonus, settings).solve()
        if solution.status == clarabel.SolverStatus.PrimalInfeasible:
            raise Infeasible("no values satisfy the constraints")
        solved = (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved)
        if solution.status not in solved:
            raise Unsolved(f"Clarabel: {solution.status}")
        y = np.clip(np.array(solution.x[: model.n_variables]), 0.0, 1.0)
        equal = (model.kind == EQUAL) | (model.kind == PLAIN)
        dual = np.empty(model.n_rows)
        dual[np.argsort(~equal, kind="stable")] = solution.z[: model.n_rows]
        energy = model.energy(y, weights) - (0.0 if bonus is None else float(bonus @ y))
        bound, violation = lower_bound(model, weights, dual, bonus), model.violation(y)
        close = abs(energy - bound) <= TOLERANCE * max(1.0, abs(energy))
        certified = close and violation <= TOLERANCE
        return HingeSolution(
            y, energy, dual, bound, violation, solution.iterations, "qp", certified=certified
        )


def _program(
    model: HingeLossMRF, weights: Floats, bonus: Floats | None, settings: clarabel.DefaultSettings
) -> clarabel.DefaultSolver:
    """Return the QP over y and a number ``psi_i`` for every potential.

    It minimises ``sum_i w_i psi_i^p_i - bonus . y`` with ``l_i(y) - psi_i <= 0`` for a hinge, ``= 0``
    for others, where ``psi_i`` is 0 for a constraint, ``psi >= 0`` for hinges and y in the box
    [0, 1]^n. Clarabel takes ``A x + s = b``: first equalities (s = 0), then inequalities (s >= 0).
    """
    n, m = model.n_variables, model.n_rows
    potential, hinge = np.flatnonzero(model.kind < AT_MOST), np.flatnonzero(model.kind == HINGE)
    count, psi = len(potential), np.full(m, -1)
    psi[potential] = n + np.arange(count)
    weight, square = model.row_weights(weights)[potential], model.power[potential] == 2
    columns = n + count
    forms = sparse.csr_array((model.coefficient, model.variable, model.start), shape=(m, n))
    of_psi = sparse.csr_array((-np.ones(count), (potential, psi[potential] - n)), shape=(m, count))
    equal = (model.kind == EQUAL) | (model.kind == PLAIN)
    order = np.argsort(~equal, kind="stable")
    box = sparse.eye_array(n, columns, format="csr")
    positive = sparse.csr_array(
        (-np.ones(len(hinge)), (np.arange(len(hinge)), psi[hinge])), shape=(len(hinge), columns)
    )
    rows = sparse.hstack((forms, of_psi), format="csr")[order]
    matrix = sparse.vstack((rows, box, -box, positive), format="csc")
    right = np.concatenate((-model.constant[order], np.ones(n), np.zeros(n + len(hinge))))
    gain = np.zeros(n) if bonus is None else bonus
    curvature = np.concatenate((np.zeros(n), np.where(square, 2.0 * weight, 0.0)))
    linear = np.concatenate((-gain, np.where(square, 0.0, weight)))
    cones = [
        clarabel.ZeroConeT(int(equal.sum())),
        clarabel.NonnegativeConeT(len(right) - int(equal.sum())),
    ]
    quadratic = sparse.diags_array(curvature, format="csc")
    return clarabel.DefaultSolver(quadratic, linear, matrix, right, cones, settings)
