"""The steps of stochastic gradient descent: passes over rows in random order (Srinivasan 2020, chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF, with_powers
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
        self._moments = kernel.Moments.zeros(variable=n_variables)

    def step(self, rows: HingeLossMRF, weights: Floats, order: Ints, y: Floats, t: int) -> float:
        """Take a step for each row in ``order``, in pass ``t`` from 1.

        Returns the sum of their energies, each before its step.
        """
        rate = self._rate / t if self._decay else self._rate
        if self._optimizer == "adam":
            return kernel.descend_adam(rows, weights, order, y, rate, self._moments)
        if self._optimizer == "adagrad":
            return kernel.descend_adagrad(rows, weights, order, y, rate, self._moments.second)
        return kernel.descend(rows, weights, order, y, rate)


def with_bonus(
    model: HingeLossMRF, weights: Floats, bonus: Floats | None
) -> tuple[HingeLossMRF, Floats]:
    """Return a model and its weights that have a bonus as potentials: ``-bonus . y``."""
    if bonus is None:
        return model, weights
    return with_powers(model, len(weights), 1), np.append(weights, -bonus)
