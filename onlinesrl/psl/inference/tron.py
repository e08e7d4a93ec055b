"""Trust-region Newton: the engine for small models of squared hinges, many in one call."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HINGE, HingeLossMRF, Micrographs
from onlinesrl.psl.inference.dual import dual_at, weighted_rows
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.weight_scale import in_scale, scale
from onlinesrl.psl.kernels import tron as kernel
from onlinesrl.psl.kernels.potentials import Potentials

CERTIFIED = 1e-6
"""How close energy and bound must be, relative to the energy (absolute below 1)."""


@dataclass(frozen=True)
class Tron:
    """Minimises ``w . Phi(y) + ridge |y|^2 - bonus . y`` (Srinivasan 2020, equation 5.13) by TRON.

    For squared potentials, and linear ones without hinge. A micrograph is solved when a projected
    gradient step moves no value by more than ``tolerance``, or after ``iterations`` steps.
    """

    ridge: float = 0.0
    tolerance: float = 1e-8
    iterations: int = 1000

    def solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
    ) -> HingeSolution:
        """See ``HingeEngine.solve``, the energy with the ridge; ValueError as in ``solve_each``."""
        engine = replace(self, ridge=scale(weights, bonus) * self.ridge)
        return in_scale(engine._solve, model, weights, bonus, start, CERTIFIED)

    def _solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        bonus: Floats | None,
        start: HingeSolution | None,
    ) -> HingeSolution:
        whole = np.array([0, model.n_variables]), np.array([0, model.n_rows])
        first = None if start is None else start.y
        y, steps = self.solve_each(Micrographs(model, *whole), weights, bonus=bonus, start=first)
        return self._certified(y, int(steps[0]), model, weights, bonus)

    def _certified(
        self, y: Floats, steps: int, model: HingeLossMRF, weights: Floats, bonus: Floats | None
    ) -> HingeSolution:
        energy = model.energy(y, weights) + self.ridge * float(y @ y)
        energy -= 0.0 if bonus is None else float(bonus @ y)
        dual, bound = dual_at(model, weights, y, bonus, self.ridge)
        close = energy - bound <= CERTIFIED * max(1.0, abs(energy))
        return HingeSolution(y, energy, dual, bound, 0.0, steps, "tron", certified=close)

    def solutions(self, graphs: Micrographs, weights: Floats) -> list[HingeSolution]:
        """See ``EachEngine``."""
        engine = replace(self, ridge=scale(weights) * self.ridge)
        y, steps = self.solve_each(graphs, weights)
        found = []
        for n, first in enumerate(graphs.first_variable[:-1]):
            values = y[first : graphs.first_variable[n + 1]]

            def certified(
                model: HingeLossMRF, scaled: Floats, *_: object, y: Floats = values, n: int = n
            ) -> HingeSolution:
                return engine._certified(y, int(steps[n]), model, scaled, None)

            model = graphs.micrograph(n)
            found.append(in_scale(certified, model, weights, None, None, CERTIFIED))
        return found

    def solve_each(
        self,
        graphs: Micrographs,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: Floats | None = None,
    ) -> tuple[Floats, Ints]:
        """Minimise every micrograph: values float64[n_variables], steps int64[micrographs].

        ``bonus`` and ``start`` (1/2 without) are float64[n_variables]. Raises ValueError for hinges of
        power 1, which have no second derivative, for constraints, and for a ridge below 0.
        """
        model = graphs.model
        if np.any((model.kind == HINGE) & (model.power == 1)):
            raise ValueError("TRON takes no hinge of power 1, it has no curvature: use ADMM")
        if self.ridge < 0:
            raise ValueError("the ridge is below 0")
        s = scale(weights, bonus)
        gain = None if bonus is None else s * bonus
        rows = potential_rows(model, s * weights, gain, s * self.ridge)
        y = np.full(model.n_variables, 0.5) if start is None else start.copy()
        steps = np.full(len(graphs.first_row) - 1, self.iterations)
        memory = kernel.memory(model.n_variables, model.n_rows)
        kernel.minimise_each(
            rows, memory, graphs.first_variable, graphs.first_row, y, self.tolerance, steps
        )
        return y, steps


def potential_rows(
    model: HingeLossMRF, weights: Floats, bonus: Floats | None, ridge: float
) -> Potentials:
    """Return a model without constraints as the kernels read it; ValueError where it has some."""
    if np.any(model.kind >= AT_MOST):
        raise ValueError("the engine takes no constraints: use ADMM")
    return weighted_rows(model, weights, bonus, float(ridge))
