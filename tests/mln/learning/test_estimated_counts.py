"""Batch learning with counts by IJGP(i): exact where the bound is wide, estimates where it is not."""

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import ModelError
from onlinesrl.core.example import GroundAtom
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.estimated_counts import EstimatedWorld
from onlinesrl.mln.learning.problem import MlnProblem

MODEL = """
Knows(person, person)
Is(person, kind)
Likes(person)
Likes(x)
Is(x, +k) => Likes(x)
Knows(x, y) ^ Knows(y, z) ^ Knows(x, z) ^ Likes(x) => Likes(z)
"""
RNG = np.random.default_rng(2)
WORLD = {
    "Knows": [(f"P{a}", f"P{b}") for a, b in np.argwhere(RNG.random((9, 9)) < 0.4)],
    "Is": [(f"P{a}", ("Tall", "Old")[a % 2]) for a in range(9)],
    "Likes": [(f"P{a}",) for a in range(0, 9, 2)],
}
ATOMS = [GroundAtom(name, row, True, 0) for name, rows in WORLD.items() for row in rows]
PROGRAM = reader.parse(MODEL)
PROBLEM = MlnProblem(PROGRAM, [ATOMS], ("Likes",))
SIZE = len(PROBLEM.start)


def features(state, bound):
    """The counts of a state, all by IJGP."""
    names = PROBLEM.ground[0].atoms
    true = [
        GroundAtom(p, (*map(str, args),), bool(on), 0)
        for (p, args), on in zip(names, state, strict=True)
    ]
    world = world_of(PROGRAM, [atom for atom in ATOMS if atom.predicate != "Likes"] + true)
    found = Counters(PROGRAM, "ijgp", bound).counts(world)
    return np.concatenate([np.ravel(each) for each in found])


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_features_are_estimates_where_the_bound_is_too_small(bound):
    ground, estimated = PROBLEM.ground[0], EstimatedWorld(PROBLEM, 0, bound)
    truth, differs = ground.truth, []
    for state in RNG.integers(2, size=(10, len(truth)), dtype=np.uint8):
        found = estimated.features(state, SIZE) - estimated.features(truth, SIZE)
        assert found == pytest.approx(features(state, bound) - features(truth, bound), abs=1e-6)
        differs.append(found - ground.features(state, SIZE) + ground.features(truth, SIZE))
    wrong = np.abs(differs).max(axis=0)
    assert wrong[:-1] == pytest.approx(0.0, abs=1e-9)
    assert (wrong[-1] < 1e-6) == (bound == 3)


LEARNERS = [
    {"kind": "mple", "prior_sd": 2.0},
    {"kind": "contrastive-divergence", "steps": 5, "samples": 5},
    {"kind": "voted-perceptron", "steps": 5},
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each["kind"])
def test_weights_are_those_of_exact_counts_where_the_bound_is_wide(learner):
    def weights(**counts):
        learned = srl.learn(MODEL, WORLD, "Likes", learner={**learner, **counts}).model
        return list(learned.weights.values()) if hasattr(learned, "weights") else learned.text

    assert weights(counting="ijgp", i_bound=3) == weights()
    assert weights(counting="ijgp", i_bound=2) != weights()


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each["kind"])
def test_a_bound_that_does_not_fit_memory_is_refused(learner, monkeypatch):
    monkeypatch.setattr("onlinesrl.mln.counting.ijgp.MAX_CELLS", 8)
    with pytest.raises(ModelError, match=r":7:1: .* with an i-bound of 2 a cluster has 81 cells"):
        srl.learn(MODEL, WORLD, "Likes", learner={**learner, "counting": "ijgp"})
