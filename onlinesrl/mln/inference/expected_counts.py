"""How many of some atoms hold: the expected number, and its variance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.mcmc import Chains
from onlinesrl.mln.inference.mcmc_diagnostics import BATCHES
from onlinesrl.mln.inference.protocols import Wide

STEP = 0.02
"""The largest difference of log-odds between the number's extremes, in units of its derivative's step."""


class Count(NamedTuple):
    """The expected number of atoms that hold, and its variance, exact unless it has a ``standard_error``."""

    expected: float
    variance: float
    standard_error: float | None = None


def expected_counts(
    model: GroundMRF, weight: Floats, atoms: Mapping[str, Ints], sampler: Chains, exact: bool
) -> dict[str, Count]:
    """Return the count of each set of atoms; ``weight`` as in ``MapEngine.solve``.

    If ``exact``, they are so where the model is narrow. Otherwise, they are of samples, with the standard
    error of the expected number by batch means. Raises Infeasible, Unsolved.
    """
    if exact:
        try:
            return {name: _exact(model, weight, of) for name, of in atoms.items()}
        except Wide:
            pass
    numbers = np.array([*_sampled(model, weight, atoms, sampler)])  # [chain, sample, set]
    length = numbers.shape[1] // BATCHES * BATCHES
    batches = numbers[:, :length].reshape(len(numbers) * BATCHES, -1, len(atoms)).mean(1)
    error = batches.std(0, ddof=1) / np.sqrt(len(batches))
    rows = zip(numbers.mean((0, 1)), numbers.var((0, 1)), error, strict=True)
    return {name: Count(*map(float, row)) for name, row in zip(atoms, rows, strict=True)}


def _exact(model: GroundMRF, weight: Floats, atoms: Ints) -> Count:
    """Return the count of atoms by elimination.

    The variance is the derivative of the expected number by a weight t of each atom (the second cumulant is
    that of the first). It is the difference quotient of fourth order at t = h, whose error is 3e-9 n^2 at
    most, since h n is small for n atoms, and t has no other scale.
    """
    tilted = model.with_units((atoms + 1).astype(np.int32), hard=False)
    h = STEP / max(1, len(atoms))

    def expected(t: float) -> float:
        weights = np.append(weight, np.full(len(atoms), t))
        return float(Exact().marginals(tilted, weights).probability[atoms].sum())

    near, far = (expected(k * h) - expected(-k * h) for k in (1, 2))
    return Count(expected(0.0), max(0.0, (8.0 * near - far) / (12.0 * h)))


def _sampled(
    model: GroundMRF, weight: Floats, atoms: Mapping[str, Ints], sampler: Chains
) -> Iterator[list[list[float]]]:
    """Yield for each chain how many atoms of each set hold in each of its samples."""
    for states in sampler.states(model, weight):
        yield [[float(state[of].sum()) for of in atoms.values()] for state in states]
