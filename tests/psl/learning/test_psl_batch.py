"""Batch learners of PSL: gradients, proven minima, and planted weights found again in what they predict."""

import math
from functools import partial

import numpy as np
import pytest

from onlinesrl.core.evaluation.metrics import measured
from onlinesrl.core.learning.batch import LearningError, Trace
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.cutting_planes import CuttingPlanes, Plane
from onlinesrl.psl.learning.lme import HalfNorm, Lme
from onlinesrl.psl.learning.mle import Energy, LogEntropy, Mle
from onlinesrl.psl.learning.mple import Mple, conditionals_of
from onlinesrl.psl.learning.problem import grounded
from onlinesrl.psl.learning.supervised import CrossEntropy, SquaredError
from onlinesrl.psl.learning.voted_perceptron import VotedPerceptron

RULES = """
{}: Knows(A, B) & Likes(A) -> Likes(B) ^2
{}: Knows(A, B) & Old(A) -> Likes(B)
{}: Old(A) -> !Likes(A) ^2
{}: !Likes(A) ^2
"""
PLANTED = np.array([4.0, 0.5, 1.0, 0.4])


def quiet(step):
    pass


def problem(weights, truth=None, people=60, seed=0, more="", linear=False):
    """A random network of people, some of them old, with targets that have this truth.

    Where potentials are linear, people are old or not, so that most probable values are 0 or 1.
    """
    rng = np.random.default_rng(seed)
    names = [f"p{n}" for n in range(people)]
    pairs = rng.integers(0, people, (3 * people, 2))
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    rules = RULES.replace(" ^2", "") if linear else RULES
    program = parse(rules.format(*weights) + more)
    old = rng.random(people).round(0 if linear else 1)
    observed = {
        "Knows": Columns([[names[a] for a in column] for column in pairs.T]),
        "Old": Columns([names], old),
    }
    targets = {"Likes": Columns([names])}
    known = {} if truth is None else {"Likes": Columns([names], truth)}
    return grounded(program, {}, database_of(program.predicates, observed, targets, known))


def likely(weights, seed, linear=False):
    """The most probable values, as truth."""
    of = problem(weights, seed=seed, linear=linear)
    found = np.clip(of.solve(of.start).y, 0.0, 1.0)
    return np.round(found) if linear else found


def numeric(function, w, step=1e-5):
    return np.array(
        [(function(w + e) - function(w - e)) / (2 * step) for e in np.eye(len(w)) * step]
    )


# cutting planes ----------------------------------------------------------------------------------


def test_the_least_value_of_planes_on_the_simplex_is_that_of_a_grid():
    rng = np.random.default_rng(1)
    offsets, slopes, regulariser = (
        rng.normal(size=5),
        9 * rng.normal(size=(5, 2)),
        LogEntropy(1.0, 2.0),
    )

    def highest(w):
        k = int(np.argmax(offsets + slopes @ w))
        return Plane(offsets[k], slopes[k], 0.0)

    trace = Trace(quiet)
    found = CuttingPlanes(regulariser, True, 1e-9).minimise(highest, np.array([0.5, 0.5]), trace)
    first = np.linspace(1e-4, 1 - 1e-4, 200_001)
    grid = np.stack([first, 1 - first])
    values = np.max(offsets[:, None] + slopes @ grid, axis=0)
    values += np.sum((2.0 * grid - 1.0) * np.log(grid), axis=0)
    assert found.converged and found.w.sum() == pytest.approx(1.0)
    assert found.value == pytest.approx(values.min(), abs=1e-6)
    assert found.bound <= found.value
    assert trace.steps[-1].objective == found.value


def test_the_least_value_of_a_quadratic_programme():
    """The minimum of |w|^2 / 2 + 3 max(0, 2 - w1 - w2) over w >= 0 is at w = (1, 1)."""

    def hinge(w):
        return (
            Plane(6.0, np.array([-3.0, -3.0]), 0.0) if w.sum() < 2 else Plane(0.0, np.zeros(2), 0.0)
        )

    found = CuttingPlanes(HalfNorm(), False, 1e-8).minimise(
        hinge, np.array([0.1, 5.0]), Trace(quiet)
    )
    np.testing.assert_allclose(found.w, 1.0, atol=1e-3)
    assert found.value == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("regulariser", [LogEntropy(1.0, 10.0), HalfNorm()])
def test_regularisers_and_their_derivatives(regulariser):
    w = np.array([0.2, 0.5, 1.3])
    np.testing.assert_allclose(regulariser.gradient(w), numeric(regulariser.value, w), rtol=1e-6)
    curvature = numeric(lambda w: regulariser.gradient(w).sum(), w)
    np.testing.assert_allclose(regulariser.curvature(w), curvature, rtol=1e-6)


# gradients ---------------------------------------------------------------------------------------


def test_the_gradient_of_likelihood_with_map_states():
    of = problem(PLANTED, np.random.default_rng(0).random(60))

    def gap(w):
        return w @ of.observed - of.solve(w).bound

    w = np.array([2.0, 0.7, 1.5, 0.6])
    gradient = of.observed - of.totals(of.solve(w).y)
    np.testing.assert_allclose(gradient, numeric(gap, w, 1e-3), rtol=0.02, atol=0.02)


def test_the_gradient_of_pseudo_likelihood():
    of = problem(PLANTED, np.random.default_rng(0).random(60), more="Likes(A) + Old(A) <= 1.9 .")
    conditionals = conditionals_of(of.model, of.truth * 0.9, 5)
    w = np.array([2.0, 0.7, 1.5, 0.6, 0.0])
    value, gradient = conditionals.value(w)
    assert np.isfinite(value)
    assert numeric(lambda w: conditionals.value(w)[0], w) == pytest.approx(
        gradient, rel=1e-6, abs=1e-6
    )


def test_pseudo_likelihood_is_that_of_its_definition():
    """Each conditional by adaptive quadrature; one is cut by a hard rule, one is fixed by another."""
    integrate = pytest.importorskip("scipy.integrate")
    more = "Likes('p0') <= 0.7 .\nLikes('p1') = 0.3 ."
    truth = np.array([0.6, 0.3, 0.9, 0.2, 1.0, 0.0])
    of = problem(PLANTED, truth, people=6, more=more)
    expected = 0.0
    for i, high in enumerate([0.7, 0.0, 1.0, 1.0, 1.0, 1.0]):

        def density(t, i=i):
            return math.exp(-of.model.energy(np.where(np.arange(6) == i, t, truth), of.start))

        if high:
            z = integrate.quad(density, 0, high, limit=200)[0]
            expected += math.log(density(truth[i]) / z)
    found = conditionals_of(of.model, of.truth, len(of.start)).value(of.start)[0]
    assert found == pytest.approx(expected, rel=1e-4)


# learners ----------------------------------------------------------------------------------------


def mean_errors(learner, planted, linear=False, rise=0.0):
    """Learn on one network; return the mean absolute error on another, and that of weights of 1.

    No step may add more than ``rise`` to the objective.
    """
    ones = np.ones(len(planted))
    here, there = (likely(planted, seed, linear=linear) for seed in (1, 2))
    learned = learner.learn(problem(ones, here, seed=1, linear=linear), quiet)
    assert not learned.warnings
    assert np.diff([step.objective for step in learned.trace]).max() <= rise
    held_out = problem(ones, there, seed=2, linear=linear)
    return (measured(held_out.predicted(w)["Likes"])["mae"] for w in (learned.weights, ones))


@pytest.mark.parametrize(
    ("learner", "share", "rise"),
    [
        (Mle(log=0.01, entropy=0.0), 0.5, 0.0),
        (Mple(), 0.5, 0.0),
        (VotedPerceptron(steps=200), 0.6, np.inf),
        (SquaredError(log=0.01, entropy=0.0), 0.3, 1e-3),
        (CrossEntropy(log=0.01, entropy=0.0), 0.3, 1e-3),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_planted_weights_are_found_in_what_they_predict(learner, share, rise):
    wrong, before = mean_errors(learner, PLANTED, rise=rise)
    assert wrong < share * before


def test_steps_of_the_voted_perceptron_are_those_of_the_equation():
    """Equation 2.15, with potentials by hand and states by L-BFGS."""
    optimize = pytest.importorskip("scipy.optimize")
    truth, n = np.array([0.6, 0.3, 0.9, 0.2, 1.0, 0.0]), 6
    more = "Likes('p1') <= 0.3 ."
    of = problem([2.0, 0.7, 1.0, 0.5], truth, people=n, more=more)
    relations, person = of.database.relations, [int(p[1:]) for p in of.database.constants]
    pairs = [(person[a], person[b]) for a, b in relations["Knows"].observed.columns.T]
    old, given = np.zeros(n), relations["Old"].observed
    old[[person[a] for a in given.columns[0]]] = given.values

    def totals(y):
        return np.array(
            [
                sum(max(y[a] - y[b], 0.0) ** 2 for a, b in pairs),
                sum(max(old[a] - y[b], 0.0) for a, b in pairs),
                sum(np.maximum(old + y - 1.0, 0.0) ** 2),
                sum(y**2),
                0.0,
            ]
        )

    counts = np.array([len(pairs), sum(old[a] > 0 for a, _ in pairs), sum(old > 0), n, 1])
    weights, path = np.array([2.0, 0.7, 1.0, 0.5, 0.0]), []
    bounds = [(0.0, 0.3 if k == 1 else 1.0) for k in range(n)]
    for _ in range(4):
        energy = partial(lambda w, y: w @ totals(y), weights)
        state = optimize.minimize(energy, truth, bounds=bounds, tol=1e-12).x
        weights = np.maximum(weights + 0.5 * (totals(state) - totals(truth)) / counts, 0.0)
        path.append(weights)
    learned = VotedPerceptron(steps=4, step=0.5).learn(of, quiet)
    np.testing.assert_allclose(learned.weights, np.mean(path, axis=0), atol=2e-3)


def test_planted_weights_are_found_by_large_margins_where_states_are_of_0_and_1():
    wrong, before = mean_errors(Lme(c=10.0), np.array([0.3, 1.0, 1.0, 0.5]), linear=True)
    assert wrong < 1e-3 * before


def test_the_least_energy_of_the_truth_is_where_all_slopes_are_the_same():
    """Karush, Kuhn and Tucker on the simplex."""
    of = problem(np.ones(4), likely(PLANTED, seed=1), seed=1)
    learned = Energy(log=0.5, entropy=2.0).learn(of, quiet)
    w = learned.weights
    assert w.sum() == pytest.approx(1.0)
    slopes = of.observed + LogEntropy(0.5, 2.0).gradient(w)
    np.testing.assert_allclose(slopes, slopes.mean(), rtol=1e-2)
    assert learned.trace[-1].objective - learned.stats["bound"] < 1e-4


@pytest.mark.parametrize("learner", [Mle(), Lme()])
def test_no_other_weights_are_better_than_the_bound(learner):
    of = problem(np.ones(4), np.round(likely(PLANTED, seed=3)), seed=3)
    learned = learner.learn(of, quiet)
    value, bound = learned.trace[-1].objective, learned.stats["bound"]
    assert 0 <= value - bound <= 1e-4 * max(1.0, abs(value))
    rng = np.random.default_rng(0)
    for _ in range(20):
        w = learned.weights * np.exp(0.3 * rng.normal(size=4))
        if learner.kind == "mle":
            w /= w.sum()
            other = w @ of.observed - of.solve(w).bound + LogEntropy(1.0, 10.0).value(w)
        else:
            away = 1.0 - 2.0 * of.truth
            found = of.engine.solve(of.model, w, bonus=away)
            loss = float(np.sum(of.truth + away * found.y))
            other = 0.5 * w @ w + loss - w @ (of.totals(found.y) - of.observed)
        assert other >= bound - 1e-3


def test_what_cannot_be_learned_from():
    with pytest.raises(
        LearningError, match="60 of 60 targets have no truth, such as Likes\\('p0'\\)"
    ):
        Mle().learn(problem(PLANTED), quiet)
    with pytest.raises(
        LearningError, match=r"the truth of Likes\('p0'\) is 0.5; large margins need 0 or 1"
    ):
        Lme().learn(problem(PLANTED, np.full(60, 0.5)), quiet)
    with pytest.raises(LearningError, match="hard rules fix every target"):
        Mple().learn(problem(PLANTED, np.full(60, 0.5), more="Likes(A) = 0.5 ."), quiet)
