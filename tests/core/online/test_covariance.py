"""The covariance of weights against plain numpy, and its step against the mode of prior times likelihood."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.kernels import covariance as k

Matrix = NDArray[np.float64]


def begun(rng: np.random.Generator, weights: int, slots: int) -> k.Covariance:
    """A covariance of ``weights`` used weights, whose numbers are not those of their slots."""
    c = k.Covariance.zeros(weight=weights, slot=slots)
    for i in rng.permutation(weights):
        k.use(c, int(i), float(rng.uniform(0.1, 3.0)), 1.0)
    return c


def dense(c: k.Covariance) -> Matrix:
    """The covariance of all weights."""
    k.settle(c)
    full = np.diag(c.variance)
    for i in np.flatnonzero(c.slot):
        for j in np.flatnonzero(c.slot):
            full[i, j] = c.matrix[c.slot[i] - 1, c.slot[j] - 1]
    return full


def without_loose_covariances(c: k.Covariance, full: Matrix) -> Matrix:
    """The nearest covariance where weights without a slot have none with others."""
    both = (c.slot > 0)[:, None] & (c.slot > 0)
    return np.where(both | np.eye(len(full), dtype=bool), full, 0.0)


@pytest.mark.parametrize("slots", [0, 3, 7, 9])
def test_a_reduction_is_that_of_numpy(slots: int) -> None:
    rng = np.random.default_rng(slots)
    c = begun(rng, 7, slots)
    s = dense(c)
    for _ in range(60):
        touched = rng.permutation(7)[: rng.integers(1, 6)]
        d, h = rng.normal(size=len(touched)), rng.uniform(0.0, 4.0)
        direction = np.zeros(7)
        direction[touched] = d
        a, v = s @ direction, direction @ s @ direction
        assert k.multiply(c, touched, d, len(d)) == pytest.approx(v)
        across = [k.across(c, int(i), float(x)) for i, x in zip(touched, d, strict=True)]
        assert across == pytest.approx(a[touched])
        k.reduce(c, touched, d, len(d), v, h)
        s = without_loose_covariances(c, s - np.outer(a, a) * h / (1.0 + h * v))
        np.testing.assert_allclose(dense(c), s, rtol=1e-9, atol=1e-12)
        assert np.array_equal(c.matrix, c.matrix.T)


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("seed", range(10))
def test_a_step_leads_to_the_mode_and_its_curvature(seed: int, y: int) -> None:
    """Minus log of N(w, S) times sigmoid, minimised; the new S is the inverse of its second derivative."""
    rng, all_ = np.random.default_rng(seed), np.arange(4)
    c = begun(rng, 4, 4)
    for _ in range(5):
        d = rng.normal(size=4)
        k.reduce(c, all_, d, 4, k.multiply(c, all_, d, 4), 1.0)
    s, mean, x, sign = dense(c), rng.normal(size=4), 3.0 * rng.normal(size=4), 1.0 - 2.0 * y
    precision = np.linalg.inv(s)

    def minus_log(w: Matrix) -> float:
        far = w - mean
        return float(0.5 * far @ precision @ far + np.logaddexp(0.0, sign * (x @ w)))

    best = minimize(minus_log, mean, method="BFGS", options={"gtol": 1e-7}).x
    v = k.multiply(c, all_, x, 4)
    z = sign * k.implicit_root(sign * float(mean @ x), v)
    a = np.array([k.across(c, i, float(x[i])) for i in range(4)])
    p = k.sigmoid(z)
    np.testing.assert_allclose(mean + a * (y - p), best, atol=1e-5)
    assert x @ (mean + a * (y - p)) == pytest.approx(z)
    k.reduce(c, all_, x, 4, v, p * (1.0 - p))
    second = precision + p * (1.0 - p) * np.outer(x, x)
    np.testing.assert_allclose(dense(c), np.linalg.inv(second), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("v", [0.0, 1e-12, 0.3, 4.0, 1e4, 1e12, 1e80, 1e280])
def test_the_root_is_exact_however_large_a_feature_is(v: float) -> None:
    for m in (-1e6, -700.0, -30.0, -1.0, 0.0, 1e-3, 2.0, 40.0, 710.0, 1e9, 1e200):
        z = k.implicit_root(m, v)
        assert z <= m
        moved = v * k.sigmoid(z)
        assert z + moved == pytest.approx(m, abs=1e-12 * max(abs(z), moved, 1.0))


@kernel
def follow(c: k.Covariance, x: Floats, d: Floats, touched: Ints, steps: int) -> int:
    """Reduce by the rows of x in turn, with the first feature larger in the second half of the steps.

    Returns how often v was not positive.
    """
    bad, n = 0, len(touched)
    for t in range(steps):
        for j in range(n):
            d[j] = x[t % len(x), j] * (1e6 if j == 0 and t > steps // 2 else 1.0)
            k.use(c, touched[j], d[j], 1.0)
        v = k.multiply(c, touched, d, n)
        bad += not v > 0.0
        k.reduce(c, touched, d, n, v, 0.25)
    return bad


def test_it_stays_positive_definite_over_ten_million_steps() -> None:
    """Of features of any unit, two of which are nearly the same, and one of which grows by a million."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1000, 5)) * [1.0, 1e-9, 1.0, 1e9, 1.0]
    x[:, 4] = x[:, 2] * (1.0 + 1e-7 * rng.normal(size=1000))
    c = k.Covariance.zeros(weight=5, slot=5)
    steps = 10_000_000
    assert follow(c, x, np.zeros(5), np.arange(5), steps) == 0
    s, late = dense(c), x * [1e6, 1, 1, 1, 1]
    unit = np.sqrt(np.diag(s))
    assert np.linalg.eigvalsh(s / np.outer(unit, unit))[0] > 0.0
    information = 0.25 * steps / 2 * (x.T @ x + late.T @ late) / len(x)
    information += np.diag(x[0] ** 2)
    exact = np.sqrt(np.diag(np.linalg.inv(information * np.outer(unit, unit)))) * unit
    np.testing.assert_allclose(unit, exact, rtol=1e-2)


def test_slots_are_those_of_the_most_used_weights() -> None:
    c = k.Covariance.zeros(weight=4, slot=2)
    for i in (0, 1, 0, 1, 2):
        k.use(c, i, 2.0, 1.0)
    d = np.array([1.0, 1.0])
    k.reduce(c, np.array([0, 1]), d, 2, k.multiply(c, np.array([0, 1]), d, 2), 1.0)
    assert c.slot.tolist() == [1, 2, 0, 0]
    before = dense(c)
    assert before[0, 1] < 0.0
    for _ in range(3):
        k.use(c, 2, 2.0, 1.0)
    assert c.slot.tolist() == [1, 2, 0, 0]  # not twice as often
    k.use(c, 2, 2.0, 1.0)
    assert c.slot.tolist() == [0, 2, 1, 0]
    np.testing.assert_array_equal(dense(c), np.diag(np.diag(before)))


def test_the_first_feature_sets_the_variance_whatever_its_unit() -> None:
    c = k.Covariance.zeros(weight=3, slot=2)
    for i, x in enumerate((1e-6, -4.0, 1e6)):
        k.use(c, i, 0.0, 3.0)
        k.use(c, i, x, 3.0)
        k.use(c, i, 2 * x, 3.0)
        assert k.variance_of(c, i) == pytest.approx(3.0 / x**2)
        assert c.scale[i] == abs(x)
        information = k.widen(c, i, 10 * x, 3.0)  # of a prior of 2 x, which is a fifth
        assert information == pytest.approx((4 * x**2 - x**2) / 3.0)
        assert c.scale[i] == pytest.approx(2 * abs(x))


def test_forgetting_widens_no_further_than_the_prior() -> None:
    c = begun(np.random.default_rng(0), 3, 2)
    all_, d = np.arange(3), np.array([1.0, 2.0, -1.0])
    for _ in range(10):
        k.reduce(c, all_, d, 3, k.multiply(c, all_, d, 3), 1.0)
    before = dense(c)
    k.forget(c, all_, 3, 50.0, 1.0)
    np.testing.assert_allclose(dense(c), before / (1 - 1 / 50))
    for _ in range(10_000):
        k.forget(c, all_, 3, 50.0, 1.0)
    np.testing.assert_allclose(np.diag(dense(c)), 1 / c.scale**2)
