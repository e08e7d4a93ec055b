"""Bayesian optimisation with a Gaussian process (Srinivasan 2020, section 6.4.6; algorithm 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf, exp, pi, sqrt
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.random import Generator
from pydantic import Field

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import UsageError
from onlinesrl.core.scores import METRICS
from onlinesrl.core.search.learners import Run, Sampled
from onlinesrl.core.values import Count, Positive

AMPLITUDE, MEAN, NOISE = 0.5, 0.5, 1e-6
"""The variance and the mean of the process before any evaluation, and what is added to its diagonal."""

Acquisition: TypeAlias = Callable[[Floats, Floats, float, float, Generator], Floats]
"""From mean, standard deviation, the best value so far, psi and random numbers."""


def _ucb(mean: Floats, sd: Floats, best: float, psi: float, rng: Generator) -> Floats:
    """Return the upper confidence bound."""
    return mean + psi * sd


def _ts(mean: Floats, sd: Floats, best: float, psi: float, rng: Generator) -> Floats:
    """Return Thompson's samples."""
    return rng.normal(mean, sd)


def _pi(mean: Floats, sd: Floats, best: float, psi: float, rng: Generator) -> Floats:
    """Return the probability of improvement."""
    return _normal_cdf((mean - best) / np.maximum(sd, 1e-12))


def _ei(mean: Floats, sd: Floats, best: float, psi: float, rng: Generator) -> Floats:
    """Return the expected improvement, (mean - best) cdf(z) + sd pdf(z)."""
    z = (mean - best) / np.maximum(sd, 1e-12)
    pdf = np.array([exp(-0.5 * each**2) / sqrt(2 * pi) for each in z.tolist()])
    improvement: Floats = (mean - best) * _normal_cdf(z) + sd * pdf
    return improvement


def _normal_cdf(z: Floats) -> Floats:
    return np.array([0.5 * (1.0 + erf(each / sqrt(2.0))) for each in z.tolist()])


ACQUISITIONS: Mapping[str, Acquisition] = {"ucb": _ucb, "ts": _ts, "pi": _pi, "ei": _ei}
"""What is greatest at the next configuration to try, by name."""


class Bayesian(Sampled):
    """Bayesian optimisation: each configuration is chosen by what those before it have shown."""

    kind: Literal["bayesian"] = "bayesian"
    configurations: Count = 50
    """the most that are tried, beside the model's own weights."""
    acquisition: Literal["ucb", "ts", "pi", "ei"] = "ucb"
    """how the next one is chosen: upper confidence bound, Thompson sampling, probability of improvement,
    expected improvement."""
    psi: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """how many standard deviations the upper confidence bound is above the mean."""
    space: Literal["scaled", "original"] = "scaled"
    """where distances are taken: of logarithms less their mean (in Markov logic, of unit vectors), or of the
    weights as they are."""
    rho: Positive = 1.0
    """the length scale of the squared exponential kernel."""
    candidates: Count = 1000
    """among how many weights the next ones are chosen."""
    deviation: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """it ends when the standard deviations of all candidates are below this; null: 0.5, and in Markov logic,
    whose unit vectors are nearer to each other, 0.1."""

    def explore(self, run: Run) -> None:
        """See ``Search.explore``."""
        candidates = self._candidates(run)
        least = (0.1 if run.space.signed else 0.5) if self.deviation is None else self.deviation
        sign = 1.0 if METRICS[self.metric].greater else -1.0
        for _ in range(self.configurations):
            if not len(candidates):
                run.exhausted = True
                return
            tried = np.array([weights for weights, _ in run.found]) / run.scale
            values = np.array([value for _, value in run.found]) + (sign < 0)
            mean, sd = self._posterior(run, tried, values, candidates)
            if np.all(sd < least):
                return
            worth = ACQUISITIONS[self.acquisition](mean, sd, values.max(), self.psi, run.rng)
            chosen = int(np.argmax(worth))
            run.rays.add(run.space.ray(candidates[chosen]))
            run.evaluate([candidates[chosen]])
            candidates = np.delete(candidates, chosen, axis=0)

    def _candidates(self, run: Run) -> Floats:
        """Return weights of which none is a multiple of another, or of one tried."""
        drawn = self.draws(run, run.rng, self.candidates)
        first: dict[bytes, int] = {}
        for n, weights in enumerate(drawn):
            first.setdefault(run.space.ray(weights), n)
        return drawn[[n for ray, n in first.items() if ray not in run.rays]]

    def _posterior(
        self, run: Run, tried: Floats, values: Floats, candidates: Floats
    ) -> tuple[Floats, Floats]:
        """Return the posterior mean and standard deviation at the candidates."""
        process = gaussian_process(self.rho)
        place = run.space.scaled if self.space == "scaled" else lambda w: w
        process.fit(place(tried), values - MEAN)
        mean, sd = process.predict(place(candidates), return_std=True)
        return mean + MEAN, sd


def gaussian_process(rho: float) -> Any:
    """Return scikit-learn's Gaussian process with the kernel 0.5 exp(-d^2 / 2 rho^2). Raises UsageError."""
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    except ImportError:
        raise UsageError("bayesian needs scikit-learn: pip install scikit-learn") from None
    kernel = ConstantKernel(AMPLITUDE, "fixed") * RBF(rho, "fixed")
    return GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None)
