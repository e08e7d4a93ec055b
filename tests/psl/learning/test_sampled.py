"""Samples of hinge-loss densities, beside quadrature and plain numpy, and likelihoods learned from them."""

import numpy as np
import pytest

from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL
from onlinesrl.psl.inference.sampling import Sampler, lines_of, null_space
from onlinesrl.psl.kernels import line_sampling
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.problem import grounded
from onlinesrl.psl.learning.sampled_mle import SampledMle, totals
from tests.psl.learning.test_psl_batch import PLANTED, problem, quiet
from tests.support.hinge_models import Rows

NODES = (np.arange(50) + 0.5) / 50


def small(more=""):
    """Three people in a triangle."""
    people = ["a", "b", "c"]
    rules = """
    2.5: Knows(A, B) & Likes(A) -> Likes(B) ^2
    1.5: Old(A) -> Likes(A)
    0.7: !Likes(A) ^2
    """
    program = parse(rules + more)
    observed = {"Knows": Columns([["a", "b", "c"], ["b", "c", "a"]])}
    observed |= {"Old": Columns([people], np.array([0.9, 0.1, 0.5]))}
    truth = {"Likes": Columns([people], np.array([0.8, 0.5, 0.1]))}
    targets = {"Likes": Columns([people])}
    return grounded(program, {}, database_of(program.predicates, observed, targets, truth))


def quadrature(of, inside):
    """E[Phi] over a grid, by numpy."""
    grid = np.stack(np.meshgrid(NODES, NODES, NODES), axis=-1).reshape(-1, 3)
    grid = grid[inside(grid)]
    forms = np.stack([of.model.forms(np.eye(3)[j]) for j in range(3)]) - of.model.constant
    form = grid @ forms + of.model.constant
    soft = of.model.weight_index >= 0
    phi = np.maximum(form[:, soft], 0.0) ** of.model.power[soft]
    sums = phi @ np.eye(len(of.start))[of.model.weight_index[soft]]
    density = np.exp(-sums @ of.start)
    return density @ sums / density.sum()


@pytest.mark.parametrize(
    ("more", "inside"), [("Likes('a') + Likes('b') <= 1.1 .", lambda y: y[:, 0] + y[:, 1] <= 1.1)]
)
def test_expected_potentials_are_those_of_quadrature(more, inside):
    of = small(more)
    chain = Sampler(of.model, of.solve(of.start).y, 0)
    found = totals(chain, of, of.start, 4_000)[100:].mean(axis=0)
    np.testing.assert_allclose(found, quadrature(of, inside), rtol=0.04, atol=0.004)


def test_expected_potentials_where_values_have_a_sum():
    """The density on the simplex, by quadrature over two of the three values."""
    of = small("Likes(+A) = 1 .")
    a, b = (each.ravel() for each in np.meshgrid(NODES, NODES))
    kept = a + b <= 1.0
    states = np.stack([a[kept], b[kept], 1.0 - a[kept] - b[kept]], axis=-1)
    phi = np.stack([of.totals(y) for y in states])
    density = np.exp(-phi @ of.start)
    chain = Sampler(of.model, np.array([0.2, 0.3, 0.5]), 0)
    found = totals(chain, of, of.start, 4_000)[100:].mean(axis=0)
    assert chain.y.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found, density @ phi / density.sum(), rtol=0.04, atol=0.004)


def test_lines_keep_equality_constraints():
    """Some constraints share variables, one is twice the other."""
    rows = Rows()
    rows.add(-1, [[0, 1, 2]], [1.0, 1.0, 1.0], -1.0, kind=EQUAL)
    rows.add(-1, [[2, 3]], [1.0, -2.0], 0.0, kind=EQUAL)
    rows.add(-1, [[3, 2]], [-4.0, 2.0], 0.0, kind=EQUAL)
    rows.add(-1, [[4, 5]], [1.0, -1.0], 0.0, kind=AT_MOST)
    rows.add(0, [[0, 4]], [1.0, 1.0], -0.5)
    model = rows.model(6)
    lines = lines_of(model)
    directions = np.zeros((len(lines.start) - 1, 6))
    line = np.repeat(np.arange(len(directions)), np.diff(lines.start))
    directions[line, lines.variable] = lines.amount
    matrix = np.stack([model.forms(e) for e in np.eye(6)]).T - model.constant[:, None]
    changes = directions @ matrix.T
    assert np.linalg.matrix_rank(directions) == len(directions) == 4
    np.testing.assert_allclose(changes[:, model.kind == EQUAL], 0.0, atol=1e-12)
    known = np.zeros_like(changes)
    known[np.repeat(np.arange(4), np.diff(lines.first)), lines.row] = lines.slope
    np.testing.assert_allclose(known, changes, atol=1e-12)


def test_a_basis_of_what_is_mapped_to_0():
    rng = np.random.default_rng(0)
    matrix = rng.integers(-2, 3, (4, 7)).astype(float)
    matrix[3] = matrix[0] + matrix[1]
    basis = np.stack([*null_space(matrix)])
    assert np.linalg.matrix_rank(basis) == len(basis) == 7 - np.linalg.matrix_rank(matrix)
    np.testing.assert_allclose(matrix @ basis.T, 0.0, atol=1e-9)


def test_kernels_beside_plain_numpy():
    of = problem(PLANTED, more="Likes(A) + Old(A) <= 1.5 .")
    rows, lines, rng = of.model, lines_of(of.model), np.random.default_rng(0)
    y = of.solve(of.start).y * 0.9
    form = of.model.forms(y)
    for line in range(60):
        low, high = line_sampling.room(rows, lines, line, form, y)
        by = rng.uniform(low, high)
        moved = y.copy()
        moved[line] += by
        assert of.model.violation(moved) <= 1e-9
        for end in (low - 1e-3, high + 1e-3):
            assert of.model.violation(np.where(np.arange(60) == line, y + end, y)) > 1e-4
        before, after = (
            line_sampling.energy(rows, of.start, lines, line, form, step) for step in (0.0, by)
        )
        rise = of.model.energy(moved, of.start) - of.model.energy(y, of.start)
        assert after - before == pytest.approx(rise)
        line_sampling.move(lines, line, by, form, y)
        np.testing.assert_allclose(form, of.model.forms(y), atol=1e-9)


def test_planted_weights_are_found_by_sampled_likelihood():
    """The truth is a sample of the density of planted weights."""
    planted = np.array([4.0, 2.0, 1.0, 3.0])
    of = problem(planted, people=800)
    chain = Sampler(of.model, of.solve(of.start).y, 1)
    *_, truth = chain.draw(planted, 200)
    truth = truth.copy()  # the chain goes on in its own
    learned = SampledMle(steps=60, samples=20).learn(problem(np.ones(4), truth, 800), quiet)
    np.testing.assert_allclose(learned.weights[:2], planted[:2], rtol=0.1)
    assert learned.weights[2:].sum() == pytest.approx(planted[2:].sum(), rel=0.15)  # much alike
    expected = totals(chain, of, learned.weights, 200).mean(axis=0)
    np.testing.assert_allclose(expected, of.totals(truth), rtol=0.05)
    norms = [step.objective for step in learned.trace]
    assert np.mean(norms[-20:]) < 0.1 * norms[0]
