"""A temperature is fitted along the slope over all states, and scales what is said to be probable."""

import itertools
import math
import pickle

import numpy as np
import pytest

import onlinesrl as srl
from tests.mln.online.test_online_cd import FACTS, SMOKERS, counts
from tests.mln.online.test_partial_truth import ATOMS, STATES, cases, parts

FEATURES = np.array([counts(s[:3], s[3:]) for s in STATES.tolist()])
WIDE = "Knows(person, person)\nTall(person)\n0.02 Knows(x, y) ^ Tall(x) => Tall(y)\n-0.5 Tall(x)"
INFERENCE = ({"engine": "mpe"}, {"engine": "mpe", "presolve": "none"}, {"engine": "mcsat"})


def learner_of(inference: dict, calibrated: bool = True, **update) -> srl.OnlineLearner:
    return srl.OnlineLearner(
        SMOKERS,
        query=["Smokes", "Likes"],
        update={"sigma": 0.5, **update},
        inference=inference,
        calibrated=calibrated,
    )


def weights_of(learner: srl.OnlineLearner) -> np.ndarray:
    return np.array([row.weight for row in learner.weights.rows])


@pytest.mark.parametrize("costs", [None, {"Smokes": 2.0}])
@pytest.mark.parametrize("inference", INFERENCE, ids=["kernel", "engines", "marginals"])
def test_steps_are_along_the_slope_over_all_states(inference, costs) -> None:
    """The slope of log P(labels) by log b: b (E[score | labels] - E score), by the weights before."""
    learner, log_b, squares = learner_of(inference, costs=costs), 0.0, 0.0
    plain = learner_of(inference, calibrated=False, costs=costs)
    for n, (truth, some) in enumerate(itertools.chain(cases(0), cases(1))):
        known = some | (n % 2 == 0)
        score = math.exp(log_b) * FEATURES @ weights_of(learner)
        mass = np.exp(score)
        p = mass / mass.sum()
        found = learner.predict_one(FACTS, marginals=True).values
        for (name, person), true in zip(ATOMS, p @ STATES, strict=True):
            assert found[name][person,] == pytest.approx(true, abs=2e-6)
        agrees = np.all(STATES[:, known] == truth[known], axis=1)
        slope = mass[agrees] @ score[agrees] / mass[agrees].sum() - p @ score
        squares += slope**2
        log_b += slope / math.sqrt(squares)
        learner.learn_one(FACTS, **parts(truth, known))
        plain.learn_one(FACTS, **parts(truth, known))
        assert math.log(learner.certificate["temperature"]) == pytest.approx(-log_b, abs=1e-7)
    assert weights_of(learner).tolist() == weights_of(plain).tolist()
    assert abs(log_b) > 0.01
    assert "temperature" not in plain.certificate


def test_where_elimination_is_too_wide_samples_stand_for_the_expected_score() -> None:
    """Scores are a sum over how many are tall, so that their expectation is known."""
    people = [f"p{n}" for n in range(24)]
    pairs = [(a, b) for a in people for b in people if a < b]
    update = {"update": "perceptron", "eta": 1e-9}
    learner = srl.OnlineLearner(WIDE, query="Tall", update=update, calibrated=True)
    rng = np.random.default_rng(0)
    tall = [person for person in people if rng.random() < 0.4]
    learner.learn_one({"Knows": pairs}, {"Tall": tall})
    states = rng.random((20_000, 24)) < 0.5
    score = np.array([_wide_score(state) for state in states])
    mass = np.exp(score - score.max())
    expected = mass @ score / mass.sum()
    slope = _wide_score(np.isin(people, tall)) - expected
    found = learner.learned.temperature.save()["squares"]
    assert math.sqrt(found) == pytest.approx(abs(slope), abs=0.35)


def _wide_score(tall: np.ndarray) -> float:
    """The score of a state, the constant of the rule left out where its body cannot hold."""
    broken = sum(int(np.sum(~tall[n + 1 :])) for n in np.flatnonzero(tall))
    return -0.5 * int(tall.sum()) - 0.02 * broken


def test_it_is_saved_and_resumed_to_the_bit(tmp_path) -> None:
    citations = srl.datasets.citations()
    examples = [*citations.examples][:60]
    whole, first = (
        srl.OnlineLearner(citations.model, citations.query, calibrated=True) for _ in range(2)
    )
    whole.learn_many(examples)
    first.learn_many(examples[:25])
    first.save(tmp_path / "saved")
    resumed = srl.OnlineLearner.load(tmp_path / "saved")
    resumed.learn_many(examples[25:])
    assert pickle.dumps(resumed.learned.save()) == pickle.dumps(whole.learned.save())
    expected = whole.predict_many(examples, marginals=True)
    found = resumed.predict_many(examples, marginals=True)
    assert [p.line.marginals for p in found] == [p.line.marginals for p in expected]


def test_known_truth_does_not_refit_it() -> None:
    """Later passes of an estimator, and examples that are learned from ``again``."""
    citations = srl.datasets.citations()
    examples = [*citations.examples][:40]
    learner = srl.OnlineLearner(citations.model, citations.query, calibrated=True)
    learner.learn_many(examples)
    before, weights = learner.certificate["temperature"], learner.weights_text()
    learner.learn_many(examples, again=True)
    assert learner.certificate["temperature"] == before != 1.0
    assert learner.weights_text() != weights
    learner.learn_many(examples)
    assert learner.certificate["temperature"] != before

    rng = np.random.default_rng(3)
    X = [([{f"w{rng.integers(5)}": True} for _ in range(4)], [(0, 1), (1, 2)]) for _ in range(30)]
    y = [[str(rng.integers(2)) for _ in things] for things, _ in X]
    one, many = (srl.LinkedClassifier(passes=n, calibrated=True).fit(X, y) for n in (1, 3))
    assert one.learner.certificate["temperature"] == many.learner.certificate["temperature"] != 1.0
    plain = srl.LinkedClassifier(passes=3).fit(X, y)
    assert many.learner.weights_text() == plain.learner.weights_text()
    assert many.predict_marginals(X) != plain.predict_marginals(X)


def test_explanations_say_by_what_probabilities_are_scaled() -> None:
    learner = learner_of({"engine": "mpe"})
    learner.learn_one(FACTS, {"Smokes": ["a"]})
    learner.learn_one(FACTS, {"Likes": ["a"]})
    text = str(srl.explain(learner, FACTS, "Smokes(a)"))
    value = learner.certificate["temperature"]
    assert f"probabilities are scaled by temperature {value:.3g}, which was fitted to" in text
