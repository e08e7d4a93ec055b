"""Batch learners of Markov logic: features against counts, gradients and optima against enumeration."""

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import command

import onlinesrl as srl
from onlinesrl.core.errors import ModelError
from onlinesrl.core.example import GroundAtom, Number
from onlinesrl.core.learning.diagonal_newton import Newton
from onlinesrl.logic.database import load_db
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.contrastive_divergence import (
    Chain,
    ContrastiveDivergence,
    RemainingGain,
    VotedPerceptron,
    started,
)
from onlinesrl.mln.learning.max_margin import MaxMargin
from onlinesrl.mln.learning.problem import MlnProblem, checked
from onlinesrl.mln.learning.pseudo_likelihood import Mple
from tests.support.paths import SHARED

PROGRAM = """
kind = {Tall, Old}
Knows(person, person)
Is(person, kind)
Likes(person)
Owns(person, thing!)
Knows(x, y) ^ Likes(x) => Likes(y)
Is(x, +k) ^ Likes(x)
Likes(x) <=> Owns(x, t)
EXIST t Owns(x, t) ^ Likes(x)
!Likes(x)
"""
QUERY = ("Likes", "Owns")
WORLDS = [
    "Knows(A, B) Knows(B, C) Is(A, Tall) Is(B, Old) Likes(A) Likes(B) Owns(A, U) Owns(B, U) Owns(C, V)",
    "Knows(A, B) Is(A, Old) Is(A, Tall) Owns(A, V) Owns(B, U) Likes(D) Owns(D, V)",
]


def problem(text: str = PROGRAM, query: tuple[str, ...] = QUERY) -> MlnProblem:
    program = reader.parse(text)
    worlds = []
    for world in WORLDS:
        atoms = [each.partition("(") for each in world.replace(", ", ",").split()]
        given = [GroundAtom(p, tuple(a[:-1].split(",")), True, 0) for p, _, a in atoms]
        worlds.append([atom for atom in given if atom.predicate in program.predicates])
    return MlnProblem(program, worlds, query)


def states(model):
    """All feasible states of a ground model."""
    for bits in itertools.product((0, 1), repeat=model.n_atoms):
        state = np.array(bits, np.uint8)
        if model.feasible(state):
            yield state


@cache
def possible(number: int) -> list[np.ndarray]:
    """All feasible states of one of the problem's worlds."""
    return [*states(problem().ground[number].model)]


def test_a_truth_with_constants_that_no_evidence_has() -> None:
    first, second = problem().ground
    assert np.count_nonzero(second.predicted) == 3 + 3 * 2
    assert first.model.feasible(first.truth) and second.model.feasible(second.truth)


def test_the_simplified_model_has_the_same_scores_for_all_weights() -> None:
    of, rng = problem(), np.random.default_rng(1)
    for number, world in enumerate(of.ground):
        simple, feasible = world.reweighable, possible(number)
        clauses = simple.problem.clauses
        for _ in range(3):
            weight = world.weigh(rng.normal(size=len(of.start)))
            simple.weigh(weight)
            gaps = []
            for state in feasible[:: max(1, len(feasible) // 40)]:
                of_kept = state[simple.problem.atoms]
                rows = np.split(clauses.literal, clauses.start[1:-1])
                true = np.array([np.any(of_kept[row >> 1] != (row & 1)) for row in rows])
                assert np.all(true[: clauses.hard])
                score = float(clauses.weight[clauses.hard :] @ true[clauses.hard :])
                gaps.append(score - world.model.score(state, weight))
            np.testing.assert_allclose(gaps, gaps[0], atol=1e-9)


def test_bonuses_of_atoms_that_hard_rules_make_opposite_are_kept() -> None:
    of = MlnProblem(
        reader.parse("P(t)\nQ(t)\nP(x) <=> !Q(x).\n1 P(A)"),
        [[GroundAtom(p, (x,), True, 0) for p, x in ("PA", "QB")]],
        ("P", "Q"),
    )
    (world,) = of.ground
    simple, weight, bonus = (
        world.searchable,
        world.weigh(np.ones(1)),
        np.array([0.5, 0.0, 4.0, 3.0]),
    )
    simple.weigh(np.append(weight, bonus))
    found = WalkSat(tries=1).search(world.model, simple.problem)
    best = max(states(world.model), key=lambda s: world.model.score(s, weight) + bonus @ s)
    np.testing.assert_array_equal(found, best)


def test_numbers_are_evidence() -> None:
    score = [("A", 0.7), ("B", 2.5), ("C", -1.0)]
    told = [GroundAtom("Score", (x,), Number(v), 0) for x, v in score]
    told.append(GroundAtom("P", ("B",), True, 0))
    program = reader.parse("Score(t): real\nP(t)\nScore(x) ^ P(x)\nP(x)")
    (world,) = checked(MlnProblem(program, [told], ("P",))).ground
    change = world.features(world.truth, 2) - world.features(0 * world.truth, 2)
    np.testing.assert_allclose(change, [2.5, 1.0])
    with pytest.raises(ModelError, match="Score has numbers") as error:
        Mple().learn(MlnProblem(program, [told], ("P",)), lambda step: None)
    assert "contrastive-divergence" in str(error.value)


def test_what_has_no_truth_is_told_with_its_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mln").write_text("P(t)\nP(x)\n")
    (tmp_path / "c.yaml").write_text("model: m.mln\nquery: P\nsource: {path: w.jsonl}\n")
    listed = '{"id": 1, "evidence": {}, "truth": {"P": [["A"]]}, "query": {"P": [["A"]]}}'
    likely = '{"id": 1, "evidence": {}, "truth": {"P": [{"args": ["A"], "value": 0.7}]}}'
    said = {listed: "`query` lists which atoms are open", likely: "P(A) has no truth"}
    for line, message in said.items():
        (tmp_path / "w.jsonl").write_text(line + "\n")
        assert command("learn", str(tmp_path / "c.yaml")) == 65
        assert f"w.jsonl:1: {message}" in capfd.readouterr().err


@pytest.mark.parametrize("sampler", [Gibbs, McSat])
def test_sampled_counts_have_their_expectation(sampler: type) -> None:
    of, weights = problem(), np.linspace(-0.8, 0.9, len(problem().start))
    world, size = of.ground[0], len(of.start)
    weight = world.weigh(weights)
    every = [(world.model.score(s, weight), world.features(s, size)) for s in possible(0)]
    scores = np.array([score for score, _ in every])
    share = np.exp(scores - scores.max())
    exact = share @ np.stack([f for _, f in every]) / share.sum()
    chain = Chain(world, sampler(seed=3), 0, size)
    drawn = np.stack([*chain.step(weights, 800)]) + world.features(world.truth, size)
    np.testing.assert_allclose(drawn.mean(axis=0), exact, atol=0.2)


def test_too_few_steps_are_told() -> None:
    found = MaxMargin(c=50.0, gap=1e-9, steps=2).learn(problem(), lambda _: None)
    assert "after 2 steps" in found.warnings[0]
    assert not found.stats["certified"]


PLANTED = (
    "Knows(p, p)\nAge(p, a)\nLikes(p)\nKnows(x, y) ^ Likes(x) => Likes(y)\nAge(x, +a) ^ Likes(x)\n"
)
LEARNERS = [
    {"kind": "mple", "prior_sd": 3.0},
    {"kind": "contrastive-divergence", "prior_sd": 3.0, "steps": 30},
    {"kind": "contrastive-divergence", "sampler": "mcsat", "newton": False, "steps": 30},
    {"kind": "voted-perceptron"},
    {"kind": "voted-perceptron", "rate": 0.02, "newton": False},
    {"kind": "max-margin", "c": 20.0},
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: "-".join(map(str, each.values())))
def test_planted_predictions_are_found_again(learner: dict[str, object]) -> None:
    """Old people like it, young ones do not, the others where a friend does."""
    rng = np.random.default_rng(5)
    ages = dict(enumerate(["Old", "Young", "Mid"] * 10))
    knows = {(int(a), int(b)) for a, b in rng.integers(0, 30, (30, 2)) if a != b}
    evidence = {"Knows": [*knows], "Age": [*ages.items()]}
    likes = {p for p, a in ages.items() if a == "Old"}
    while more := {b for a, b in knows if a in likes and ages[b] == "Mid"} - likes:
        likes |= more
    learned = srl.learn(
        PLANTED, {**evidence, "Likes": [(p,) for p in likes]}, "Likes", learner=learner
    )
    answer = srl.infer(learned.model, evidence, "Likes", closed=["Knows", "Age"])
    right = sum((value > 0.5) == (int(p) in likes) for (p,), value in answer["Likes"].items())
    assert right >= 27


ALONE = """
thing = {U, V}
Likes(person)
Owns(person, thing!)
Age(person, age)
Likes(x)
Age(x, Old) => Likes(x)
Owns(x, U)
"""


def test_voted_perceptron_takes_variances_from_the_last_states() -> None:
    of, weights = problem(), np.zeros(len(problem().start))
    for perturbed, expected in ((False, [1, 2, 3, 3]), (True, [3, 3, 3, 3])):
        draws = VotedPerceptron(states=3, perturbed=perturbed).draws(of)
        assert [len(draws(weights)) for _ in range(4)] == expected
    assert ContrastiveDivergence(samples=4).draws(of)(weights).shape == (4, 6)


def test_states_of_perturbed_searches_are_draws_where_atoms_do_not_depend_on_each_other() -> None:
    atoms = [
        GroundAtom("Age", ("Anna", "Old"), True, 0),
        GroundAtom("Age", ("Bob", "New"), True, 0),
    ]
    atoms += [GroundAtom("Owns", (who, "U"), True, 0) for who in ("Anna", "Bob")]
    of = MlnProblem(reader.parse(ALONE), [atoms], ("Likes", "Owns"))
    weights, world = np.array([-0.5, 1.0, 0.8]), of.ground[0]
    size = len(weights)
    weight = world.weigh(weights)
    every = [(world.model.score(s, weight), world.features(s, size)) for s in states(world.model)]
    share = np.exp([score for score, _ in every])
    exact = share @ np.stack([f for _, f in every]) / share.sum() - world.features(
        world.truth, size
    )
    drawn = VotedPerceptron(states=400).draws(of)(weights)
    np.testing.assert_allclose(drawn.mean(axis=0), exact, atol=0.1)


def test_unit_clauses_begin_at_their_log_odds() -> None:
    true = {"P": 3, "Q": 1, "R": 1}
    atoms = [GroundAtom(p, (str(k),), True, 0) for p, n in true.items() for k in range(n)]
    model = (
        "P(thing)\nQ(thing)\nR(thing)\nthing = {0, 1, 2, 3}\nP(x)\n!Q(x)\n1.5 R(x)\nP(x) => Q(x)"
    )
    odds = np.log(3.5 / 1.5)
    of = MlnProblem(reader.parse(model), [atoms], ("P", "Q", "R"))
    assert started(of) == pytest.approx([odds, odds, 1.5, 0.0])


def test_worlds_without_the_truth_of_the_query_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mln").write_text("P(thing)\nQ(thing)\nP(x) => Q(x)\n")
    config = tmp_path / "learn.yaml"
    config.write_text(
        f"model: m.mln\nsource: {{path: w.db}}\nquery: [P, Q]\noutput: {tmp_path}/out\n"
    )
    (tmp_path / "w.db").write_text("P(A)\n")
    assert command("learn", str(config)) == 65
    said = capfd.readouterr().err
    assert "source: no world has an atom of Q" in said
    assert "!Q(...)" in said
    (tmp_path / "w.db").write_text("P(A)\n!Q(A)\n")
    assert command("learn", str(config)) == 0


GOLDEN = SHARED / "peers" / "mln" / "friends_smokers"


@pytest.mark.skipif(not GOLDEN.exists(), reason="the exact optima are not on this machine")
def test_sampled_moments_find_the_exact_maximum_of_the_likelihood() -> None:
    program = reader.load(GOLDEN / "fs-learn.mln")
    atoms = load_db(GOLDEN / "fs50-train.db", program)
    of = MlnProblem(program, [atoms], ("Smokes", "Cancer"))
    learned = ContrastiveDivergence(prior_sd=2.0).learn(of, lambda _: None)
    rows = (GOLDEN / "fs50.weights.ml.exact").read_text().splitlines()
    (row,) = (row.split() for row in rows if "prior_sd 2" in row)
    exact = np.array(row[row.index("w") + 1 :][:4], np.float64)
    np.testing.assert_allclose(learned.weights, exact, atol=0.1)


def test_what_is_left_to_be_gained_is_told_without_the_noise() -> None:
    rng, variance = np.random.default_rng(0), np.array([4.0, 25.0])
    for mean, gain in (([0.0, 0.0], 0.0), ([8.0, -10.0], 10.0)):
        left = RemainingGain()
        for gradient in rng.normal(mean, 2.0, (400, 2)):
            left.add(gradient, variance)
        stats, warnings = left.report()
        assert abs(stats["gain_left"] - gain) < 1.0
        assert bool(warnings) == (gain > 0)


def test_steps_of_few_samples_go_to_the_root_of_the_mean_gradient() -> None:
    """Poisson counts, of which few samples vary less where their mean is small."""
    rng, newton, weights, mean = np.random.default_rng(0), Newton(trust=1.0), np.zeros(1), 0.0
    for t in range(4_000):
        drawn = rng.poisson(3.0 * np.exp(weights), (5, 1)).astype(np.float64)
        weights = weights + newton.of(6.0 - drawn.mean(axis=0), drawn, np.full(1, 1e-3))
        mean += (weights[0] - mean) / (t - 1_999) if t >= 2_000 else 0.0
    assert abs(mean - np.log(2.0)) < 0.01
