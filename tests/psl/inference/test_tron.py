"""Trust-region Newton against the quadratic program, with a ridge and on micrographs."""

import time

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.psl.ground.hinge_loss_mrf import HINGE, PLAIN, Micrographs
from onlinesrl.psl.inference.tron import Tron
from tests.support.hinge_models import Rows, hinge_problems, model_of
from tests.support.qp import Qp


def with_ridge(model, weights, ridge):
    """The ridge as rows: a squared potential without hinge for each variable."""
    n, k = model.n_variables, len(weights)
    rows = Rows()
    rows.add(k, np.arange(n)[:, None], 1.0, 0.0, 2, PLAIN)
    extra = rows.model(n)
    joined = {
        name: np.concatenate((getattr(model, name), getattr(extra, name)))
        for name in ("variable", "coefficient", "constant", "weight_index", "power", "kind")
    }
    start = np.concatenate((model.start, model.start[-1] + extra.start[1:]))
    return type(model)(n_variables=n, start=start, **joined), np.append(weights, ridge)


@given(hinge_problems(squares_only=True, constraints=False))
def test_the_energy_with_a_ridge_is_the_programs(problem):
    model, weights, bonus = problem
    exact = Qp().solve(*with_ridge(model, weights, 0.1), bonus=bonus)
    found = Tron(ridge=0.1).solve(model, weights, bonus=bonus)

    assert found.iterations < 100
    assert found.certified
    assert found.energy == pytest.approx(exact.energy, rel=1e-6, abs=1e-6)
    assert found.bound <= found.energy + 1e-9 * max(1, abs(found.energy))


def test_linear_potentials_without_hinge():
    rows = Rows()
    rows.add(0, [0, 1], [1, -3], 0.0, 1, PLAIN)
    rows.add(1, [[0], [1]], 1, -0.5, 2, PLAIN)
    found = Tron().solve(rows.model(2), np.ones(2))

    np.testing.assert_allclose(found.y, [0, 1], atol=1e-8)


def test_a_hinge_of_power_1_is_refused():
    with pytest.raises(ValueError, match="power 1"):
        Tron().solve(model_of(1, (0, [0], 1, 0.0, 1, HINGE)), np.ones(1))


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
    y, steps = Tron(ridge=0.01).solve_each(graphs, weights)
    whole = Tron(ridge=0.01).solve(graphs.model, weights)
    single, _ = Tron(ridge=0.01).solve_each(micrographs(1, 4), weights)

    assert np.all(steps < 50)
    np.testing.assert_allclose(y, whole.y, atol=1e-6)
    np.testing.assert_array_equal(y[:4], single)


@pytest.mark.benchmark
def test_a_micrograph_takes_less_than_a_tenth_of_a_millisecond():
    graphs, weights = micrographs(1000, 10), np.array([1.0, 2.0])
    Tron(ridge=0.01).solve_each(graphs, weights)
    before = time.process_time()
    _, steps = Tron(ridge=0.01).solve_each(graphs, weights)
    seconds = (time.process_time() - before) / 1000
    print(f"{1e6 * seconds:.1f} us a micrograph, {steps.mean():.1f} steps")

    assert seconds < 1e-4
