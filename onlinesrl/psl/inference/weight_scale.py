"""Weights of a size for which tolerances are meant: an engine's are absolute where the energy is below 1.

Small weights are multiplied by a power of two, which changes no digit of the answer, and the energy is
divided by it. Large ones stay as they are, for there the tolerance is relative; but their energies
are certified only if what rounding may hide of them is below the tolerance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.protocols import HingeSolution, Watch

SMALL, LARGE = 2.0**-10, 2.0**20
"""Weights of which the largest is between these are taken as they are."""
UNIT = 2.0**-52
"""The relative distance of doubles."""


def scale(weights: Floats, bonus: Floats | None = None) -> float:
    """Return the power of two by which weights and bonus are to be multiplied; 1 where not needed."""
    top = _largest(weights, bonus)
    return float(2.0 ** -np.floor(np.log2(top))) if 0 < top < SMALL else 1.0


def unscaled(watch: Watch | None, s: float) -> Watch | None:
    """Return what tells of rounds in the units of the weights given."""
    if watch is None or s == 1.0:
        return watch
    return lambda at: watch(at._replace(energy=at.energy / s, bound=at.bound / s))


class ScaledProblem(NamedTuple):
    """The arguments of ``HingeEngine.solve``; weights, bonus and the start's dual by ``factor``."""

    model: HingeLossMRF
    weights: Floats
    bonus: Floats | None
    start: HingeSolution | None
    factor: float


class ScaledEngine(ABC):
    """A ``HingeEngine`` that gets its weights and bonus scaled."""

    @property
    @abstractmethod
    def gap(self) -> float:
        """How close energy and bound of a certified answer are, relative to the energy (absolute below 1)."""

    @abstractmethod
    def solve_scaled(self, problem: ScaledProblem) -> HingeSolution:
        """Do as ``solve``."""

    def solve(
        self,
        model: HingeLossMRF,
        weights: Floats,
        *,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
    ) -> HingeSolution:
        """See ``HingeEngine.solve``."""
        s = scale(weights, bonus)
        if s == 1.0:
            solution = self.solve_scaled(ScaledProblem(model, weights, bonus, start, s))
            if not solution.certified or _largest(weights, bonus) <= LARGE:
                return solution
            most = self.gap * max(1.0, abs(solution.energy))
            hidden = rounding(model, solution.dual, bonus) > most
            return replace(solution, certified=not hidden)
        first = None if start is None else replace(start, dual=s * start.dual)
        gain = None if bonus is None else s * bonus
        solution = self.solve_scaled(ScaledProblem(model, s * weights, gain, first, s))
        energy, dual, bound = solution.energy / s, solution.dual / s, solution.bound / s
        return replace(solution, energy=energy, dual=dual, bound=bound)


def rounding(model: HingeLossMRF, dual: Floats, bonus: Floats | None) -> float:
    """Return how far rounding may have moved an energy, or the bound of a dual."""
    rows = np.abs(model.coefficient * dual[model.row]).sum() + np.abs(dual * model.constant).sum()
    gain = 0.0 if bonus is None else np.abs(bonus).sum()
    terms = len(model.coefficient) + model.n_rows + model.n_variables
    return float(terms * UNIT * (rows + gain))


def _largest(weights: Floats, bonus: Floats | None) -> float:
    gain = 0.0 if bonus is None else float(np.abs(bonus).max(initial=0.0))
    return max(float(np.abs(weights).max(initial=0.0)), gain)
