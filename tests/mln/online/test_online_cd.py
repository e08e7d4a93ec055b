"""The online perceptron on sampled counts: its step is that of the expected counts, and is repeatable."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from conftest import REPO

import onlinesrl as srl

SMOKERS = """
Friends(person, person)
Smokes(person)
Likes(person)
0.7 Smokes(x)
1.2 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.5 Likes(x) ^ Smokes(x)
!Likes("c") v !Smokes("c").
"""
FACTS = {"Friends": [("a", "b"), ("b", "c"), ("c", "a")]}
TRUTH = {"Smokes": ["a", "b"], "Likes": ["a"]}


def counts(smokes: tuple[int, ...], likes: tuple[int, ...]) -> list[float]:
    """The satisfied groundings of the three rules."""
    a, b, c = smokes
    friends = sum(not x or y for x, y in ((a, b), (b, c), (c, a)))
    return [sum(smokes), friends, sum(p and q for p, q in zip(likes, smokes, strict=True))]


def expected() -> list[float]:
    """The mean counts by the weights of the rules, over the states in which c does not like and smoke."""
    worlds = [
        counts(s, e)
        for s in itertools.product((0, 1), repeat=3)
        for e in itertools.product((0, 1), repeat=3)
        if not (s[2] and e[2])
    ]
    mass = np.exp(np.array(worlds) @ [0.7, 1.2, -0.5])
    return list(mass @ np.array(worlds) / mass.sum())


@pytest.mark.parametrize("presolve", ["exact", "none"])
def test_a_step_is_along_the_expected_counts(presolve: str) -> None:
    learner = srl.OnlineLearner(
        SMOKERS,
        query=["Smokes", "Likes"],
        update={"update": "cd", "samples": 1_500, "eta": 0.1},
        inference={"engine": "mpe", "presolve": presolve},
    )
    learner.learn_one(FACTS, TRUTH)
    moved = np.array([row.weight for row in learner.weights.rows])
    step = 0.1 * (np.array(counts((1, 1, 0), (1, 0, 0))) - expected())
    np.testing.assert_allclose(moved - [0.7, 1.2, -0.5], step, atol=0.1 * 4 / math.sqrt(1_500))
    assert learner.certificate["dual"] is None


def test_what_is_learned_depends_on_the_seed_and_not_on_batches() -> None:
    examples = list(srl.read(REPO / "streams" / "citations" / "citations.jsonl"))[:12]
    model = srl.Model.read(REPO / "streams" / "citations" / "segmentation.mln")

    def weights(seed: int, together: bool) -> str:
        learner = srl.OnlineLearner(model, query="InField", update="cd", seed=seed)
        if together:
            learner.learn_many(examples)
        else:
            for example in examples:
                learner.learn_one(example)
        return learner.weights_text()

    assert weights(0, together=True) == weights(0, together=False) != weights(1, together=True)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"update": "cd"}, "samples are of Markov logic"),
        ({"update": "log-likelihood"}, "normaliser of the density.*adagrad.*sampled-mle"),
        ({"calibrated": True}, r"learner\.calibrated.*normaliser.*Markov logic"),
    ],
)
def test_what_needs_probabilities_is_for_markov_logic_alone(
    keys: dict[str, Any], message: str
) -> None:
    model = srl.Model("1: Knows(A, B) & Trusts(A, B) -> Trusts(B, A)", "psl")
    with pytest.raises(srl.ConfigError, match=message):
        srl.OnlineLearner(model, query="Trusts", **keys)


def test_a_tagger_has_no_samples() -> None:
    with pytest.raises(srl.UsageError, match="cd does not apply to a tagger"):
        srl.SequenceTagger(update="cd").fit([[["a"]]], [["x"]])
