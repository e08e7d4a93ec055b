"""Coordinate dual ascent with a rate of its own for each weight (Duchi, Hazan & Singer 2011).

The regulariser is sigma/2 ||w - base||_H^2 with the diagonal H = delta + sqrt(sum of Delta^2 over the steps
so far), so that weights which have rarely moved take large steps. As in CDA1 there is one dual multiplier
alpha_t in [0, 1] per example, the one that raises the dual

    D = sum_t alpha_t (rho_t - <base, Delta_t>) - 1 / (2 sigma) ||sum_t alpha_t Delta_t||^2 in H^-1

most, by H with its own Delta^2 in it: w_{t+1} - base = u = H^-1 sum_t alpha_t Delta_t / sigma. An example
without a loss changes neither u nor H. By weak duality D, taken with the H of the end, is below the
regularised loss of all fixed weights: the bound is on the excess of the summed loss over the least
regularised loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Positive
from onlinesrl.core.jit.decorators import plain
from onlinesrl.core.kernels import step_sizes
from onlinesrl.core.online.update_rules.rule import CoordinateAscent, Kept


class AdaGradCda(CoordinateAscent):
    """Coordinate dual ascent, each weight's step divided by ``delta`` + the norm of its gaps so far."""

    columns = ("square",)
    update: Literal["adagrad"] = "adagrad"
    delta: Positive = 1.0
    """what is added to the norm of a weight's gaps; smaller values make larger first steps."""

    def how(self, kept: Kept) -> step_sizes.UpdateParams:
        """See ``Update.how``."""
        found = super().how(kept)
        if "square" not in kept:
            return found
        return replace(found, delta=self.delta, square=kept["square"], rates=True)

    def metric(self, kept: Kept, delta: Floats | float = 0.0) -> Floats | float:
        """See ``Update.metric``."""
        divisor: Any = plain(step_sizes.divisor)
        found: Floats = divisor(self.delta, kept["square"] + delta**2)
        return found

    def keep(self, kept: Kept, delta: Floats) -> None:
        """See ``Update.keep``."""
        kept["square"][:] += delta**2
