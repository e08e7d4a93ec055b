"""Trust-region Newton on micrographs."""

import time

import numpy as np
import pytest

from onlinesrl.psl.ground.hinge_loss_mrf import PLAIN, Micrographs
from onlinesrl.psl.inference.tron import Tron
from tests.support.hinge_models import Rows


def test_linear_potentials_without_hinge():
    rows = Rows()
    rows.add(0, [0, 1], [1, -3], 0.0, 1, PLAIN)
    rows.add(1, [[0], [1]], 1, -0.5, 2, PLAIN)
    found = Tron().solve(rows.model(2), np.ones(2))

    np.testing.assert_allclose(found.y, [0, 1], atol=1e-8)


def micrographs(count, products, seed=0):
    """Queries of so many products: a score each, and similar products mismatch alike (5.4, 5.5)."""
    rng = np.random.default_rng(seed)
    a, b = np.triu_indices(products, 1)
    rows, first_row = Rows(), [0]
    for k in range(count):
        score, similar = rng.random(products), rng.random(len(a))
        y = k * products + np.arange(products)[:, None]
        pairs = np.stack((y[a, 0], y[b, 0]), axis=1)
        rows.add(0, y, -1, score, 2)
        rows.add(0, y, 1, -score, 2)
        rows.add(1, pairs, [1, -1], similar - 1, 2)
        rows.add(1, pairs, [-1, 1], similar - 1, 2)
        first_row.append(sum(map(len, rows.constant)))
    model = rows.model(count * products)
    return Micrographs(model, np.arange(count + 1) * products, np.array(first_row))


def test_each_micrograph_as_if_alone():
    graphs, weights = micrographs(5, 4), np.array([1.0, 2.0])
    y, steps = Tron().solve_each(graphs, weights)
    whole = Tron().solve(graphs.model, weights)
    single, _ = Tron().solve_each(micrographs(1, 4), weights)

    assert np.all(steps < 50)
    np.testing.assert_allclose(y, whole.y, atol=1e-6)
    np.testing.assert_array_equal(y[:4], single)


@pytest.mark.benchmark
def test_a_micrograph_takes_less_than_a_tenth_of_a_millisecond():
    graphs, weights = micrographs(1000, 10), np.array([1.0, 2.0])
    Tron().solve_each(graphs, weights)
    before = time.process_time()
    _, steps = Tron().solve_each(graphs, weights)
    seconds = (time.process_time() - before) / 1000
    print(f"{1e6 * seconds:.1f} us a micrograph, {steps.mean():.1f} steps")

    assert seconds < 1e-4
