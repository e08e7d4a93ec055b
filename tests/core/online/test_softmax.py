"""The step of the softmax against the mode that scipy finds, and against plain numpy."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax, wrightomega

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.address import addresses
from onlinesrl.core.kernels import softmax as k
from onlinesrl.core.kernels.covariance import Covariance


def test_wrights_omega_is_that_of_scipy() -> None:
    xs = [*np.linspace(-740.0, -3.0, 50), *np.linspace(-3.0, 3.0, 600), 9.0, 700.0, 1e6, 1e200]
    np.testing.assert_allclose([k.wright_omega(float(x)) for x in xs], wrightomega(xs), rtol=1e-14)


def scores(mean: Any, variance: Any) -> k.Scores:
    fields = {"mean": np.array(mean, float), "variance": np.array(variance, float)}
    return k.Scores.zeros(fields, label=len(mean))


@pytest.mark.parametrize("seed", range(20))
def test_the_mode_is_that_of_scipy(seed: int) -> None:
    """Of the product of normal scores and the softmax of the true class."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    m, v, y = 3.0 * rng.normal(size=size), rng.uniform(0.01, 20.0, size), int(rng.integers(size))

    def minus_log(z: Floats) -> float:
        return float(np.sum((z - m) ** 2 / v) / 2 - log_softmax(z)[y])

    best = minimize(minus_log, m, method="BFGS", options={"gtol": 1e-9}).x
    c = scores(m, v)
    k.find_mode(c, y)
    np.testing.assert_allclose(c.probability, softmax(best), atol=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-9, 1.0, 1e6, 1e60])
def test_the_mode_is_exact_however_large_scores_are(size: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 7))
        m, v = 10.0 ** rng.uniform(-2, 3) * rng.normal(size=n), size * 10.0 ** rng.uniform(-3, 3, n)
        v[rng.random(n) < 0.1] = 0.0
        c, y = scores(m, v), int(rng.integers(n))
        assert k.find_mode(c, y) < k.STEPS
        assert c.probability.sum() == pytest.approx(1.0)
        z, p = m + v * c.residual, c.probability
        far = max(1.0, float(np.abs(z).max()))
        others = (np.arange(n) != y) & (p > 0.0)
        t = z[others] - np.log(p[others])  # the logarithm of the sum, by each class
        if c.residual[y] < 0.5:
            t = np.append(t, z[y] - np.log1p(-c.residual[y]))
        else:
            assert np.exp(z[y] - t) == pytest.approx(p[y], abs=1e-12 * far)
        assert np.ptp(t) <= 1e-9 * far


def test_learning_is_that_of_plain_numpy() -> None:
    rng = np.random.default_rng(1)
    labels, features, prior = 3, 4, 2.0
    parts = [
        k.ClassWeights(Covariance.zeros(weight=features, slot=features), np.zeros(features))
        for _ in range(labels)
    ]
    c, all_ = k.Scores.zeros(label=labels), np.arange(features)
    w, s = np.zeros((labels, features)), np.zeros((labels, features, features))
    scale = np.zeros(features)
    for t in range(200):
        x = rng.normal(size=features) * [1.0, 1e-3, 1e4, t > 50]
        y = int(rng.integers(labels)) if t % 3 else int(x[0] > 0)
        k.learn(parts[0], addresses(parts), all_, x, prior, c, y)
        new = (scale == 0.0) & (x != 0.0)
        scale[new] = x[new]
        s[:, new, new] = prior / x[new] ** 2
        a = s @ x
        z = scores(w @ x, a @ x)
        k.find_mode(z, y)
        p = z.probability
        w += a * ((np.arange(labels) == y) - p)[:, None]
        h = p * (1.0 - p)
        s -= np.einsum("ki,kj,k->kij", a, a, h / (1.0 + h * (a @ x)))
        np.testing.assert_allclose([part.weight for part in parts], w, rtol=1e-9, atol=1e-12)
    probability = np.empty(labels)
    k.predict(np.array([part.weight for part in parts]), all_, x, probability)
    np.testing.assert_allclose(probability, softmax(w @ x))
