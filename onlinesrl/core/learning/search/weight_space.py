"""Where weights are searched: rays, since the most probable state does not change with their scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from onlinesrl.core.arrays import Floats

SMALLEST = 1e-8
"""What is added to weights of sum 1 before their logarithm is taken."""
NEAR = 0.5
"""How far weights are moved to be near: the standard deviation of logarithms."""


@dataclass(frozen=True)
class Space:
    """Weights float64[size]; where ``signed``, negative ones too (section 6.6)."""

    size: int
    signed: bool

    def dirichlet(self, rng: Generator, n: int, a: float, floor: float) -> Floats:
        """Draw float64[n, size] from the simplex, in a random orthant where signed (section 6.5.4).

        Weights below ``floor`` times the largest are raised to it.
        """
        return self._signs(rng, _raised(rng.dirichlet(np.full(self.size, a), n), floor))

    def hypersphere(self, rng: Generator, n: int) -> Floats:
        """Draw directions uniformly, float64[n, size] whose absolute values have the sum 1."""
        sizes = np.abs(rng.normal(size=(n, self.size)))
        return self._signs(rng, sizes / sizes.sum(axis=1, keepdims=True))

    def near(self, rng: Generator, n: int, w: Floats, floor: float) -> Floats:
        """Draw float64[n, size] near ``w``: its logarithms, or where signed its unit vector, are moved.

        ``floor`` as in ``dirichlet``.
        """
        moves = NEAR * rng.normal(size=(n, self.size))
        if not self.signed:
            return _raised(w / w.max() * np.exp(moves), floor)
        moved = w / np.linalg.norm(w) + moves / np.sqrt(self.size)
        signed: Floats = np.copysign(_raised(np.abs(moved), floor), moved)
        return signed

    def grid(self, rng: Generator, values: Floats) -> Floats:
        """Draw one vector of a grid of values, with random signs where signed."""
        drawn = self._signs(rng, rng.choice(values, (1, self.size)))[0]
        weights: Floats = drawn / np.abs(drawn).sum()
        return weights

    def _signs(self, rng: Generator, weights: Floats) -> Floats:
        return weights * rng.choice((-1.0, 1.0), weights.shape) if self.signed else weights

    def rays(self, weights: Floats) -> list[bytes]:
        """Return what each of float64[n, size] has in common with its positive multiples only."""
        directions = np.round(weights / np.abs(weights).sum(axis=1, keepdims=True), 12) + 0.0
        return [direction.tobytes() for direction in directions]

    def ray(self, w: Floats) -> bytes:
        """Return what ``w`` has in common with its positive multiples, and with nothing else."""
        return self.rays(w[None])[0]

    def scaled(self, w: Floats) -> Floats:
        """Return the coordinates in which distances are taken, float64[..., size].

        Logarithms less their mean (section 6.5.2; so that no rule is special, the mean is subtracted and not
        the first); the unit vector where signed.
        """
        if self.signed:
            unit: Floats = w / np.linalg.norm(w, axis=-1, keepdims=True)
            return unit
        logs = np.log(w / w.sum(axis=-1, keepdims=True) + SMALLEST)
        centred: Floats = logs - logs.mean(axis=-1, keepdims=True)
        return centred

    def ratios(self, w: Floats) -> Floats:
        """Return ``ln w_i - ln w_1``, float64[..., size - 1], of positive weights (equation 6.2)."""
        logs = np.log(w / w.sum(axis=-1, keepdims=True) + SMALLEST)
        ratios: Floats = logs[..., 1:] - logs[..., :1]
        return ratios


def _raised(weights: Floats, floor: float) -> Floats:
    """Raise positive weights, float64[n, size], below ``floor`` times the largest; return them with sum 1."""
    weights = np.maximum(weights, floor * weights.max(axis=1, keepdims=True))
    normalised: Floats = weights / weights.sum(axis=1, keepdims=True)
    return normalised
