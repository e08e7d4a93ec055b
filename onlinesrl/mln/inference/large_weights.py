"""Weights so large that small ones are lost in sums with them: as hard clauses, where all can be satisfied.

A weight that is larger than the sum of all smaller ones together outweighs them. If one state satisfies
all that are so large, every best state does, and only the smaller ones are left to add.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Floats
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine, Marginals, Solution, value
from onlinesrl.mln.inference.rounding import Magnitude

IMPOSSIBLE = 1000.0
"""States that score so much less, and log 2 for each atom, have a probability of 0 in a double."""
SHARE = 1 - 1e-9
"""The sum of the smaller numbers is at most this part of a large one, whatever is rounded."""


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
    apart = np.flatnonzero((below + margin < SHARE * size) & (below > 0))[::-1]
    for place in apart.tolist():
        large = np.abs(numbers) >= size[place]
        rest = np.where(large, 0.0, numbers)
        left = Magnitude.of(rest)
        if left.rounding < left.least / 2:
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
    more = int(model.start[-1]) + 1 + np.arange(len(units))
    smaller = replace(
        model,
        start=np.concatenate((model.start, more)),
        literals=np.concatenate((model.literals, units)),
        hard=np.concatenate((model.hard | true, np.ones(len(units), np.bool_))),
    )
    return Smaller(smaller, np.concatenate((rest[:n], np.zeros(len(units)))), rest[n:])


def solved(
    engine: MapEngine, model: GroundMRF, weight: Floats, bonus: Floats | None
) -> Solution | None:
    """Solve a model whose small weights would be lost; None for others, and where this does not help."""
    if not Magnitude.of(weight, bonus).lost:
        return None
    own = np.zeros(model.n_atoms) if bonus is None else bonus
    smaller = hardened(model, weight, own)
    if smaller is None:
        return None
    with suppress(Infeasible, Unsolved):
        found = engine.solve(smaller.model, smaller.weight, bonus=smaller.bonus)
        score, slack = value(model, found.state, weight, bonus), found.bound - found.score
        bound = score + slack
        rounding = found.rounding + (slack - (bound - score) if np.isfinite(bound) else 0.0)
        return replace(found, score=score, bound=bound, rounding=max(found.rounding, rounding))
    return None


def probabilities(engine: MarginalEngine, model: GroundMRF, weight: Floats) -> Marginals | None:
    """Return marginals of a model whose small weights would be lost; None as ``solved``."""
    if not Magnitude.of(weight).lost:
        return None
    smaller = hardened(model, weight, np.zeros(model.n_atoms), IMPOSSIBLE + model.n_atoms)
    if smaller is None:
        return None
    with suppress(Infeasible, Unsolved):
        found = engine.marginals(smaller.model, smaller.weight)
        if found.log_z is None:
            return found
        large = (smaller.weight[: model.n_clauses] == 0) & (weight > 0)
        return replace(found, log_z=found.log_z + math.fsum(weight[large].tolist()))
    return None
