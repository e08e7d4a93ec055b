"""The structured perceptron (Collins 2002).

>>> Perceptron(eta=0.5).step(t=2, margin=1.0, dot=0.0, norm=4.0)
(0.5, 0.0)
"""

from __future__ import annotations

from abc import ABC
from typing import Literal

from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.online.update_rules.rule import Update, UpdateParams


class ConstantStep(Update, ABC):
    """An update of the same step for every example."""

    eta: Positive = 1.0
    """the size of a step."""

    @property
    def constant(self) -> float:
        """See ``Update.constant``."""
        return self.eta

    @staticmethod
    @kernel
    def formula(
        params: UpdateParams, t: int, margin: float, dot: float, norm: float
    ) -> tuple[float, float]:
        """Return c = eta."""
        return params.constant, 0.0


class Perceptron(ConstantStep):
    """The structured perceptron (Collins 2002)."""

    name = "perceptron"
    loss: Literal["pl"] = "pl"
