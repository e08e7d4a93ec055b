"""Batch learning with counts by IJGP(i): exact where the bound is wide, estimates where it is not."""

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import ModelError
from onlinesrl.core.example import GroundAtom
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.problem import MlnProblem

MODEL = """
Knows(person, person)
Is(person, kind)
Likes(person)
Likes(x)
Is(x, +k) => Likes(x)
Knows(x, y) ^ Knows(y, z) ^ Knows(z, w) ^ Knows(y, w) ^ Likes(x) => Likes(z)
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
WEIGHTS = np.array([0.2, -0.3, 0.4, 0.01])


def counts(world, bound):
    """The counts of a state, all by IJGP."""
    state = world.world.changed({"Likes": world.counts.rows("Likes")})
    found = Counters(PROGRAM, "ijgp", bound).counts(state)
    return np.concatenate([np.ravel(each) for each in found])


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_features_are_estimates_where_the_bound_is_too_small(bound):
    exact, estimated = PROBLEM.counted(0), PROBLEM.counted(0, bound=bound)
    truth, differs = counts(estimated, bound), []
    for features in estimated.step(WEIGHTS, 10):
        assert features == pytest.approx(counts(estimated, bound) - truth, abs=1e-6)
        exact.counts.set({"Likes": estimated.counts.rows("Likes")})
        state = exact.world.changed({"Likes": exact.counts.rows("Likes")})
        two = [Counters(PROGRAM).counts(world) for world in (state, exact.world)]
        after, before = (np.concatenate([np.ravel(each) for each in of]) for of in two)
        differs.append(features - after + before)
    wrong = np.abs(differs).max(axis=0)
    assert wrong[:-1] == pytest.approx(0.0, abs=1e-9)
    assert (wrong[-1] < 1e-6) == (bound == 3)


def test_the_odds_are_those_of_counting_before_and_after_a_flip():
    world = PROBLEM.counted(0, bound=2)
    weights = np.append(WEIGHTS, 1.0)
    (estimates,) = world.estimates.values()
    assert estimates.width() == 2
    for atom in range(9):
        name, row = world.counts.atom(atom)
        after = {tuple(r) for r in world.world.tables[name].rows.tolist()} ^ {tuple(row)}
        states = [world.world, world.world.changed({name: np.array(sorted(after), np.int64)})]
        before, flipped = (
            np.concatenate([np.ravel(n) for n in Counters(PROGRAM).counts(of)]) for of in states
        )
        found = world.counts.change(name, row)[:-1] @ WEIGHTS + world.estimated_odds(atom, weights)
        assert found == pytest.approx(WEIGHTS @ (flipped - before), abs=0.5)


LEARNERS = [
    {"kind": "mple", "prior_sd": 2.0},
    {"kind": "contrastive-divergence", "steps": 3, "samples": 3},
    {"kind": "voted-perceptron", "steps": 2, "flips": 10, "states": 2},
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each["kind"])
def test_weights_are_those_of_exact_counts_where_the_bound_is_wide(learner):
    def weights(**counts):
        learned = srl.learn(MODEL, WORLD, "Likes", learner={**learner, **counts}).model
        return list(learned.weights.values()) if hasattr(learned, "weights") else learned.text

    exact = weights(counting="exact")
    assert weights(counting="ijgp", i_bound=4) == exact
    assert weights(counting="ijgp", i_bound=2) != exact


def test_a_bound_that_does_not_fit_memory_is_refused(monkeypatch):
    monkeypatch.setattr("onlinesrl.mln.counting.ijgp.MAX_CELLS", 8)
    with pytest.raises(ModelError, match=r":7:1: .* with an i-bound of 2 a cluster has 81 cells"):
        srl.learn(
            MODEL, WORLD, "Likes", learner={"kind": "mple", "prior_sd": 2.0, "counting": "ijgp"}
        )
