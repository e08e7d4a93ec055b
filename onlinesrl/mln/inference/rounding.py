"""What a certificate promises where sums are rounded.

No feasible state scores more than the bound of a certified answer, up to the errors of sums of doubles and of
a solver's tolerance. With these, the bound exceeds the score by at most half of the smallest weight that is
not 0; or by at most a millionth of the sum of the weights and a thousandth. Where the errors alone may be
larger, no answer is certified. A model is refused if a weight above ``weight_magnitude.SAFE`` is the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Unsolved
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.kernels.weight_magnitude import HIGHEST, TOLERANCE, UNIT

SHARE = 1e-6
"""The largest error as a share of the sum, if the smallest weight is smaller."""

SEARCHED = 1e-9
"""The largest error of branch and bound as a share of the sum."""
SMALL, SUM, HUGE = 1e-4, 2.0**23, 2.0**40
"""Numbers are scaled for a solver: up to ``SMALL`` while the sum stays below ``SUM``, ``HUGE`` sums to it."""
FINE, COARSE = 1e-8, 1e-6
"""A solver's error per column; the second holds if some numbers are smaller than ``SMALL``."""


@dataclass(frozen=True)
class Magnitude:
    """The size of weights and bonuses: the sum of their absolute values, and the least above 0.

    ``step`` divides all of them, and so the difference of any two scores; 0: none is known. ``rounding``
    bounds the error of any sum of these numbers, in whatever order they are added.
    """

    total: float
    least: float
    step: float
    rounding: float

    @classmethod
    def of(cls, weight: Floats, bonus: Floats | None = None) -> Magnitude:
        """Measure weights and a bonus. Raises Unsolved where they, or their sum, are not finite."""
        size = np.abs(weight if bonus is None else np.concatenate((weight, bonus)))
        with np.errstate(over="ignore"):
            total = float(size.sum())
        if not total <= HIGHEST:
            raise Unsolved(
                "the weights and the bonus must be finite, and so must their sum: make the rule of a large "
                "weight hard, with a full stop at its end"
            )
        least = float(size.min(where=size > 0, initial=np.inf))
        step = least if total > 0 and not np.any(np.fmod(size, least)) else 0.0
        return cls(total, least, step, (len(size) + 1) * UNIT * total)

    @property
    def coarse(self) -> bool:
        """Whether sums of doubles are too coarse for a certificate."""
        return not self.certifies(self.rounding)

    def certifies(self, excess: float) -> bool:
        """Tell whether an answer is certified if another state may score up to ``excess`` more."""
        return excess <= max(self.least / 2, min(SHARE * self.total, TOLERANCE))

    def better(self, a: Solution, b: Solution, columns: int) -> Solution:
        """Return the better of two answers, the first of equal ones, with the least bound.

        A solver's program has at most so many ``columns``. The bound of one proves the state of another where
        they meet, up to errors, or where no score can lie between them.
        """
        best, least = a if a.score >= b.score else b, min(a.bound, b.bound)
        gap, error = least - best.score, self.rounding + self.hidden(columns)
        meet = gap <= max(self.step / 2, error, SEARCHED * self.total)
        certified = best.score > -np.inf and meet and self.certifies(gap + error)
        route = b.route if certified else best.route
        return Solution(best.state, best.score, max(least, best.score), route, certified)

    def scale(self, total: float) -> float:
        """Return the power of two that makes the sum about ``total``."""
        return float(2.0 ** np.round(np.log2(total / self.total))) if self.total > 0 else 1.0

    @property
    def for_solvers(self) -> float:
        """The power of two by which numbers are scaled for a solver with absolute tolerances."""
        if self.total > HUGE:
            return self.scale(SUM)
        if self.least >= SMALL:
            return 1.0
        return max(1.0, min(self.scale(SUM), float(2.0 ** np.ceil(np.log2(SMALL / self.least)))))

    def hidden(self, columns: int) -> float:
        """Return the error that a solver's tolerances may cause over so many columns."""
        scale = self.for_solvers
        return columns * (FINE if self.least * scale >= SMALL else COARSE) / scale
