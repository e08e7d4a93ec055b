"""What a certificate promises where sums are rounded.

A certified answer has a ``rounding``: no feasible state scores more than the answer's bound by more than
that. It covers what sums of doubles and a solver's tolerance may hide. An answer is only certified where
this is small: at most half of the smallest weight that is not 0, or a millionth of the sum of the weights
and a thousandth.

Weights may be so large that small ones are lost in sums with them. A weight that is larger than the sum of
all smaller ones together outweighs them: if one state satisfies all that are so large, every best state
does. They are then made hard clauses, and only the smaller ones are left to add.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Floats
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine, Marginals, Solution
from onlinesrl.mln.kernels.weight_magnitude import FAINT, HIGHEST, LARGE, UNIT

STEEP = 2.0**12
"""Weights up to this are compared in doubles for probabilities."""
SHARE, MOST = 1e-6, 1e-3
"""What may be hidden where the smallest weight is smaller still: a share of the sum, and at most so much."""

SMALL, SUM, HUGE = 1e-5, 2.0**23, 2.0**40
"""A solver gets numbers of at least ``SMALL`` if their sum stays below ``SUM``; ``HUGE`` sums become that."""
FINE, COARSE = 1e-9, 1e-6
"""What a solver may hide of each column; the second where some numbers are smaller than ``SMALL``."""

IMPOSSIBLE = 1000.0
"""States that score so much less, and log 2 for each atom, have a probability of 0 in a double."""
APART = 1 - 1e-9
"""The sum of the smaller numbers is at most this part of a large one, whatever is rounded."""


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
        column = FINE if self.least * scale >= SMALL else COARSE
        return self.rounding + columns * column / scale


class Smaller(NamedTuple):
    """A model whose large weights are hard clauses, and the smaller numbers."""

    model: GroundMRF
    weight: Floats
    bonus: Floats


def hardened(
    model: GroundMRF, weight: Floats, bonus: Floats, margin: float = 0.0
) -> Smaller | None:
    """Return the model with its large weights and bonuses hard; None where they are not apart.

    They are larger than all others together by more than ``margin``.
    """
    numbers = np.concatenate((weight, bonus))
    size = np.sort(np.abs(numbers))
    below = np.concatenate(([0.0], np.cumsum(size)))[:-1]
    places = np.flatnonzero((below + margin < APART * size) & (below > 0))[::-1]
    for place in places.tolist():
        large = np.abs(numbers) >= size[place]
        rest = np.where(large, 0.0, numbers)
        magnitude = Magnitude.of(rest)
        if magnitude.rounding < magnitude.least / 2:
            return _hard(model, numbers, large, rest)
    return None


def _hard(model: GroundMRF, numbers: Floats, large: Bools, rest: Floats) -> Smaller:
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
    return Smaller(smaller, np.concatenate((rest[:n], np.zeros(len(units)))), rest[n:])


def solve_hardened(
    engine: MapEngine, model: GroundMRF, weight: Floats, bonus: Floats | None
) -> Solution | None:
    """Solve a model whose small weights would be lost; None for others, and where this does not help."""
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
    """Return marginals of a model whose small weights would be lost; None as ``solve_hardened``."""
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
