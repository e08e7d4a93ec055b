"""ADMM as published: local copies of every variable with one penalty (Bach et al. 2015, Algorithm 1)."""

from __future__ import annotations

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HINGE, HingeLossMRF

ABSOLUTE, RELATIVE = 1e-5, 1e-3
"""The tolerances of the residuals (Boyd et al. 2011, section 3.3.1)."""


class ConsensusAdmm:
    """The state of ADMM between two rounds: ``alpha += eta c(v, y)``, then ``v``, then ``y``.

    Each row has copies v of its variables y, float64[entries]. There is no over-relaxation, and every copy
    has the penalty ``eta``. The energy is that of the model less ``bonus . y``.
    """

    def __init__(
        self, model: HingeLossMRF, weights: Floats, bonus: Floats, eta: float = 1.0
    ) -> None:
        self.model, self.bonus, self.eta = model, bonus, eta
        self.n_rounds, self.converged = 0, False
        self.y = np.full(model.n_variables, 0.5)
        self._row, self._at = model.row, model.variable
        self._degree = np.bincount(self._at, minlength=model.n_variables)
        square = np.bincount(self._row, model.coefficient**2, model.n_rows)
        self._square = np.where(square > 0, square, np.inf)
        self._copies, self._dual = self.y[self._at], np.zeros(len(self._at))
        self.reweigh(weights)

    def reweigh(self, weights: Floats) -> None:
        """Change the weights; copies, duals and values stay."""
        self._weight = self.model.row_weights(weights)

    def keep(self, eta: float) -> None:
        """Use the step size ``eta`` in all rounds."""
        self.eta = eta

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
        model, eta, before = self.model, self.eta, self.y
        self._dual += eta * (self._copies - before[self._at])
        ahead = before[self._at] - self._dual / eta
        form = np.bincount(self._row, model.coefficient * ahead, model.n_rows) + model.constant
        self._copies = ahead - self._steps(form)[self._row] * model.coefficient
        total = np.bincount(self._at, self._copies + self._dual / eta, model.n_variables)
        alone = np.where(self.bonus != 0, self.bonus > 0, before)
        mean = (total + self.bonus / eta) / np.maximum(self._degree, 1)
        self.y = np.where(self._degree > 0, np.clip(mean, 0.0, 1.0), alone)
        self.n_rounds += 1
        shared, least, norm = self.y[self._at], ABSOLUTE * len(self._at) ** 0.5, np.linalg.norm
        primal, dual = norm(self._copies - shared), eta * norm(shared - before[self._at])
        size = max(norm(self._copies), norm(shared))
        self.converged = bool(
            primal <= least + RELATIVE * size and dual <= least + RELATIVE * norm(self._dual)
        )
        product = model.coefficient * self._copies
        forms: Floats = np.bincount(self._row, product, model.n_rows) + model.constant
        return forms

    def _steps(self, form: Floats) -> Floats:
        """Return t, float64[n_rows]: ``u - t q`` minimises a row and its penalty; ``form`` is that of u."""
        model, weight = self.model, self._weight
        projected = form / self._square
        curved = 2.0 * weight * form / (self.eta + 2.0 * weight * np.minimum(self._square, 1e300))
        sloped = np.where(model.power == 2, curved, weight / self.eta)
        hinged = np.where(form > 0, np.minimum(sloped, projected), 0.0)
        kinds = [model.kind == HINGE, model.kind == AT_MOST, model.kind == EQUAL]
        steps: Floats = np.select(kinds, [hinged, np.maximum(projected, 0.0), projected], sloped)
        return steps
