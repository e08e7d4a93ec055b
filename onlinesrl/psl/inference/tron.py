"""Trust-region Newton: the engine for small models of squared hinges, many in one call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HINGE, HingeLossMRF, Micrographs
from onlinesrl.psl.inference.dual import check_weights
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.weight_scale import LARGE, ScaledEngine, ScaledProblem, scale
from onlinesrl.psl.kernels import tron as kernel


@dataclass(frozen=True)
class Tron(ScaledEngine):
    """Minimises ``w . Phi(y) - bonus . y`` by TRON (Srinivasan 2020, equation 5.13, its ridge a potential).

    For squared potentials, and linear ones without hinge. A micrograph is solved when a projected
    gradient step moves no value by more than ``tolerance``, or after ``iterations`` steps.
    """

    gap = 1e-6
    tolerance: float = 1e-8
    iterations: int = 1000

    def solve_scaled(self, problem: ScaledProblem) -> HingeSolution:
        """See ``ScaledEngine``."""
        model, weights, bonus, start, _ = problem
        whole = np.array([0, model.n_variables]), np.array([0, model.n_rows])
        first = None if start is None else start.y
        (solution,) = self._solved(Micrographs(model, *whole), weights, bonus, first)
        return solution

    def solutions(self, graphs: Micrographs, weights: Floats) -> list[HingeSolution]:
        """See ``EachEngine``."""
        if scale(weights) == 1.0 and np.abs(weights).max(initial=0.0) <= LARGE:
            return self._solved(graphs, weights, None, None)
        models = map(graphs.micrograph, range(len(graphs.first_row) - 1))
        return [self.solve(model, weights) for model in models]

    def _solved(
        self, graphs: Micrographs, weights: Floats, bonus: Floats | None, start: Floats | None
    ) -> list[HingeSolution]:
        objective = self._objective(graphs.model, weights, bonus)
        y, steps = self._minimised(objective, graphs, start)
        dual, gradient = np.empty(graphs.model.n_rows), np.empty(graphs.model.n_variables)
        energy, bound = np.empty((2, len(steps)))
        kernel.certify_each(
            objective, graphs.first_variable, graphs.first_row, y, dual, gradient, energy, bound
        )
        close = energy - bound <= self.gap * np.maximum(1.0, np.abs(energy))
        return [
            HingeSolution(
                y[graphs.first_variable[n] : graphs.first_variable[n + 1]],
                float(energy[n]),
                dual[graphs.first_row[n] : graphs.first_row[n + 1]],
                float(bound[n]),
                0.0,
                int(steps[n]),
                "tron",
                certified=bool(close[n]),
            )
            for n in range(len(steps))
        ]

    def solve_each(self, graphs: Micrographs, weights: Floats) -> tuple[Floats, Ints]:
        """Minimise every micrograph: values float64[n_variables], steps int64[micrographs].

        Raises ValueError for hinges of power 1, which have no second derivative, and for constraints.
        """
        return self._minimised(self._objective(graphs.model, weights, None), graphs, None)

    def _objective(
        self, model: HingeLossMRF, weights: Floats, bonus: Floats | None
    ) -> kernel.Objective:
        """Return what the kernels minimise. Raises ValueError as ``solve_each`` does."""
        if np.any((model.kind == HINGE) & (model.power == 1)):
            raise ValueError("TRON takes no hinge of power 1, it has no curvature: use ADMM")
        if np.any(model.kind >= AT_MOST):
            raise ValueError("the engine takes no constraints: use ADMM")
        check_weights(model, weights)
        gain = np.zeros(model.n_variables) if bonus is None else bonus
        return kernel.Objective(model, weights, gain)

    def _minimised(
        self, objective: kernel.Objective, graphs: Micrographs, start: Floats | None
    ) -> tuple[Floats, Ints]:
        """Minimise from a start, float64[n_variables], or from 1/2; see ``solve_each``."""
        n, first_row = graphs.model.n_variables, graphs.first_row
        y = np.full(n, 0.5) if start is None else start.copy()
        steps = np.full(len(first_row) - 1, self.iterations)
        memory = kernel.Memory.zeros(variable=n, row=graphs.model.n_rows)
        places = graphs.first_variable, first_row
        kernel.minimise_each(objective, memory, *places, y, self.tolerance, steps)
        return y, steps
