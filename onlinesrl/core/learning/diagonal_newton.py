"""Steps of the diagonal Newton method, from samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats

LONGEST = 1.0
"""By how much the first Newton steps change a weight at most: early samples may hardly vary."""
SETTLING = 10
"""After so many steps their sizes begin to fall, as the root of their number."""
FORGOTTEN = 0.1
"""How much of the variances a step replaces, from the tenth on."""


@dataclass
class Newton:
    """Diagonal Newton steps with a trust region (Lowd & Domingos 2007): d_i = g_i / Var n_i.

    The size is d.g / (d'Hd + trust d'd), where H is the covariance of the sampled counts and of the prior,
    and trust d'd at most d'Hd: where a step gains nothing but noise, the next is still half as long as
    Newton's. Instead sizes fall with t^(-1/2), and the mean of the weights settles (Polyak & Juditsky 1992).

    Variances are a running mean, and H is that of the samples of the step before: divided by what its own
    samples vary, a gradient of few samples would be long where they happen to be alike, and the mean step
    would be zero elsewhere than the mean gradient.
    """

    trust: float
    number: int = 0
    before: tuple[Floats, float] | None = None
    variance: Floats | None = None
    drawn: Floats | None = None

    def of(self, gradient: Floats, drawn: Floats, precision: Floats) -> Floats:
        """Return the step.

        ``drawn`` are counts of samples, float64[samples, weights]; ``precision``, float64[weights], is added
        to their variances.
        """
        if self.before is not None:  # concavity bounds how much more than promised a step gains
            last, promised = self.before
            ratio = float(last @ gradient) / max(promised, 1e-300)
            self.trust *= 0.5 if ratio > 0.75 else 4.0 if ratio < 0.25 else 1.0
        own = drawn.var(axis=0)
        if self.variance is None or self.drawn is None:
            self.variance, self.drawn = own, drawn
        variance = self.variance + precision
        direction = np.divide(gradient, variance, where=variance > 0, out=np.zeros_like(gradient))
        curvature = float(np.var(self.drawn @ direction) + direction @ (precision * direction))
        slope = float(direction @ gradient)
        length = float(direction @ direction)
        self.trust = min(self.trust, curvature / max(length, 1e-300))
        size = slope / (curvature + self.trust * length + 1e-300)
        size = min(size, LONGEST / max(float(np.abs(direction).max(initial=0.0)), 1e-300))
        size /= np.sqrt(1.0 + self.number / SETTLING)
        self.number += 1
        self.variance = self.variance + (own - self.variance) * max(1.0 / self.number, FORGOTTEN)
        self.drawn = drawn
        self.before = size * direction, size * slope - 0.5 * size**2 * curvature
        return self.before[0]
