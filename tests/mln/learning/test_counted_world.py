"""Sampling by counts, against the same chains and weights by grounding; worlds that no one could ground."""

from dataclasses import replace

import numpy as np
import pytest

from onlinesrl.core.errors import ExampleError, Unsolved
from onlinesrl.core.example import GroundAtom
from onlinesrl.core.learning.batch import UnfitError
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.contrastive_divergence import (
    Chain,
    ContrastiveDivergence,
    VotedPerceptron,
)
from onlinesrl.mln.learning.problem import MlnProblem

MODEL = """
Friends(person, person)
Smokes(person)
Is(person, kind)
Smokes(x)
Friends(x, y)
Smokes(x) ^ Is(x, +k)
Smokes(x) ^ Friends(x, y) => Smokes(y)
Friends(x, y) ^ Friends(y, z) => Friends(x, z)
"""
HARD = "!Friends(x, x).\n"


def problem(people, seed, model=MODEL, friends=2.0, query=("Friends", "Smokes")):
    """Worlds of so many people, each with so many friends."""
    rng = np.random.default_rng(seed)
    names = [f"P{k:03}" for k in range(people)]
    pairs = np.unique(rng.integers(people, size=(int(friends * people), 2)), axis=0).tolist()
    atoms = [GroundAtom("Smokes", (name,), bool(rng.random() < 0.4), 0) for name in names]
    atoms += [GroundAtom("Friends", (names[a], names[b]), True, 0) for a, b in pairs if a != b]
    atoms += [
        GroundAtom("Is", (name, ("Tall", "Old")[k % 2]), True, 0) for k, name in enumerate(names)
    ]
    model = f"person = {{{', '.join(names)}}}\n{model}"
    return MlnProblem(reader.parse(model), [atoms], query, seed=seed)


WEIGHTS = np.array([-0.5, -1.0, 0.3, -0.2, 0.4, 0.3])


@pytest.mark.parametrize("query", [("Friends", "Smokes"), ("Smokes",)])
def test_the_chain_is_that_of_the_ground_network(query):
    for seed in range(5):
        of = problem(7, seed, query=query)
        (ground,), size = of.ground, len(of.start)
        chain = Chain(ground, Gibbs(seed=seed), 0, size)
        steps = zip(of.counted(0).step(WEIGHTS, 20), chain.step(WEIGHTS, 20), strict=True)
        moved = 0.0
        for counted, grounded in steps:
            np.testing.assert_allclose(counted, grounded, atol=1e-9)
            moved += np.abs(grounded).sum()
        assert moved > 0


@pytest.mark.parametrize("newton", [True, False])
def test_contrastive_divergence_learns_the_weights_that_it_learns_by_grounding(newton):
    for seed in range(2):
        of = problem(6, seed)
        learner = ContrastiveDivergence(steps=10, samples=10, newton=newton)
        grounded = learner.learn(of, lambda _: None).weights
        counted = learner.model_copy(update={"counting": "exact"}).learn(of, lambda _: None).weights
        np.testing.assert_allclose(counted, grounded, rtol=1e-9)


def test_the_voted_perceptron_learns_the_weights_that_it_learns_by_grounding():
    model = "Smokes(person)\nIs(person, kind)\nFriends(person, person)\n2 Smokes(x) ^ Is(x, +k)\n"
    of = problem(8, 1, model + "-0.7 Smokes(x) ^ Friends(x, y)", query=("Smokes",))
    learner = VotedPerceptron(steps=5, perturbed=False)
    grounded = learner.learn(of, lambda _: None).weights
    counted = learner.model_copy(update={"counting": "exact"}).learn(of, lambda _: None).weights
    np.testing.assert_allclose(counted, grounded, rtol=1e-9)
    assert np.all(np.abs(grounded - [2.0, 2.0, -0.7]) > 1e-3)


def test_no_draw_breaks_a_hard_rule():
    world = problem(8, 0, MODEL + HARD).counted(0)
    for _ in world.step(np.array([0.0, 3.0, 0.0, 0.0, 0.0, 0.0]), 5):
        rows = world.counts.rows("Friends")
        assert len(rows) > 40 and np.all(rows[:, 0] != rows[:, 1])
    world.search(np.array([0.0, 3.0, 0.0, 0.0, 0.0, 0.0]), 2_000, 0.2, 1)
    rows = world.counts.rows("Friends")
    assert len(rows) > 40 and np.all(rows[:, 0] != rows[:, 1])


def test_the_search_finds_states_as_good_as_that_of_the_ground_network():
    better = 0
    for seed in range(20):
        of = problem(6, seed)
        (ground,), counted = of.ground, of.counted(0)
        weights = np.random.default_rng(seed).normal(size=len(of.start))
        counted.search(weights, 5_000, 0.05, None)
        ground.searchable.weigh(np.append(ground.weigh(weights), np.zeros(len(ground.truth))))
        state = WalkSat(flips=5_000).search(ground.model, ground.searchable.problem)
        size = len(weights)
        best = ground.features(state, size) - ground.features(ground.truth, size)
        better += weights @ counted.features() > weights @ best - 1e-9
        assert weights @ counted.features() >= -1e-9
    assert better >= 16


def test_the_state_after_a_search_has_the_features_that_were_tracked():
    of = problem(6, 3)
    counted, (ground,) = of.counted(0), of.ground
    counted.search(WEIGHTS, 500, 0.3, 7)
    counted.sweep(WEIGHTS)
    names = {
        (name, tuple(of.domains["person"][k] for k in row))
        for name in of.query
        for row in counted.counts.rows(name).tolist()
    }
    state = np.array([(p, tuple(args)) in names for p, args in ground.atoms], np.uint8)
    size = len(WEIGHTS)
    expected = ground.features(state, size) - ground.features(ground.truth, size)
    np.testing.assert_allclose(counted.features(), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("learner", "counting"), [(ContrastiveDivergence, "exact"), (VotedPerceptron, "ijgp")]
)
def test_27_million_groundings_of_300_people_take_memory_for_the_true_tuples_only(
    learner, counting
):
    of = problem(300, 0, friends=4.0)
    options = {"states": 1, "flips": 1_000, "sweeps": 1} if learner is VotedPerceptron else {}
    options |= {"samples": 1} if learner is ContrastiveDivergence else {}
    (world,) = learner(counting=counting).worlds(of)
    assert not world.estimates  # with the atom known, every formula is narrow
    assert max(c.groundings(world.world) for c in world.counters.compiled) == 27_000_000
    assert world.counts.memory < 2_000_000
    learned = learner(counting=counting, steps=2, **options).learn(of, lambda _: None)
    assert np.all(np.isfinite(learned.weights))
    assert "ground" not in vars(of)
    world.sweep(np.array([0.0, -4.0, 0.0, 0.0, 0.1, 0.1]))
    assert world.counts.memory < 4_000_000


def test_memory_grows_with_the_true_tuples_as_a_chain_makes_atoms_true():
    world = problem(40, 0).counted(0)
    before = world.counts.memory
    world.sweep(np.array([0.0, 3.0, 0.0, 0.0, 0.0, 0.0]))
    assert len(world.counts.rows("Friends")) > 1_400
    assert before < world.counts.memory < 1_000 * len(world.counts.rows("Friends"))


def test_what_does_not_flip_by_itself_is_refused():
    groups = "Friends(person, person!)\nFriends(x, y)"
    atoms = [GroundAtom("Friends", ("A", "A"), True, 0)]
    learner = ContrastiveDivergence(counting="exact", steps=1)
    with pytest.raises(UnfitError, match="flip in groups"):
        learner.learn(MlnProblem(reader.parse(groups), [atoms], ("Friends",)), lambda _: None)
    with pytest.raises(UnfitError, match="mcsat needs"):
        learner.model_copy(update={"sampler": "mcsat"}).learn(problem(3, 0), lambda _: None)
    broken = MlnProblem(reader.parse(MODEL + HARD), [atoms], ("Friends", "Smokes"))
    with pytest.raises(ExampleError, match="breaks the hard rule"):
        learner.learn(broken, lambda _: None)


def test_only_states_that_keep_the_hard_rules_are_averaged():
    """All atoms false is the start, from which the hard rules are met one atom after the other."""
    length = 50
    text = "S(t)\nNext(t, t)\nP(t)\nS(x) => P(x).\nP(x) ^ Next(x, y) => P(y).\n0.0 P(x)\n"
    pairs = [("S", (str(length),)), *(("P", (str(k),)) for k in range(1, length + 1))]
    pairs += [("Next", (str(k + 1), str(k))) for k in range(1, length)]
    atoms = [GroundAtom(name, args, True, 0) for name, args in pairs]
    of = MlnProblem(reader.parse(text), [atoms], ("P",), method="counted-gibbs", samples=400)
    np.testing.assert_array_equal(of.predicted(np.zeros(1))["P"].values, np.ones(length))
    with pytest.raises(Unsolved, match="no state that satisfies the hard rules"):
        replace(of, samples=20).predicted(np.zeros(1))


@pytest.mark.parametrize("model", [MODEL, MODEL + HARD])
def test_marginals_are_close_to_exact_ones_and_the_truth_is_not_seen(model):
    of = problem(3, 2, model, friends=1.0)
    exact = replace(of, method="exact").predicted(WEIGHTS)
    counted = replace(of, method="counted-gibbs", samples=4_000).predicted(WEIGHTS)
    of_friends, hard = exact["Friends"].values, len(exact["Friends"].values) < 9
    np.testing.assert_allclose(counted["Smokes"].values, exact["Smokes"].values, atol=0.03)
    values = counted["Friends"].values[~np.eye(3, dtype=bool).ravel() if hard else slice(None)]
    np.testing.assert_allclose(values, of_friends, atol=0.03)
    np.testing.assert_array_equal(counted["Smokes"].truth, exact["Smokes"].truth)
    np.testing.assert_array_equal(counted["Smokes"].groups, np.full(3, 3))
    assert "ground" not in vars(of)
