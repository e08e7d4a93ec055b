"""Bayesian optimisation with a Gaussian process (Srinivasan 2020, section 6.4.6; algorithm 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf, exp, pi, sqrt
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.random import Generator
from pydantic import Field

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Count, Positive
from onlinesrl.core.learning.batch import UnfitError
from onlinesrl.core.learning.search.strategies import Run, Sampled

AMPLITUDE, NOISE = 0.5, 1e-6
"""The variance of the process before any evaluation, and the least part of it that is taken for noise."""
SCALES, NOISES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0), (NOISE, 0.01, 0.1)
"""The length scales and parts of noise of which the most likely are taken."""
NEAR = 5
"""One in so many candidates is near the best weights so far."""

Acquisition: TypeAlias = Callable[[Floats, Floats, float, float, Generator], Floats]
"""From mean, standard deviation, the best value so far, psi and random numbers."""


def _expected_improvement(
    mean: Floats, sd: Floats, best: float, psi: float, rng: Generator
) -> Floats:
    """Return the expected improvement, (mean - best) cdf(z) + sd pdf(z)."""
    z = (mean - best) / np.maximum(sd, 1e-12)
    pdf = np.array([exp(-0.5 * number**2) / sqrt(2 * pi) for number in z.tolist()])
    improvement: Floats = (mean - best) * _normal_cdf(z) + sd * pdf
    return improvement


def _normal_cdf(z: Floats) -> Floats:
    return np.array([0.5 * (1.0 + erf(number / sqrt(2.0))) for number in z.tolist()])


ACQUISITIONS: Mapping[str, Acquisition] = {
    "ucb": lambda mean, sd, best, psi, rng: mean + psi * sd,
    "ts": lambda mean, sd, best, psi, rng: rng.normal(mean, sd),
    "pi": lambda mean, sd, best, psi, rng: _normal_cdf((mean - best) / np.maximum(sd, 1e-12)),
    "ei": _expected_improvement,
}
"""What is greatest at the next configuration to try: the upper confidence bound, Thompson's samples, the
probability of improvement, or the expected improvement.
"""


class Bayesian(Sampled):
    """Bayesian optimisation: each configuration is chosen by what those before it have shown."""

    name = "bayesian"
    configurations: Count = 50
    """the most that are tried, beside the model's own weights."""
    acquisition: Literal["ucb", "ts", "pi", "ei"] = "ucb"
    """how the next one is chosen: upper confidence bound, Thompson sampling, probability of improvement,
    expected improvement."""
    psi: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """how many standard deviations the upper confidence bound is above the mean."""
    space: Literal["scaled", "ratios", "original"] = "scaled"
    """where distances are taken: of logarithms less their mean (in Markov logic, of unit vectors); of
    logarithms less that of the first weight, which needs positive weights; or of the weights as they are."""
    rho: Positive | None = None
    """the length scale of the squared exponential kernel; null: the most likely one."""
    candidates: Count = 1000
    """among how many weights the next ones are chosen."""
    deviation: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """it ends when the standard deviations of all candidates are below this; null: 0.5, and in Markov logic,
    whose unit vectors are nearer to each other, 0.1."""

    def needs(self) -> Mapping[str, str]:
        """See ``Section.needs``."""
        return {**super().needs(), "kind": "sklearn"}

    def explore(self, run: Run) -> None:
        """See ``Search.explore``."""
        if self.space == "ratios" and run.space.signed:
            raise UnfitError("space", "ratios have no logarithm where weights may be negative")
        drawn = self._new(run, self.draws(run, run.rng, self.candidates))
        least = (0.1 if run.space.signed else 0.5) if self.deviation is None else self.deviation
        for _ in range(self.configurations):
            tried, values = self._tried(run)
            best = tried[int(np.argmax(values))]
            near = run.space.near(run.rng, self.candidates // NEAR, best, self.floor)
            candidates = self._new(run, np.vstack((drawn, near)))
            if not len(candidates):
                run.exhausted = True
                return
            mean, sd = self._posterior(run, tried, values, candidates)
            if np.all(sd < least):
                return
            worth = ACQUISITIONS[self.acquisition](mean, sd, values.max(), self.psi, run.rng)
            chosen = candidates[int(np.argmax(worth))]
            run.rays.add(run.space.ray(chosen))
            run.evaluate([chosen])

    def _tried(self, run: Run) -> tuple[Floats, Floats]:
        """Return what was tried, and how good it was, with the mean 0 and the variance of the process.

        So it does not matter in what range a metric is, such as from 0.91 to 0.93.
        """
        tried = np.array([weights for weights, _ in run.found]) / run.scale
        values = np.array([value for _, value in run.found])
        spread = values.std()
        return tried, (values - values.mean()) * (AMPLITUDE**0.5 / spread if spread > 0 else 0.0)

    def _new(self, run: Run, weights: Floats) -> Floats:
        """Return the weights of which none is a multiple of another, or of one tried."""
        first = {ray: n for n, ray in reversed([*enumerate(run.space.rays(weights))])}
        return weights[[n for ray, n in first.items() if ray not in run.rays]]

    def _posterior(
        self, run: Run, tried: Floats, values: Floats, candidates: Floats
    ) -> tuple[Floats, Floats]:
        """Return the posterior mean and standard deviation at the candidates."""
        spaces: Mapping[str, Callable[[Floats], Floats]] = {
            "scaled": run.space.scaled,
            "ratios": run.space.ratios,
            "original": lambda w: w,
        }
        place = spaces[self.space]
        at, scales = place(tried), SCALES if self.rho is None else (self.rho,)
        if not np.any(values):
            scales = scales[:1]  # nothing tells whether it is longer
        apart = np.sum((at[:, None] - at) ** 2, axis=2)
        rho, noise = max(
            ((rho, noise) for rho in scales for noise in NOISES),
            key=lambda scales: log_likelihood(apart, values, *scales),
        )
        process = gaussian_process(rho, noise)
        process.fit(at, values)
        mean, sd = process.predict(place(candidates), return_std=True)
        return mean, sd


def log_likelihood(apart: Floats, values: Floats, rho: float, noise: float) -> float:
    """Return the logarithm of the marginal likelihood of values, up to a constant.

    ``apart`` float64[n, n] are squared distances (Rasmussen & Williams 2006, equation 2.30).
    """
    kernel = AMPLITUDE * (np.exp(-apart / (2.0 * rho**2)) + noise * np.eye(len(values)))
    try:
        root = np.linalg.cholesky(kernel)
    except np.linalg.LinAlgError:
        return -np.inf
    scaled = np.linalg.solve(root, values)
    return -0.5 * float(scaled @ scaled) - float(np.log(np.diag(root)).sum())


def gaussian_process(rho: float, noise: float = NOISE) -> Any:
    """Return scikit-learn's Gaussian process with the kernel 0.5 exp(-d^2 / 2 rho^2)."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(AMPLITUDE, "fixed") * RBF(rho, "fixed")
    return GaussianProcessRegressor(kernel, alpha=noise * AMPLITUDE, optimizer=None)
