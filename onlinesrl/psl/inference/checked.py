"""Engines of somebody's own for PSL: the package computes their bounds, and certifies by these alone."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible, ModuleError, Unsolved
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.weight_scale import ScaledEngine, ScaledProblem


@dataclass(frozen=True)
class Checked(ScaledEngine):
    """A ``HingeEngine`` by a minimiser called ``name``, of which values and multipliers are taken.

    It gets copies, so that nothing it writes changes the bound that certifies its values.
    """

    name: str
    minimise: Callable[[HingeLossMRF, Floats, Floats], tuple[Floats, Floats | None]]

    @property
    def gap(self) -> float:
        """See ``ScaledEngine``."""
        return Admm.tolerance

    def solve_scaled(self, problem: ScaledProblem) -> HingeSolution:
        """See ``ScaledEngine``; certified as ADMM's answers are. Raises ModuleError."""
        model, weights, bonus, _, _ = problem
        gain = np.zeros(model.n_variables) if bonus is None else bonus
        try:
            y, dual = self.minimise(deepcopy(model), weights.copy(), gain.copy())
            y = np.asarray(y, np.float64)
            dual = np.zeros(model.n_rows) if dual is None else np.asarray(dual, np.float64)
        except (Infeasible, Unsolved, TypeError, ValueError) as error:
            raise ModuleError(f"{self.name}: expected values and multipliers: {error}") from error
        if y.shape != (model.n_variables,) or not np.all((y >= 0) & (y <= 1)):
            raise ModuleError(f"{self.name}: expected {model.n_variables} values from 0 to 1")
        if dual.shape != (model.n_rows,) or not np.all(np.isfinite(dual)):
            raise ModuleError(f"{self.name}: expected {model.n_rows} finite multipliers")
        energy = model.energy(y, weights) - float(gain @ y)
        bound, violation = lower_bound(model, weights, dual, bonus), model.violation(y)
        close = energy - bound <= self.gap * max(1.0, abs(energy))
        certified = bool(close and violation <= Admm.violation)
        return HingeSolution(y, energy, dual, bound, violation, 0, self.name, certified)
