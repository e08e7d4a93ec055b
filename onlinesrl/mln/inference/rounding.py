"""What a certificate promises where sums are rounded.

A certified answer has a ``rounding``: no feasible state scores more than the answer's bound by more than
that. It covers what sums of doubles and a solver's tolerance may hide. An answer is only certified where
this is small: at most half of the smallest weight that is not 0, or a millionth of the sum of the weights
and a thousandth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.mln.kernels.weight_magnitude import FAINT, HIGHEST, LARGE, UNIT

STEEP = 2.0**12
"""Weights up to this are compared in doubles for probabilities."""
SHARE, MOST = 1e-6, 1e-3
"""What may be hidden where the smallest weight is smaller still: a share of the sum, and at most so much."""

SMALL, SUM, HUGE = 1e-5, 2.0**23, 2.0**40
"""A solver gets numbers of at least ``SMALL`` if their sum stays below ``SUM``; ``HUGE`` sums become that."""
FINE, COARSE = 1e-9, 1e-6
"""What a solver may hide of each column; the second where some numbers are smaller than ``SMALL``."""


@dataclass(frozen=True)
class Magnitude:
    """The size of weights and bonuses: the sum of their absolute values, the largest, the least but 0.

    ``rounding`` bounds the error of any sum of these numbers, in whatever order they are added.
    """

    total: float
    largest: float
    least: float
    rounding: float

    @classmethod
    def of(cls, weight: Floats, bonus: Floats | None = None) -> Magnitude:
        """Measure weights and a bonus. Raises ValueError where they, or their sum, are not finite."""
        size = np.abs(weight if bonus is None else np.concatenate((weight, bonus)))
        total = float(size.sum())
        if not total <= HIGHEST:
            raise ValueError("the weights and the bonus must be finite, and so must their sum")
        least = float(size.min(where=size > 0, initial=np.inf))
        largest = float(size.max(initial=0.0))
        return cls(total, largest, least, (len(size) + 1) * UNIT * total)

    @property
    def lost(self) -> bool:
        """Whether the smallest number may be lost in a sum of doubles."""
        return self.total > LARGE and self.rounding >= max(self.least / 2, FAINT)

    @property
    def steep(self) -> bool:
        """Whether probabilities by sums of doubles may be wrong by more than a billionth."""
        return self.largest > STEEP

    @property
    def of_probability(self) -> float:
        """How far probabilities by sums of doubles may be wrong at most."""
        return min(1.0, math.expm1(min(1.0, 2 * self.rounding)))

    def certifies(self, excess: float) -> bool:
        """Tell whether an answer is certified beyond which another state may score by ``excess``."""
        return excess <= max(self.least / 2, min(SHARE * self.total, MOST))

    def scale(self, total: float) -> float:
        """Return the power of two that makes the sum about ``total``."""
        return float(2.0 ** np.round(np.log2(total / self.total))) if self.total > 0 else 1.0

    @property
    def for_solvers(self) -> float:
        """The power of two that numbers are multiplied by for a solver of absolute tolerances."""
        if self.total > HUGE:
            return self.scale(SUM)
        if self.least >= SMALL:
            return 1.0
        return max(1.0, min(self.scale(SUM), float(2.0 ** np.ceil(np.log2(SMALL / self.least)))))

    def hidden(self, columns: int) -> float:
        """Return what rounding and a solver's tolerances may hide, of so many columns."""
        scale = self.for_solvers
        each = FINE if self.least * scale >= SMALL else COARSE
        return self.rounding + columns * each / scale
