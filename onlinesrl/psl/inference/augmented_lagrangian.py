"""Values to many digits: Newton's method on the augmented Lagrangian, from where ADMM ends.

A certificate bounds the energy, and values that are off by d have energies that are off by d^2: half of their
digits are not in it. Where energies are strictly convex, as with a ridge, this finds nearly all. Rows with a
curvature are smooth; the others, and the box as rows, get a proximal term of their dual u,
``(u - before)^2 / (2 STIFF)``, until that is 0 (Rockafellar 1976). What remains is piecewise quadratic:
semismooth Newton steps (Qi & Sun 1993) with an exact line search.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import conjugates
from onlinesrl.psl.inference.protocols import HingeSolution

STIFF = 1e3
"""How fast proximal terms come to 0; what is larger costs digits."""
ROUNDS, STEPS, TRIES = 100, 100, 50
"""The most proximal terms, the most steps with one, and the most lengths of a step that are tried."""
SYMMETRIC: dict[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}
"""How SuperLU factors a positive definite matrix."""
ROUNDING, FLAT = 1e-14, 1e-3
"""What is added to a Hessian's diagonal, relative to the largest; how flat it is where a step ends."""


@dataclass(frozen=True)
class Augmented:
    """Minimises strictly convex energies until no value would move, nor a row be off, by ``tolerance``.

    ``certified`` says that it is so; ``bound`` is that of ADMM, whose answer is the start.
    """

    tolerance: float = 1e-9
    admm: Admm = field(default_factory=lambda: Admm(tolerance=1e-4))

    def solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
    ) -> HingeSolution:
        """See ``HingeEngine.solve``."""
        near = self.admm.solve(model, weights, bonus=bonus, start=start)
        gain = np.zeros(model.n_variables) if bonus is None else bonus
        problem = _Problem(model, weights, gain)
        y, dual = near.y, problem.duals(near)
        moved = off = np.inf
        for _ in range(ROUNDS):
            y, new, moved = problem.least(y, dual, self.tolerance)
            off = float(np.max(problem.prox * np.abs(new - dual), initial=0.0))
            dual = new
            if off <= self.tolerance:
                break
        y, solved = np.clip(y, 0.0, 1.0), max(moved, off) <= self.tolerance
        energy = model.energy(y, weights) - float(gain @ y)
        dual_of_rows = dual[: model.n_rows]
        return replace(
            near, y=y, energy=energy, dual=dual_of_rows, route="newton", certified=solved
        )


class _Problem:
    """A model's rows as a sparse matrix, then ``y <= 1`` and ``-y <= 0``, with the ends of their duals."""

    def __init__(self, model: HingeLossMRF, weights: Floats, bonus: Floats) -> None:
        from scipy import sparse

        n, rows = model.n_variables, conjugates(model, weights)
        shape, identity = (model.n_rows, n), sparse.eye_array(n, format="csr")
        matrix = sparse.csr_array((model.coefficient, model.variable, model.start), shape)
        self.forms: Any = sparse.vstack((matrix, identity, -identity), format="csr")
        self.constant = np.concatenate((model.constant, np.full(n, -1.0), np.zeros(n)))
        self.low = np.append(rows.low, np.zeros(2 * n))
        self.high = np.append(rows.high, np.full(2 * n, np.inf))
        curvature = np.append(rows.curvature, np.zeros(2 * n))
        self.prox = np.where(curvature > 0, 0.0, 1.0 / STIFF)
        self.curvature = curvature + self.prox
        self.bonus = bonus

    def duals(self, near: HingeSolution) -> Floats:
        """Return the duals of a solution, those of bounds as the others leave them, float64[rows]."""
        m = len(near.dual)
        dual_of_rows = np.clip(near.dual, self.low[:m], self.high[:m])
        pull = self.bonus - self.forms[:m].T @ dual_of_rows
        above, below = (near.y >= 1.0) * pull, (near.y <= 0.0) * -pull
        return np.concatenate((dual_of_rows, np.maximum(above, 0.0), np.maximum(below, 0.0)))

    def dual(self, form: Floats, before: Floats) -> Floats:
        """Return the duals at forms, float64[rows]."""
        wanted = (form + self.prox * before) / self.curvature
        duals: Floats = np.clip(wanted, self.low, self.high)
        return duals

    def slopes(self, dual: Floats) -> Floats:
        """Return how fast duals rise with their forms, float64[rows]."""
        inside = (self.low < dual) & (dual < self.high)
        return np.where(inside, 1.0 / self.curvature, 0.0)

    def least(self, y: Floats, before: Floats, tolerance: float) -> tuple[Floats, Floats, float]:
        """Minimise the augmented Lagrangian; return values, duals, and by what the last step moved them."""
        from scipy.sparse import diags_array
        from scipy.sparse.linalg import splu

        moved = np.inf
        for _ in range(STEPS):
            form = self.forms @ y + self.constant
            dual = self.dual(form, before)
            hessian = self.forms.T @ diags_array(self.slopes(dual)) @ self.forms
            diagonal = np.full(len(y), ROUNDING * float(hessian.diagonal().max(initial=1.0)))
            gradient = self.forms.T @ dual - self.bonus
            factors = splu((hessian + diags_array(diagonal)).tocsc(), **SYMMETRIC)
            step = -factors.solve(gradient)
            y = y + self.length(form, step, before) * step
            moved = float(np.max(np.abs(step), initial=0.0))
            if moved <= tolerance:
                break
        return y, self.dual(self.forms @ y + self.constant, before), moved

    def length(self, form: Floats, step: Floats, before: Floats) -> float:
        """Return the share of a step after which there is no descent along it, by Newton and bisection."""
        change, gain = self.forms @ step, float(np.sum(self.bonus * step))
        low, high, share = 0.0, np.inf, 1.0
        first = float(np.sum(change * self.dual(form, before))) - gain
        for _ in range(TRIES):
            dual = self.dual(form + share * change, before)
            slope = float(np.sum(change * dual)) - gain  # not by BLAS, whose threads wait longer
            if abs(slope) <= FLAT * abs(first):
                break
            low, high = (low, share) if slope > 0 else (share, high)
            share -= slope / max(float(np.sum(self.slopes(dual) * change**2)), 1e-300)
            if not low < share < high:
                share = 2.0 * low + 1.0 if np.isinf(high) else (low + high) / 2.0
        return share
