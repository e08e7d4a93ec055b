"""ADMM as published: local copies of every variable with one penalty (Bach et al. 2015, Algorithm 1)."""

from __future__ import annotations

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.inference.admm import AdmmState
from onlinesrl.psl.kernels import admm as kernel
from onlinesrl.psl.kernels import admm_rows, admm_solve

ABSOLUTE, RELATIVE = 1e-5, 1e-3
"""The tolerances of the residuals (Boyd et al. 2011, section 3.3.1)."""


class ConsensusAdmm(AdmmState):
    """ADMM without over-relaxation, in which every copy has the penalty ``eta``, which stays.

    So sigma is ``eta / |q|^2``, and d the number of a variable's rows. A round begins with the duals, from 0.
    ``converged`` tells whether the residuals of the last round are small.
    """

    converged = False

    def _prepare(self, before: Floats, resumes: bool) -> None:
        model, problem, iterate = self.model, self.problem, self.iterate
        square = np.bincount(model.row, model.coefficient**2, model.n_rows)
        np.divide(1.0, square, out=problem.row_step, where=square > 0)
        problem.row_step[square == 0] = 0.0
        problem.degree[:] = np.maximum(np.bincount(model.variable, minlength=model.n_variables), 1)
        iterate.ahead[:], iterate.dual[:] = iterate.y, 0.0
        self._set_conjugates()

    def _set_conjugates(self) -> None:
        problem = self.problem
        ends = problem.low, problem.high, problem.curvature
        admm_rows.conjugates(problem.rows, problem.weights, *ends)

    def reweigh(self, weights: Floats) -> None:
        """Change the weights; copies, duals and values stay."""
        self._set_weights(weights)
        self._set_conjugates()

    def up_to(self, n: int) -> Floats:
        """Do ``n`` rounds, or fewer where they converge; return as ``copies`` does."""
        form = self.copies()
        for _ in range(n - 1):
            if self.converged:
                break
            form = self.copies()
        return form

    def copies(self) -> Floats:
        """Do a round, and return the forms at its local copies, float64[n_rows]."""
        problem, iterate, eta, u = self.problem, self.iterate, self.eta, self.iterate.dual.copy()
        at, row, q, form = (
            self.model.variable,
            self.model.row,
            self.model.coefficient,
            np.empty_like(u),
        )
        before, ahead = iterate.y[at], iterate.ahead[at]
        kernel.dual_update(problem, iterate, eta, 1.0)
        kernel.copied(problem, iterate, u, eta, 1.0, form)
        kernel.x_update(problem, iterate, eta, 1.0)
        self._control[admm_solve.ROUNDS] += 1
        copies, alpha = (
            ahead + (u - iterate.dual)[row] * q / eta,
            eta * (before - ahead) - u[row] * q,
        )
        after, least, norm = iterate.y[at], ABSOLUTE * len(at) ** 0.5, np.linalg.norm
        self.converged = bool(
            norm(copies - after) <= least + RELATIVE * max(norm(copies), norm(after))
            and eta * norm(after - before) <= least + RELATIVE * norm(alpha)
        )
        return form
