"""How far to trust sampled marginals: split R-hat, effective sample size and standard error.

Split R-hat is that of Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), without rank normalisation.
The standard error is by batch means (Flegal & Jones 2010), for which sums of draws suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.kernels.random import Generator
from onlinesrl.mln.ground.ground_mrf import State

Draw = Callable[[State, int, Generator, Floats, Floats], object]
"""Draws a number of samples from a state, which it updates; adds them and their squares to two sums."""

BATCHES = 10
"""The number of batches of a chain; it is even, so that half a chain is whole batches."""
AGREED, DISAGREE = 1.05, 1.1
"""R-hat below which chains count as agreed, and above which they are reported to disagree."""
LEAST_VARIANCE = 1e-6
"""Chains within 0.001 of each other agree, however little each of them varies."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of every atom's estimate, float64[n_atoms].

    ``ess`` is the number of independent samples that would estimate as well, at most the number drawn.
    ``error`` is the estimate's standard error, which includes the chains' differences. Atoms that are not
    sampled have R-hat 1, all samples and error 0.
    """

    chains: int
    r_hat: Floats
    ess: Floats
    error: Floats

    @property
    def largest_r_hat(self) -> float:
        """R-hat of the atom that the chains agree on least."""
        return float(self.r_hat.max(initial=1.0))

    @property
    def least_ess(self) -> float:
        """The least effective sample size of an atom; infinite where there are no atoms."""
        return float(self.ess.min(initial=np.inf))

    @property
    def largest_error(self) -> float:
        """The largest standard error of an atom."""
        return float(self.error.max(initial=0.0))

    @property
    def agree(self) -> bool:
        """Whether every atom's R-hat is low enough."""
        return self.largest_r_hat <= DISAGREE

    def reach(self, error: float) -> bool:
        """Return whether no standard error exceeds ``error`` and the chains agree."""
        return self.largest_error <= error and self.largest_r_hat <= AGREED

    def of(self, stands_for: Ints, samples: int) -> Diagnostics:
        """Return the diagnostics of a model's atoms; ``stands_for`` is as in ``Reduced``."""

        def expand(values: Floats, certain: float) -> Floats:
            return np.concatenate((values, values, [certain, certain]))[stands_for]

        r_hat, ess = expand(self.r_hat, 1.0), expand(self.ess, samples)
        return Diagnostics(self.chains, r_hat, ess, expand(self.error, 0.0))


def combine(
    n_atoms: int, samples: int, places: Sequence[Ints], parts: Sequence[Diagnostics | None]
) -> Diagnostics | None:
    """Join the diagnostics of the parts of a model, None for an exact part; None if all parts are exact.

    Of an atom of several parts, those of the last one hold.
    """
    sampled = [part for part in parts if part]
    if not sampled:
        return None
    r_hat, ess, error = np.ones(n_atoms), np.full(n_atoms, float(samples)), np.zeros(n_atoms)
    for atoms, part in zip(places, parts, strict=True):
        columns = (part.r_hat, part.ess, part.error) if part else (1.0, samples, 0.0)
        r_hat[atoms], ess[atoms], error[atoms] = columns
    return Diagnostics(sampled[0].chains, r_hat, ess, error)


class BatchMeans:
    """Sums of the draws of several chains, by batches of the same number of draws in a row."""

    def __init__(self, chains: int, atoms: int, length: int) -> None:
        self.length = length
        self.filled = 0
        self._sum = np.zeros((chains, BATCHES, atoms))
        self._square = np.zeros(atoms)

    @property
    def samples(self) -> int:
        """The number of all draws."""
        return len(self._sum) * self.filled * self.length

    def fill(self, draw: Draw, states: Sequence[State], rngs: Sequence[Generator]) -> None:
        """Fill the empty batches with draws."""
        for sums, state, rng in zip(self._sum, states, rngs, strict=True):
            for batch in sums[self.filled :]:
                draw(state, self.length, rng, batch, self._square)
        self.filled = BATCHES

    def halve(self) -> None:
        """Merge every two batches into one, which makes room for as many draws again."""
        self.length, self.filled = 2 * self.length, BATCHES // 2
        self._sum[:, : self.filled] = self._sum[:, ::2] + self._sum[:, 1::2]
        self._sum[:, self.filled :] = 0.0

    def mean(self) -> Floats:
        """Return the estimates."""
        mean: Floats = np.clip(self._sum.sum((0, 1)) / self.samples, 0.0, 1.0)
        return mean

    def diagnostics(self) -> Diagnostics:
        """Return the diagnostics of the estimates, once all batches are filled."""
        chains, _, atoms = self._sum.shape
        batches = self._sum.reshape(chains * BATCHES, atoms) / self.length
        halves = batches.reshape(2 * chains, BATCHES // 2, atoms).mean(1)
        n = self.samples // len(halves)
        within = (self._square - n * (halves**2).sum(0)) / max(1, self.samples - len(halves))
        within = np.maximum(within, LEAST_VARIANCE)
        r_hat = np.sqrt((n - 1) / n + halves.var(0, ddof=1) / within)
        means = [batches, *([halves.reshape(chains, 2, atoms).mean(1)] if chains > 1 else [])]
        error = np.max([x.std(0, ddof=1) / np.sqrt(len(x)) for x in means], axis=0)
        p = self.mean()
        with np.errstate(divide="ignore", invalid="ignore"):
            ess = np.fmin(p * (1.0 - p) / error**2, self.samples)
        return Diagnostics(chains, np.maximum(r_hat, 1.0), ess, error)
