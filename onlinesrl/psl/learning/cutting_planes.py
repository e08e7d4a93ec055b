"""Minimising a convex function by cutting planes: a regulariser plus the maximum of linear functions.

``F(w) = R(w) + max over y of a(y) + g(y) . w`` over ``w > 0``, optionally with sum 1, where an oracle finds
the maximising ``y``. The planes found so far bound F from below; the minimum of that bound is the next
``w`` (Teo et al. 2010; Joachims, Finley & Yu 2009). It is found by Newton's method with logarithmic
barriers (Boyd & Vandenberghe 2004, chapter 11), so that there are proven bounds on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.learning.batch import Trace

PLANES = 200
"""The most planes."""
NEWTON = 50
"""The most steps of Newton's method for one barrier."""
SHORTEST = 1e-12
"""The shortest share of a step."""


class Regulariser(Protocol):
    """A convex function of weights, a sum over them: its value, gradient and second derivatives."""

    def value(self, w: Floats) -> float:
        """Return R(w)."""

    def gradient(self, w: Floats) -> Floats:
        """Return R'(w), float64[weights]."""

    def curvature(self, w: Floats) -> Floats:
        """Return the diagonal of R''(w), float64[weights]."""


class Plane(NamedTuple):
    """The plane ``offset + slope . w``: below the maximum; where it was found, by at most ``slack``."""

    offset: float
    slope: Floats
    slack: float


Oracle: TypeAlias = Callable[[Floats], Plane]


@dataclass(frozen=True, eq=False)
class Minimum:
    """Weights, the value of F there, and a bound: no weights have less. It ``converged`` if these meet."""

    w: Floats
    value: float
    bound: float
    converged: bool


@dataclass(frozen=True)
class CuttingPlanes:
    """Minimises until value and bound differ by at most ``gap``, relative above 1.

    With ``simplex`` the weights keep their sum.
    """

    regulariser: Regulariser
    simplex: bool
    gap: float = 1e-4

    def minimise(self, oracle: Oracle, start: Floats, trace: Trace) -> Minimum:
        """Minimise from ``start`` > 0; adds the least value so far to ``trace`` for each plane."""
        planes = _Planes(self.regulariser, self.simplex, np.empty(0), np.empty((0, len(start))))
        w, least, best, bound = start, np.inf, start, -np.inf
        while len(planes.offsets) < PLANES:
            plane = oracle(w)
            value = self.regulariser.value(w) + plane.offset + float(plane.slope @ w) + plane.slack
            if not value >= least:
                least, best = value, w
            trace.add(least)
            offsets = np.append(planes.offsets, plane.offset)
            planes = replace(
                planes, offsets=offsets, slopes=np.vstack((planes.slopes, plane.slope))
            )
            allowed = self.gap * max(1.0, abs(least))
            w, below = planes.lowest(best, 0.1 * allowed)
            bound = max(bound, below)
            if least - bound <= allowed:
                return Minimum(best, least, bound, converged=True)
        return Minimum(best, least, bound, converged=False)


@dataclass(frozen=True, eq=False)
class _Planes:
    """R plus the highest of some planes: ``offsets`` float64[planes], ``slopes`` float64[planes, weights]."""

    regulariser: Regulariser
    simplex: bool
    offsets: Floats
    slopes: Floats

    def lowest(self, w: Floats, gap: float) -> tuple[Floats, float]:
        """Return where this is lowest, within ``gap``, and a bound on its value there; search from ``w``."""
        t = float((self.offsets + self.slopes @ w).max()) + 1.0
        barriers, mu = len(self.offsets) + len(w), 1.0
        while True:
            w, t = self._centred(w, t, mu)
            if mu * barriers <= gap:
                return w, self.regulariser.value(w) + t - 2.0 * mu * barriers
            mu *= 0.1

    def _barrier(self, w: Floats, t: float, mu: float) -> float:
        """Return ``R(w) + t - mu (sum log(t - planes(w)) + sum log w)``."""
        room = t - self.offsets - self.slopes @ w
        if room.min() <= 0 or w.min() <= 0:
            return np.inf
        return self.regulariser.value(w) + t - mu * float(np.log(room).sum() + np.log(w).sum())

    def _centred(self, w: Floats, t: float, mu: float) -> tuple[Floats, float]:
        """Minimise the barrier function by Newton's method."""
        n, now = len(w), self._barrier(w, t, mu)
        for _ in range(NEWTON):
            gradient, step = self._newton_step(w, t, mu)
            decrease, length = -float(gradient @ step), 1.0
            if decrease <= 1e-3 * mu:
                break
            while (
                new := self._barrier(w + length * step[:n], t + length * step[n], mu)
            ) > now - 0.1 * length * decrease:
                length *= 0.5
                if length < SHORTEST:
                    return w, t
            w, t, now = w + length * step[:n], t + length * float(step[n]), new
        return w, t

    def _newton_step(self, w: Floats, t: float, mu: float) -> tuple[Floats, Floats]:
        """Return the gradient of the barrier function, float64[weights + 1], and the step for it."""
        n, inverse = len(w), 1.0 / (t - self.offsets - self.slopes @ w)
        right = np.zeros(n + 2 if self.simplex else n + 1)
        right[:n] = mu * (1.0 / w - inverse @ self.slopes) - self.regulariser.gradient(w)
        right[n] = mu * inverse.sum() - 1.0
        scaled = np.empty((len(inverse), n + 1))
        scaled[:, :n], scaled[:, n] = inverse[:, None] * self.slopes, -inverse
        system = np.zeros((len(right), len(right)))
        system[: n + 1, : n + 1] = mu * (scaled.T @ scaled)
        system[range(n), range(n)] += self.regulariser.curvature(w) + mu / w**2
        if self.simplex:
            system[:n, -1] = system[-1, :n] = 1.0
        step = np.linalg.solve(system, right).astype(np.float64, copy=False)
        return -right[: n + 1], step[: n + 1]
