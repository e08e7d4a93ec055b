"""Search for weights: rays and coordinates, schedules, acquisitions, resuming, and what is found."""

import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import REPO, command, wait
from hypothesis import given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.evaluation.metrics import Scored
from onlinesrl.core.learning.batch import LearningError, Trace
from onlinesrl.core.learning.search import bayesian, evaluator
from onlinesrl.core.learning.search.bayesian import (
    ACQUISITIONS,
    Bayesian,
    gaussian_process,
    log_likelihood,
)
from onlinesrl.core.learning.search.evaluator import JOURNAL, Evaluations, Scorer, Trial
from onlinesrl.core.learning.search.strategies import (
    Hyperband,
    RandomGrid,
    RandomSearch,
    Run,
    schedule,
)
from onlinesrl.core.learning.search.weight_space import Space
from onlinesrl.core.parallel.executors import Forks, Inline
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.registry import map_engine, marginal_engine
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.problem import grounded
from onlinesrl.runs.batch_learning import read_problem
from onlinesrl.runs.config.loading import load_batch
from tests.support.waiting import until

TASTES = REPO / "streams" / "tastes"
TARGET = np.array([0.7, 0.2, 0.1])


class Bowl:
    """A problem whose mean squared error is least where weights are proportional to TARGET."""

    names = ("a", "b", "hard", "c")
    soft = np.array([True, True, False, True])
    seed = 3

    def __init__(self, folder=None, signed=False, start=(0.0, 0.0, 0.0, 0.0)):
        self.folder, self.signed, self.start = folder, signed, np.array(start)
        self.calls = []

    def tried(self, weights, share, iterations=None):
        assert weights[2] == 0.0
        self.calls.append((weights.tobytes(), share, iterations))
        w = weights[self.soft] / np.abs(weights).sum()
        return {"P": Scored(TARGET, w, np.arange(3))}


LEARNERS = [
    RandomGrid(metric="mse", configurations=60, grid=(1.0, 2.0, 6.0)),
    RandomSearch(metric="mse", configurations=60, a=1.0, workers=1),
    RandomSearch(metric="mse", configurations=60, sampling="hypersphere"),
    Hyperband(metric="mse", a=1.0),
    Bayesian(metric="mse", a=1.0, configurations=25, deviation=0.0),
    Bayesian(metric="mse", a=1.0, configurations=25, deviation=0.0, acquisition="ei"),
    Bayesian(metric="mse", a=1.0, configurations=25, deviation=0.0, space="original"),
    RandomSearch(metric="mse", configurations=60, floor=0.0, workers=1),
]


@pytest.fixture
def forks(monkeypatch, request):
    """Start processes for the shortest of evaluations, or for none."""
    monkeypatch.setattr(evaluator, "WORTHWHILE", 0.0 if request.param else math.inf)


KILLED = [(LEARNERS[0], True), *((LEARNERS[n], False) for n in (1, 3, 4))]
"""Searches, the first of which evaluates in forks."""
SEARCHES = [
    *(("psl", "random", True), ("psl", "random-grid", False), ("psl", "hyperband", False)),
    *(("mln", "random", False), ("mln", "bayesian", False)),
]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each.kind)
def test_the_best_configuration_is_near_the_best_there_is(learner, signed):
    found = learner.learn(Bowl(signed=signed), lambda step: None)
    first = np.mean((TARGET - 1 / 3) ** 2)
    assert found.stats["value"] < 0.35 * first
    assert found.weights[2] == 0.0
    objective = [step.objective for step in found.trace]
    assert objective == sorted(objective, reverse=True)
    assert objective[-1] == found.stats["value"] == found.stats["best"][0]["value"]


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(("learner", "forks"), KILLED, indirect=["forks"])
def test_a_search_that_was_killed_goes_on_with_the_same_result(learner, tmp_path):
    """Whatever was evaluated is not evaluated again, and a torn line is."""
    alone = learner.learn(Bowl(), lambda step: None)
    whole = Bowl(tmp_path)
    assert learner.learn(whole, lambda step: None).stats == alone.stats
    journal = tmp_path / evaluator.JOURNAL
    text = journal.read_text()
    for kept in (0, len(text) // 2, len(text) - 3):
        journal.write_text(text[:kept])
        again = Bowl(tmp_path)
        found = learner.model_copy(update={"workers": 1}).learn(again, lambda step: None)
        assert found.stats == alone.stats
        np.testing.assert_array_equal(found.weights, alone.weights)
        assert len(again.calls) == text.count("\n") - text[:kept].count("\n")
        assert journal.read_text() == text


def test_no_configuration_is_a_multiple_of_another():
    problem = Bowl()
    problem.soft = np.array([True, True, False, False])
    learner = RandomGrid(metric="mse", configurations=50, grid=(1.0, 2.0, 4.0), workers=1)
    problem.tried = lambda weights, share, iterations: {
        "P": Scored(TARGET[:2], weights[:2], np.arange(2))
    }
    found = learner.learn(problem, lambda step: None)
    assert found.stats["configurations"] == 5  # the ratios 1/4, 1/2, 1, 2, 4
    assert found.warnings == ["there are no more than 5 configurations that differ"]


@given(
    st.lists(st.floats(0.01, 100), min_size=2, max_size=6), st.floats(0.001, 1000), st.booleans()
)
def test_rays_and_coordinates_do_not_depend_on_scale(weights, scale, signed):
    space, w = Space(len(weights), signed), np.array(weights)
    if signed:
        w[::2] *= -1
        assert space.ray(w) != space.ray(-w)
    np.testing.assert_allclose(space.scaled(w), space.scaled(scale * w), atol=1e-9)
    order = np.arange(len(w))[::-1]
    np.testing.assert_allclose(space.scaled(w[order]), space.scaled(w)[order], atol=1e-9)


def test_example_6_of_the_thesis():
    """Equations 6.2 and 6.3, and what subtracting the mean in place of the first changes."""
    weights = np.array([[0.1, 0.1], [1.0, 1.0], [0.1, 0.0001]])
    space = Space(2, False)
    ratios, scaled = space.ratios(weights), space.scaled(weights)
    np.testing.assert_allclose(ratios, [[0], [0], [-6.907]], atol=1e-3)
    for a, b, expected in ((0, 1, 0.0), (0, 2, 47.7), (1, 2, 47.7)):
        assert np.sum((ratios[a] - ratios[b]) ** 2) == pytest.approx(expected, abs=0.05)
        assert np.sum((scaled[a] - scaled[b]) ** 2) == pytest.approx(expected / 2, abs=0.05)


@pytest.mark.parametrize("first", [0, 2])
def test_distances_of_ratios_depend_on_which_weight_is_the_first(first):
    """Each pair of rules counts once in our space; in that of the thesis those with the first only."""
    space, (a, b) = Space(3, False), np.array([[1.0, 2.0, 3.0], [5.0, 2.0, 3.0]])
    order = np.roll(np.arange(3), -first)
    step = np.log(5.0)
    ratios = space.ratios(a[order]) - space.ratios(b[order])
    assert ratios @ ratios == pytest.approx((2 if first == 0 else 1) * step**2)
    scaled = space.scaled(a[order]) - space.scaled(b[order])
    assert scaled @ scaled == pytest.approx(2 / 3 * step**2)


def test_ratios_need_positive_weights():
    learner = Bayesian(metric="mse", space="ratios", workers=1)
    with pytest.raises(LearningError, match="space: ratios have no logarithm where weights may be"):
        learner.learn(Bowl(signed=True), lambda step: None)
    found = Bayesian(metric="mse", space="ratios", deviation=0.0, configurations=25, workers=1)
    first = np.mean((TARGET - 1 / 3) ** 2)
    assert found.learn(Bowl(), lambda step: None).stats["value"] < 0.35 * first


def test_samples_are_where_they_should_be():
    rng = np.random.default_rng(0)
    for signed in (False, True):
        space = Space(4, signed)
        for found in (space.dirichlet(rng, 400, 0.05, 1e-4), space.hypersphere(rng, 400)):
            np.testing.assert_allclose(np.abs(found).sum(axis=1), 1.0)
            assert (found.min() < 0) == signed
    few, many = (
        np.abs(Space(4, True).dirichlet(rng, 400, a, 1e-4)).max(axis=1).mean() for a in (0.05, 9)
    )
    assert few > 0.85
    assert many < 0.5
    space = Space(4, False)
    for floor in (0.0, 1e-4, 0.5):
        draws = space.dirichlet(rng, 400, 0.05, floor)
        ratios = draws.min(axis=1) / draws.max(axis=1)
        assert np.all(ratios >= floor * (1 - 1e-12))
        assert ratios.min() < max(1e-8, floor * 1.01)


def test_the_schedule_of_hyperband():
    assert [*schedule(3, 3)] == [
        [(9, 1 / 9), (3, 1 / 3), (1, 1.0)],
        [(5, 1 / 3), (1, 1.0)],
        [(3, 1.0)],
    ]
    problem = Bowl()
    Hyperband(metric="mse", brackets=3, eta=3, workers=1).learn(problem, lambda step: None)
    shares = [round(1 / share) for _, share, _ in problem.calls]
    assert shares == [1, *[9] * 9, *[3] * 3, 1, *[3] * 5, 1, *[1] * 3]


def test_the_schedule_of_hyperband_in_iterations():
    """R = 25,000 and eta = 4 of the thesis are eight brackets; the first has 4^7 configurations."""
    assert Hyperband(iterations=25_000)._brackets == 8
    assert Hyperband(iterations=64)._brackets == 4
    assert Hyperband(iterations=63)._brackets == 3
    problem = Bowl()
    Hyperband(metric="mse", iterations=10, eta=3, workers=1).learn(problem, lambda step: None)
    efforts = [effort for _, _, effort in problem.calls]
    assert efforts == [None, *[2] * 9, *[4] * 3, 10, *[4] * 5, 10, *[10] * 3]


def test_iterations_of_psl_are_rounds_of_admm():
    rules = ["1: Knows(A, B) & Likes(A) -> Likes(B) ^2", "1: Old(A) -> Likes(A)", "1: !Likes(A) ^2"]
    program = parse("\n".join(rules))
    pairs = Columns([[f"P{n}" for n in range(11)], [f"P{n}" for n in range(1, 12)]])
    people = [f"P{n}" for n in range(12)]
    observed = {"Knows": pairs, "Old": Columns([["P0"]])}
    likes = {"Likes": Columns([people], np.linspace(1, 0, 12))}
    database = database_of(program.predicates, observed, {"Likes": Columns([people])}, likes)
    problem, weights = grounded(program, {}, database), np.array([1.0, 3.0, 0.1])
    for rounds in (10, 20):
        engine = Admm(tolerance=1e-3, rounds=rounds)
        y = engine.solve(problem.model, weights, start=problem.first).y
        np.testing.assert_array_equal(problem.tried(weights, 0.5, rounds)["Likes"].values, y)


@pytest.mark.parametrize("method", ["mpe", "walksat", "mcsat"])
def test_iterations_of_markov_logic_are_flips_or_samples(method, tmp_path):
    """A share of one world is a share of the iterations, and few flips are not all flips."""
    rng = np.random.default_rng(0)
    (tmp_path / "m.mln").write_text(
        "P(t)\nQ(t)\nR(t, t)\n1 P(x) v Q(x)\n-1 R(x, y) ^ P(x) ^ P(y)\n"
    )
    names = [f"A{n}" for n in range(24)]
    pairs = {(a, b) for a, b in rng.choice(names, (60, 2)) if a < b}
    atoms = [f"R({a}, {b})" for a, b in sorted(pairs)] + [f"P({a})" for a in names[::2]]
    (tmp_path / "w.db").write_text("\n".join([*atoms, "Q(A1)", "!P(A1)"]))
    config = tmp_path / "learn.yaml"
    config.write_text(f"model: m.mln\nquery: P\nsource: {{path: w.db}}\nmethod: {method}\n")
    problem = read_problem(load_batch(config), None)
    weights = np.array([1.0, -0.7])
    (world,) = problem.ground
    model, weight = world.model, world.weigh(weights)
    whole = 1_000 if method == "mcsat" else 100_000
    np.testing.assert_array_equal(
        problem.tried(weights, 0.1)["P"].values,
        problem.tried(weights, 0.1, whole // 10)["P"].values,
    )
    np.testing.assert_array_equal(
        problem.tried(weights, 1.0)["P"].values, problem.predicted(weights)["P"].values
    )
    few, whole = (problem.tried(weights, share, 2)["P"].values for share in (0.1, 1.0))
    if method == "mcsat":
        expected = marginal_engine("mcsat", samples=2).marginals(model, weight).probability
        np.testing.assert_array_equal(few, expected[world.predicted])
        return
    some = WalkSat(flips=2, tries=1).solve(model, weight)
    best = map_engine("mpe").solve(model, weight)
    np.testing.assert_array_equal(few, some.state[world.predicted])
    assert some.score < best.score
    np.testing.assert_array_equal(whole, (best if method == "mpe" else some).state[world.predicted])


def test_acquisitions():
    stats = pytest.importorskip("scipy.stats")
    mean, sd, rng = np.array([0.2, 0.5, 0.7]), np.array([0.3, 0.1, 0.2]), np.random.default_rng(0)
    found = {name: of(mean, sd, 0.6, 2.0, rng) for name, of in ACQUISITIONS.items()}
    np.testing.assert_allclose(found["ucb"], mean + 2.0 * sd)
    np.testing.assert_allclose(found["pi"], stats.norm.sf(0.6, mean, sd))
    points = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    expected = np.maximum(mean + sd * points[:, None] - 0.6, 0.0).mean(axis=0)
    np.testing.assert_allclose(found["ei"], expected, rtol=1e-3)
    draws = np.array([ACQUISITIONS["ts"](mean, sd, 0.6, 2.0, rng) for _ in range(4000)])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(draws.std(axis=0), sd, atol=0.02)


def test_the_process_is_the_textbooks():
    """Rasmussen & Williams 2006, equations 2.25 and 2.26."""
    rng = np.random.default_rng(1)
    x, y, new = rng.normal(size=(5, 2)), rng.random(5), rng.normal(size=(3, 2))

    def kernel(a, b):
        return 0.5 * np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2) / (2 * 0.8**2))

    process = gaussian_process(0.8)
    process.fit(x, y)
    mean, sd = process.predict(new, return_std=True)
    inverse = np.linalg.inv(kernel(x, x) + 0.5 * bayesian.NOISE * np.eye(5))
    np.testing.assert_allclose(mean, kernel(new, x) @ inverse @ y, atol=1e-6)
    variance = 0.5 - np.einsum("ij,jk,ik->i", kernel(new, x), inverse, kernel(new, x))
    np.testing.assert_allclose(sd, np.sqrt(variance), atol=1e-6)


def test_the_likelihood_of_length_scales_is_scikit_learns():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=6)
    apart = np.sum((x[:, None] - x) ** 2, axis=2)
    found, expected = [], []
    for rho, noise in ((0.5, 1e-6), (2.0, 1e-6), (2.0, 0.1)):
        process = gaussian_process(rho, noise)
        process.fit(x, y)
        found.append(log_likelihood(apart, y, rho, noise))
        expected.append(process.log_marginal_likelihood_value_)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-6)


def test_the_range_of_a_metric_does_not_matter():
    narrow = Bowl()
    narrow.tried = lambda weights, share, iterations: {
        "P": Scored(TARGET / 64, weights[narrow.soft] / (64 * np.abs(weights).sum()), np.arange(3))
    }
    learner = Bayesian(metric="mse", configurations=12, deviation=0.0, workers=1)
    wide, small = (learner.learn(of, lambda step: None) for of in (Bowl(), narrow))
    np.testing.assert_array_equal(wide.weights, small.weights)


@pytest.mark.parametrize("signed", [False, True])
def test_draws_near_weights(signed):
    space, w = Space(3, signed), np.array([0.7, 0.2, 0.1]) * ([1, -1, 1] if signed else 1)
    found = space.near(np.random.default_rng(0), 500, w, 1e-4)
    np.testing.assert_allclose(np.abs(found).sum(axis=1), 1.0)
    assert signed == bool(np.any(np.sign(found) != np.sign(w)))
    away = np.linalg.norm(space.scaled(found) - space.scaled(w), axis=1)
    far = np.linalg.norm(
        space.scaled(space.dirichlet(np.random.default_rng(0), 500, 1.0, 1e-4)) - space.scaled(w),
        axis=1,
    )
    assert 0 < away.mean() < 0.5 * far.mean()


def test_bayesian_search_ends_where_nothing_is_uncertain():
    found = Bayesian(metric="mse", deviation=0.8).learn(Bowl(), lambda step: None)
    assert found.stats["configurations"] == 1  # before any evaluation it is 0.71


def test_a_predicate_is_needed_where_there_are_several():
    problem = Bowl()
    two = {"P": Scored(TARGET, TARGET, np.arange(3)), "Q": Scored(TARGET, TARGET, np.arange(3))}
    problem.tried = lambda weights, share, iterations: two
    with pytest.raises(LearningError, match=r"needed where there are several: P, Q"):
        RandomSearch(metric="mse").learn(problem, lambda step: None)
    with pytest.raises(LearningError, match=r"R has no known truth; known: P, Q"):
        RandomSearch(metric="mse", predicate="R").learn(problem, lambda step: None)
    with pytest.raises(LearningError, match="no target has a truth to learn from"):
        problem.tried = lambda weights, share, iterations: {}
        RandomSearch(metric="auroc").learn(problem, lambda step: None)
    with pytest.raises(LearningError, match="auroc of P is not defined"):
        problem.tried = lambda weights, share, iterations: {
            "P": Scored(np.ones(2), np.ones(2), np.arange(2))
        }
        RandomSearch(metric="auroc").learn(problem, lambda step: None)


@pytest.mark.parametrize("forks", [True], indirect=True)
@pytest.mark.usefixtures("forks")
def test_scores_come_in_the_order_of_trials():
    trials = [Trial(w) for w in Space(3, False).dirichlet(np.random.default_rng(0), 9, 1.0, 1e-4)]
    alone, forked = (Evaluations(Scorer(Bowl(), "mse", "P"), pool) for pool in (Inline(), Forks(2)))
    assert [*alone.scores(trials)] == [*forked.scores(trials)]
    run = Run(Bowl(start=(2.0, 1.0, 0.0, 1.0)), alone, Trace(lambda step: None))
    np.testing.assert_array_equal(run.first, [0.5, 0.25, 0.25])


# by the command -------------------------------------------------------------------------------------

MODEL = """
{}: Knows(A, B) & Likes(A) -> Likes(B) ^2
{}: Old(A) -> Likes(A) ^2
{}: !Likes(A) ^2
"""
WORLD = """Knows(person, person)
Old(person)
Likes(person)
Knows(x, y) ^ Likes(x) => Likes(y)
Old(x) => Likes(x)
Likes(x)
"""


def files(folder: Path, language: str) -> Path:
    """Who is old likes it, and whom they know."""
    people = [f"P{n}" for n in range(12)]
    likes = [n < 6 for n in range(12)]
    if language == "mln":
        atoms = ["Knows(P0, P3)", "Knows(P1, P4)", "Knows(P2, P5)", "Old(P0)", "Old(P1)", "Old(P2)"]
        atoms += [f"Likes({p})" for p, yes in zip(people, likes, strict=True) if yes]
        atoms += [f"!Likes({p})" for p, yes in zip(people, likes, strict=True) if not yes]
        (folder / "m.mln").write_text(WORLD)
        (folder / "w.db").write_text("\n".join(atoms))
        text = "model: m.mln\nquery: Likes\nsource: {path: w.db}\n"
    else:
        (folder / "m.psl").write_text(MODEL.format(1, 1, 1))
        (folder / "m.data").write_text(
            "predicates: {Knows/2: closed, Old/1: closed, Likes/1: open}\n"
            "observations: {Knows: knows.txt, Old: old.txt}\n"
            "targets: {Likes: people.txt}\ntruth: {Likes: truth.txt}\n"
        )
        (folder / "knows.txt").write_text("P0\tP3\nP1\tP4\nP2\tP5\n")
        (folder / "old.txt").write_text("P0\nP1\nP2\n")
        (folder / "people.txt").write_text("\n".join(people))
        lines = (f"{p}\t{int(yes)}\n" for p, yes in zip(people, likes, strict=True))
        (folder / "truth.txt").write_text("".join(lines))
        text = "model: m.psl\ndata: m.data\n"
    config = folder / "learn.yaml"
    config.write_text(text + f"output: {folder / 'out'}\nlearner:\n  kind: random\n  metric: f1\n")
    return config


def test_a_grid_is_given_in_the_configuration(tmp_path):
    config = files(tmp_path, "psl")
    grid = "learner={kind: random-grid, metric: f1, grid: [1, 2.5]}"
    assert command("learn", str(config), "--set", grid) == 0
    said = json.loads((tmp_path / "out" / "learned.json").read_text())
    assert said["stats"]["configurations"] == 7  # of two values for each of three rules
    weights = {each["weight"] for each in said["weights"]}
    assert len(weights) <= 2


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(("language", "kind", "forks"), SEARCHES, indirect=["forks"])
def test_the_command_searches(language, kind, tmp_path, capfd):
    config = files(tmp_path, language)
    assert command("learn", str(config), "--set", f"learner.kind={kind}") == 0, (
        capfd.readouterr().err
    )
    said = json.loads((tmp_path / "out" / "learned.json").read_text())
    assert said["stats"]["value"] == 1.0
    assert "configurations; the best by f1: 1" in capfd.readouterr().out
    model = srl.Model.read(tmp_path / "out" / f"weights.{language}")
    assert math.isfinite(sum(abs(rule.weight) for rule in model.rules))


def test_a_shipped_model_of_markov_logic_is_searched_with_either_sign(tmp_path, job):
    """Tastes; with the same result after kills."""
    lines = (TASTES / "tastes.jsonl").read_bytes().splitlines(keepends=True)[:12]
    search = job(lines, model=str(TASTES / "tastes.mln"), query="Read")
    settings = yaml.safe_load(search.config.read_text())
    kept = {key: settings[key] for key in ("model", "query", "source", "output")}
    learner = {"kind": "bayesian", "metric": "f1", "configurations": 15}
    search.config.write_text(yaml.safe_dump({**kept, "learner": learner}))
    result, journal = search.output / "learned.json", tmp_path / "job/.out.part" / JOURNAL
    for least in (5,):  # evaluations before it is killed
        process = search.fork("learn", str(search.config))
        until(lambda n=least: journal.exists() and journal.read_text().count("\n") >= n)
        os.kill(process, signal.SIGKILL)
        assert wait(process) == -signal.SIGKILL
    found = []
    for options in ((), ("--fresh",)):
        assert wait(search.fork("learn", str(search.config), *options)) == 0
        found.append(json.loads(result.read_bytes()))
        del found[-1]["seconds"]
    assert found[0] == found[1]
    objective = found[0]["objective"]
    assert objective[-1] < objective[0]
    assert len({math.copysign(1, each["weight"]) for each in found[0]["weights"]}) == 2


def test_what_does_not_fit_is_told_with_its_place(tmp_path, capfd):
    config = files(tmp_path, "psl")
    for setting, said in (
        ("metric=aucc", "learner.metric: aucc is no metric; known are auroc, aupr"),
        ("grid=[1]", "learner.grid: not for kind random, but for kind random-grid"),
        ("a=0", "learner.a: expected more than 0, found 0"),
        (
            "kind=random-grid --set learner.grid=[1,0]",
            "learner.grid: expected more than 0, found 0",
        ),
        ("predicate=Likez", "Likez has no known truth; known: Likes"),
    ):
        assert command("learn", str(config), "--set", *f"learner.{setting}".split()) == 78
        assert said in capfd.readouterr().err
        assert not (tmp_path / "out").exists()
