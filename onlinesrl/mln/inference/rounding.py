"""What a certificate promises where sums are rounded.

A certified answer has a ``rounding``: no feasible state scores more than the answer's bound plus this. It
covers the errors of sums of doubles and of a solver's tolerance. An answer is only certified if its
rounding is small. That is at most half of the smallest weight that is not 0; or at most a millionth of the
sum of the weights and a thousandth.

Weights may be so large that small ones are lost in sums with them. A weight that is larger than the sum of
all smaller ones outweighs them: if some state satisfies all such large clauses, every best state does. The
large clauses are then made hard, and only the smaller weights are added.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine, Marginals, Solution
from onlinesrl.mln.kernels.weight_magnitude import FAINT, HIGHEST, LARGE, STEEP, UNIT

SHARE, MOST = 1e-6, 1e-3
"""The limits of the rounding if the smallest weight is smaller: a share of the sum, and a number."""

SMALL, SUM, HUGE = 1e-5, 2.0**23, 2.0**40
"""Numbers are scaled for a solver: up to ``SMALL`` while the sum stays below ``SUM``, ``HUGE`` sums to it."""
FINE, COARSE = 1e-9, 1e-6
"""A solver's error per column; the second holds if some numbers are smaller than ``SMALL``."""

IMPOSSIBLE = 1000.0
"""States that score less by this and log 2 per atom have a probability of 0 in a double."""
APART = 1 - 1e-9
"""The sum of the smaller numbers is at most this part of a large one, in spite of rounding."""


@dataclass(frozen=True)
class Magnitude:
    """The size of weights and bonuses: the sum of their absolute values, the largest, the least above 0.

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
        """A bound on the error of probabilities by sums of doubles."""
        return error_of_probability(self.rounding)

    def certifies(self, excess: float) -> bool:
        """Tell whether an answer is certified if another state may score up to ``excess`` more."""
        return excess <= max(self.least / 2, min(SHARE * self.total, MOST))

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
        """Return the error that rounding and a solver's tolerances may cause over so many columns."""
        scale = self.for_solvers
        column = FINE if self.least * scale >= SMALL else COARSE
        return self.rounding + columns * column / scale


def error_of_probability(rounding: float) -> float:
    """Return a bound on the error of probabilities by scores of this rounding."""
    return min(1.0, math.expm1(min(1.0, 2 * rounding)))


class Smaller(NamedTuple):
    """A model whose large weights are hard clauses, and the smaller numbers."""

    model: GroundMRF
    weight: Floats
    bonus: Floats


def hardened(
    model: GroundMRF, weight: Floats, bonus: Floats, margin: float = 0.0
) -> Smaller | None:
    """Return the model with its large weights and bonuses hard; None if no weights stand out.

    Each large one exceeds the sum of all smaller ones by more than ``margin``.
    """
    numbers = np.concatenate((weight, bonus))
    size = np.sort(np.abs(numbers))
    below = np.concatenate(([0.0], np.cumsum(size)))[:-1]
    places = np.flatnonzero((below + margin < APART * size) & (below > 0))[::-1]
    for place in places.tolist():
        large = np.abs(numbers) >= size[place]
        small = np.where(large, 0.0, numbers)
        size_of_small = Magnitude.of(small)
        if size_of_small.rounding < size_of_small.least / 2:
            n = model.n_clauses
            true, false = large[:n] & (numbers[:n] > 0), large[:n] & (numbers[:n] < 0)
            atoms = np.flatnonzero(large[n:])
            units = np.concatenate(
                (
                    -model.literals[np.repeat(false, np.diff(model.start))],
                    np.sign(numbers[n + atoms]) * (atoms + 1),
                )
            ).astype(np.int32)
            smaller = replace(model, hard=model.hard | true).with_units(units, hard=True)
            return Smaller(smaller, np.concatenate((small[:n], np.zeros(len(units)))), small[n:])
    return None


def solve_hardened(
    engine: MapEngine, model: GroundMRF, weight: Floats, bonus: Floats | None
) -> Solution | None:
    """Solve a model whose small weights would be lost; None for other models, or if hardening fails."""
    if not Magnitude.of(weight, bonus).lost:
        return None
    full_bonus = np.zeros(model.n_atoms) if bonus is None else bonus
    smaller = hardened(model, weight, full_bonus)
    if smaller is None:
        return None
    with suppress(Infeasible, Unsolved):
        solution = engine.solve(smaller.model, smaller.weight, bonus=smaller.bonus)
        score, slack = model.score(solution.state, weight, bonus), solution.bound - solution.score
        bound = score + slack
        rounding = solution.rounding + (slack - (bound - score) if np.isfinite(bound) else 0.0)
        return replace(
            solution, score=score, bound=bound, rounding=max(solution.rounding, rounding)
        )
    return None


def hardened_marginals(
    engine: MarginalEngine, model: GroundMRF, weight: Floats
) -> Marginals | None:
    """Return marginals of a model whose small weights would be lost; None as in ``solve_hardened``."""
    if not Magnitude.of(weight).lost:
        return None
    smaller = hardened(model, weight, np.zeros(model.n_atoms), IMPOSSIBLE + model.n_atoms)
    if smaller is None:
        return None
    with suppress(Infeasible, Unsolved):
        marginals = engine.marginals(smaller.model, smaller.weight)
        if marginals.log_z is None:
            return marginals
        large = (smaller.weight[: model.n_clauses] == 0) & (weight > 0)
        return replace(marginals, log_z=marginals.log_z + math.fsum(weight[large].tolist()))
    return None
