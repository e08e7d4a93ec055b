"""The product of posteriors against one posterior of all examples, in normal regression, which is exact."""

import numpy as np
import pytest
from numpy.typing import NDArray

from onlinesrl.core.online.posterior_product import Posterior, product

Matrix = NDArray[np.float64]
UNITS = np.array([1.0, 1e-9, 1e9, 7.0, 1.0])
CONSTANT = 2.0


def learned(sizes: Matrix, x: Matrix, y: Matrix, slots: Matrix | None = None) -> Posterior:
    """Of regression with unit noise, where weight j has the prior variance ``CONSTANT`` / sizes[j]^2 at 0.

    Weights without a slot lose their covariances at the end.
    """
    used = np.flatnonzero(sizes)
    precision = np.diag(sizes[used] ** 2 / CONSTANT) + x[:, used].T @ x[:, used]
    unit = np.sqrt(np.diag(precision))
    s = np.linalg.inv(precision / np.outer(unit, unit)) / np.outer(unit, unit)
    mean, variance = np.zeros((2, len(sizes)))
    mean[used], variance[used] = s @ x[:, used].T @ y, np.diag(s)
    inside = np.arange(len(used)) if slots is None else np.flatnonzero(np.isin(used, slots))
    return Posterior(mean, sizes, variance, used[inside], s[np.ix_(inside, inside)])


def rows(n: int, seed: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)) @ rng.normal(size=(5, 5))
    return x * UNITS, rng.normal(size=n) + x[:, 0]


def near(one: Posterior, other: Posterior) -> None:
    deviation = np.sqrt(other.variance)
    np.testing.assert_allclose(one.mean / deviation, other.mean / deviation, atol=1e-8)
    np.testing.assert_allclose(one.variance, other.variance, rtol=1e-8)
    assert one.slots.tolist() == other.slots.tolist()
    unit = deviation[one.slots]
    np.testing.assert_allclose(
        one.matrix / np.outer(unit, unit), other.matrix / np.outer(unit, unit), atol=1e-8
    )


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_it_is_what_one_learner_of_all_examples_knows(shards: int) -> None:
    """In any units, where features are larger in some shards, or only there."""
    x, y = rows(20 * (1 + shards), shards)
    x[:20, 3] = x[20:40, 4] = 0.0  # the first is new in all shards, the second is not seen by one
    first = np.array([1.0, 1.0, 0.5, 0.0, 1.0]) * UNITS
    prior, parts, largest = learned(first, x[:20], y[:20]), [], first
    for k in range(shards):
        sizes = first * np.array([1.0, 1.0 + k, 1.0, 0.0, 1.0]) + [0, 0, 0, 7.0 * (1 + k), 0]
        largest = np.maximum(largest, sizes)
        seen = np.r_[:20, 20 * (1 + k) : 20 * (2 + k)]
        parts.append(learned(sizes, x[seen], y[seen]))
    near(product(prior, parts, CONSTANT, np.arange(5)), learned(largest, x, y))


def test_a_shard_that_learns_nothing_changes_nothing() -> None:
    prior = learned(UNITS, *rows(30, 0))
    part = learned(UNITS, *rows(50, 1))
    alone = product(prior, [part], CONSTANT, np.arange(5))
    near(product(prior, [part, prior], CONSTANT, np.arange(5)), alone)


@pytest.mark.parametrize("seed", range(20))
def test_dropped_covariances_leave_it_positive_definite(seed: int) -> None:
    """Shards drop different ones, and know more than before of each weight in spite of it."""
    rng, (x, y) = np.random.default_rng(seed), rows(60, seed)
    prior, slots = learned(UNITS, x[:20], y[:20], np.array([0, 1, 2, 3])), np.array([0, 2, 4])
    lost, parts = [rng.choice(5, 2, replace=False) for _ in range(2)], []
    for k, gone in enumerate(lost):
        seen = np.r_[:20, 20 * (1 + k) : 20 * (2 + k)]
        parts.append(learned(UNITS, x[seen], y[seen], np.setdiff1d(np.arange(5), gone)))
    merged = product(prior, parts, CONSTANT, slots)
    unit = np.sqrt(merged.variance[slots])
    assert merged.slots.tolist() == slots.tolist()
    assert np.linalg.eigvalsh(merged.matrix / np.outer(unit, unit))[0] > 0.0
    assert np.array_equal(np.diag(merged.matrix), merged.variance[slots])


def test_all_that_shards_drop_is_dropped_from_what_was_known_before() -> None:
    x, y = rows(60, 3)
    prior, slots = learned(UNITS, x[:20], y[:20]), np.array([0, 1, 2])
    loose = learned(UNITS, x[:20], y[:20], slots)
    parts = [loose._replace(mean=loose.mean + shift * UNITS**-1) for shift in (0.1, 0.2)]
    near(product(prior, parts, CONSTANT, slots), loose._replace(mean=loose.mean + 0.3 * UNITS**-1))


def test_spoiled_covariances_are_left_out() -> None:
    prior = learned(UNITS, *rows(30, 0))
    part = learned(UNITS, *rows(50, 1))
    spoiled = part._replace(matrix=part.matrix * (2.0 * np.eye(5) - 1.0) * 1e3)
    merged = product(prior, [part, spoiled], CONSTANT, np.arange(5))
    assert len(merged.slots) == 0
    assert np.all((merged.variance > 0.0) & (merged.variance < part.variance * (1 + 1e-9)))
