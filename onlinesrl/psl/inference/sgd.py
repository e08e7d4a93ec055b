"""Stochastic gradient descent: passes over the rows in random order (Srinivasan 2020, chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF, with_powers
from onlinesrl.psl.inference.dual import conjugates, lower_bound, weighted_rows
from onlinesrl.psl.inference.protocols import HingeSolution, Round, Watch
from onlinesrl.psl.inference.tron import potential_rows
from onlinesrl.psl.inference.weight_scale import ScaledEngine, ScaledProblem, unscaled
from onlinesrl.psl.kernels import potentials
from onlinesrl.psl.kernels import sgd as kernel

Optimizer: TypeAlias = Literal["sgd", "adam", "adagrad"]
RATES: Mapping[Optimizer, float] = {"sgd": 0.5, "adam": 0.01, "adagrad": 0.3}
"""The rate of each optimiser where none is chosen."""


class Descent:
    """Takes a step for every row, by the gradient alone, by Adam, or with AdaGrad's rates.

    ``rate`` is by default that of ``RATES``; with ``decay`` (by default with ``sgd`` only) it is divided by
    the number of the pass.
    """

    def __init__(
        self, optimizer: Optimizer, rate: float | None, decay: bool | None, n_variables: int
    ) -> None:
        self._optimizer = optimizer
        self._rate = RATES[optimizer] if rate is None else rate
        self._decay = optimizer == "sgd" if decay is None else decay
        first, second = np.zeros((2, n_variables))
        self._moments = kernel.Moments(first, second, np.zeros(n_variables, np.int64))

    def step(self, rows: potentials.Potentials, order: Ints, y: Floats, t: int) -> float:
        """Take a step for each row in ``order``, in pass ``t`` from 1.

        Returns the sum of their energies, each before its step.
        """
        rate = self._rate / t if self._decay else self._rate
        if self._optimizer == "adam":
            return kernel.descend_adam(rows, order, y, rate, self._moments)
        if self._optimizer == "adagrad":
            return kernel.descend_adagrad(rows, order, y, rate, self._moments.second)
        return kernel.descend(rows, order, y, rate)


def with_bonus(
    model: HingeLossMRF, weights: Floats, bonus: Floats | None
) -> tuple[HingeLossMRF, Floats]:
    """Return a model and its weights that have a bonus as potentials: ``-bonus . y``."""
    if bonus is None:
        return model, weights
    return with_powers(model, len(weights), 1), np.append(weights, -bonus)


@dataclass(frozen=True)
class Sgd(ScaledEngine):
    """The steps of ``Descent`` in passes over all rows; ValueError for constraints. Seldom certified.

    It ends after ``rounds`` passes, or when a pass changes the energy by less than ``tolerance``, relative
    to it (absolute below 1), and returns the values of lowest energy after any pass. The default start is
    1/2. ``watch`` is called after every pass. The orders of rows depend on ``seed`` only. The best rate
    depends on the weights and on the number of rows per variable.
    """

    gap = 1e-5
    optimizer: Optimizer = "sgd"
    rate: float | None = None
    decay: bool | None = None
    rounds: int = 500
    tolerance: float = 1e-6
    seed: int = 0
    watch: Watch | None = field(default=None, compare=False)

    def solve_scaled(self, problem: ScaledProblem) -> HingeSolution:
        """See ``ScaledEngine``."""
        model, weights, bonus, start, factor = problem
        watch = unscaled(self.watch, factor)
        whole, both = with_bonus(model, weights, bonus)
        rows = potential_rows(whole, both, None, 0.0)
        every = potentials.Range(0, whole.n_variables, 0, whole.n_rows)
        y = np.full(model.n_variables, 0.5) if start is None else start.y.copy()
        descent = Descent(self.optimizer, self.rate, self.decay, len(y))
        random = np.random.default_rng(self.seed)
        energy = lowest = potentials.energy(rows, every, y)
        best, t, change = y.copy(), 0, np.inf
        while t < self.rounds and change > self.tolerance * max(1.0, abs(energy)):
            t += 1
            descent.step(rows, random.permutation(whole.n_rows), y, t)
            before, energy = energy, potentials.energy(rows, every, y)
            change = abs(energy - before)
            if watch is not None:
                watch(Round(t, energy, -np.inf, 0.0))
            if energy < lowest:
                best[:], lowest = y, energy
        dual = conjugates(weighted_rows(model, weights)).slope(model.forms(best))
        bound = lower_bound(model, weights, dual, bonus)
        close = lowest - bound <= self.gap * max(1.0, abs(lowest))
        return HingeSolution(best, lowest, dual, bound, 0.0, t, "sgd", certified=close)
