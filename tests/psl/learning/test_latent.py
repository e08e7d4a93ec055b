"""Latent variables: the local copies of ADMM, the gradient, the learners, and what they recover."""

import numpy as np
import pytest

from onlinesrl.core.evaluation.metrics import METRICS
from onlinesrl.core.learning.batch import LearningError
from onlinesrl.psl.ground.hinge_loss_mrf import HINGE, clamp
from onlinesrl.psl.inference.admm import Admm, AdmmState
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.latent import Em, PairedDual, Primal, with_surrogate
from onlinesrl.psl.learning.problem import grounded

RULES = """
{}: Knows(A, B) & Trusts(A, B) -> Good(B) ^2
{}: Knows(A, B) & Good(B) -> Trusts(A, B) ^2
{}: Knows(A, B) & !Good(B) -> !Trusts(A, B) ^2
{}: Rumour(A) -> !Good(A) ^2
{}: Knows(A, B) -> Trusts(A, B) ^2
{}: Knows(A, B) & Rumour(A) -> !Trusts(A, B)
"""
GOOD = {"latent": ("Good",)}
LOSS = {"entropy": "loss", "entropy_weight": 1.0, **GOOD}
LEARNERS = [
    PairedDual(updates=300, adagrad=False, step=1.0, **GOOD),
    PairedDual(updates=300, adagrad=False, step=1.0, entropy="none", **GOOD),
    PairedDual(updates=300, **LOSS),
    PairedDual(updates=100, rounds=5, warm_up=10, **LOSS),
    Primal(updates=40, **LOSS),
    Em(updates=60, **LOSS),
]


def quiet(step):
    pass


def problem(weights=(1.0,) * 6, seed=0, people=30, known=True):
    """Some people are good; the good are trusted, of the bad there are rumours, mostly."""
    rng = np.random.default_rng(seed)
    good = rng.random(people) < 0.7
    rumour = np.where(good, 0.1, 0.9) > rng.random(people)
    pairs = rng.integers(0, people, (4 * people, 2))
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    trust = np.where(rng.random(len(pairs)) < 0.9, good[pairs[:, 1]], ~good[pairs[:, 1]])
    names = [f"p{n}" for n in range(people)]
    columns = [[names[a] for a in column] for column in pairs.T]
    observed = {"Knows": Columns(columns), "Rumour": Columns([names], rumour.astype(float))}
    targets = {"Trusts": Columns(columns), "Good": Columns([names])}
    truth = {"Trusts": Columns(columns, trust.astype(float))} if known else {}
    program = parse(RULES.format(*weights))
    return grounded(program, {}, database_of(program.predicates, observed, targets, truth))


# ADMM ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 4])
def test_local_copies_minimise_a_potential_and_its_distance(rounds):
    """The form s of a copy minimises w phi(s) + sigma (s - at)^2 / 2, where at = form(ahead) + u / sigma."""
    of = problem()
    weights = np.array([1.0, 0.5, 2.0, 1.0, 0.3, 0.7])
    state, same = AdmmState(of.model, weights), AdmmState(of.model, weights)
    if rounds > 1:
        same.step(rounds - 1)
        state.step(rounds - 1)
    u, sigma = same.iterate.dual.copy(), same.eta * same.problem.row_step
    local = state.copies()
    grid = np.linspace(-2, 2, 40_001)
    rows = np.flatnonzero((sigma > 0) & (of.model.kind == HINGE))[::7]
    assert len(rows) > 20
    ahead = of.model.forms(state.iterate.ahead)
    for i in rows.tolist():
        at = ahead[i] + u[i] / sigma[i]
        energy = weights[of.model.weight_index[i]] * np.maximum(grid, 0.0) ** of.model.power[i]
        best = grid[np.argmin(energy + sigma[i] / 2 * (grid - at) ** 2)]
        assert local[i] == pytest.approx(best, abs=2e-4)


def test_other_weights_may_follow():
    of, other = problem(), np.array([0.5, 2.0, 1.0, 0.1, 1.0, 1.0])
    state = AdmmState(of.model, of.start)
    state.step(20)
    state.reweigh(other)
    found = state.solve(1e-8, 1e-6, 10_000)
    expected = Admm(tolerance=1e-8, violation=1e-6).solve(of.model, other)
    assert found.certified
    assert found.energy == pytest.approx(expected.energy, rel=1e-6)
    np.testing.assert_allclose(found.y, expected.y, atol=1e-3)


def test_clamped_models_and_surrogates_have_the_energy_of_their_definition():
    of, rng = problem(), np.random.default_rng(0)
    y, hidden = rng.random(len(of.truth)), np.isnan(of.truth)
    model, weights = with_surrogate(of.model, 6), np.array([1.0, 2.0, 0.5, 1.0, 0.3, 0.7, 0.25])
    energy = of.model.energy(y, weights[:6]) + 0.25 * np.sum(y**2 + (1 - y) ** 2)
    assert model.energy(y, weights) == pytest.approx(energy)
    beside = clamp(model, y, hidden)
    assert beside.n_variables == hidden.sum()
    assert beside.energy(y[hidden], weights) == pytest.approx(energy)


def test_an_answer_is_a_start_for_other_weights_where_rows_have_no_variables_too():
    of, engine = problem(), Admm(tolerance=1e-6)
    hidden = np.isnan(of.truth)
    beside = clamp(of.model, np.where(hidden, 0.0, of.truth), hidden)
    first = engine.solve(beside, of.start)
    other = engine.solve(beside, 3 * of.start, start=first)
    assert other.certified
    assert other.energy == pytest.approx(3 * first.energy, rel=1e-5)


# learning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entropy", ["squared", "loss", "none"])
def test_the_gradient_is_that_of_the_objective(entropy):
    weights = np.array([1.0, 0.6, 1.5, 0.8, 0.4, 0.9])
    learner = Primal(latent=("Good",), entropy=entropy, l2=0.1, updates=1)

    def value(w):
        return next(learner.path(problem(w))).objective

    of = problem(weights)
    free, clamped = learner.sides(of)
    next(learner.minimise(free, clamped))
    gradient = clamped.phi[:6] - free.phi[:6] + 0.1 * of.counts * weights
    for k, e in enumerate(np.eye(6) * 0.02):
        slope = (value(weights + e) - value(weights - e)) / 0.04
        assert slope == pytest.approx(gradient[k], rel=0.02, abs=0.05)


def test_paired_duals_with_many_rounds_are_the_primal_subgradient():
    """Rounds that converge end before their number is reached."""
    options = {"updates": 5, "step": 0.5, "adagrad": False, **GOOD}
    many = PairedDual(rounds=3000, **options).learn(problem(), quiet)
    assert 10 < many.stats["rounds"] < 5000
    primal = Primal(**options).learn(problem(), quiet)
    np.testing.assert_allclose(many.weights, primal.weights, atol=5e-3)
    assert many.trace[-1].objective == pytest.approx(primal.trace[-1].objective, abs=0.2)


def test_weights_that_have_settled_end_learning():
    ended = PairedDual(updates=400, settled=0.05, **LOSS).learn(problem(), quiet)
    n = len(ended.trace)
    assert 10 < n < 200
    same = PairedDual(updates=n, **LOSS).learn(problem(), quiet)
    np.testing.assert_array_equal(ended.weights, same.weights)
    assert ended.stats["path"][-1] == same.stats["path"][-1]
    longer = PairedDual(updates=400, settled=0.02, **LOSS).learn(problem(), quiet)
    assert n < len(longer.trace) < 400


def test_a_step_size_that_is_kept_ends_at_the_same_weights():
    options = {"updates": 3, "step": 0.5, "adagrad": False, "rounds": 3000, **GOOD}
    kept = PairedDual(eta=2.0, **options).learn(problem(), quiet)
    changed = PairedDual(**options).learn(problem(), quiet)
    np.testing.assert_allclose(kept.weights, changed.weights, atol=2e-3)


def test_few_rounds_follow_the_primal_subgradient_while_weights_change_fast():
    """With duals that do not change with the weights, the objective is several times as great."""
    options = {"updates": 40, **GOOD}
    of, primal = problem(), Primal(**options)

    def objective(learner):
        free, clamped = primal.sides(of)
        weights = learner.learn(of, quiet).weights
        for side in (free, clamped):
            side.reweigh(weights)
            side.solve()
        return primal.objective(of, weights, free, clamped)

    assert objective(PairedDual(**options)) < 1.1 * objective(primal)


def test_em_that_holds_values_for_one_update_is_the_primal_subgradient():
    options = {"latent": ("Good",), "updates": 6}
    held = Em(held=1, **options).learn(problem(), quiet)
    np.testing.assert_array_equal(held.weights, Primal(**options).learn(problem(), quiet).weights)
    longer = Em(held=3, **options).learn(problem(), quiet)
    assert longer.stats["rounds"] < held.stats["rounds"]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each.kind)
def test_predictions_on_another_network_get_better(learner):
    start = (1.0, 0.05, 0.05, 0.05, 1.0, 1.0)
    learned = learner.learn(problem(start, seed=1), quiet)
    other = problem(start, seed=2)
    error = METRICS["mse"].measure
    before, after = (error(*other.predicted(w)["Trusts"]) for w in (other.start, learned.weights))
    assert after < 0.75 * before
    assert np.all(learned.weights >= 0)
    assert learned.stats["rounds"] > 0


def test_what_is_latent_has_no_truth_and_all_else_has():
    for latent, said in (
        (("Good", "Knows"), r"latent: Knows has no targets; those with targets: Trusts, Good"),
        (("Trusts", "Good"), r"Trusts\('p\d+', 'p\d+'\) has a truth, but is latent"),
        (("Trusts",), r"has a truth, but is latent"),
    ):
        with pytest.raises(LearningError, match=said):
            PairedDual(latent=latent).learn(problem(), quiet)
    with pytest.raises(LearningError, match=r"Trusts\(.*\) has no truth, and is not latent"):
        PairedDual(latent=("Good",)).learn(problem(known=False), quiet)
    with pytest.raises(LearningError, match=r"every target is latent, so there is no truth"):
        PairedDual(latent=("Trusts", "Good")).learn(problem(known=False), quiet)
