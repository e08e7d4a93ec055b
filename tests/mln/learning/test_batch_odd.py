"""Worlds and models that are odd, with every batch learner of Markov logic: an answer, or one line."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from conftest import command

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.learning.batch import LearningError

LEARNERS = [
    {"kind": "mple", "prior_sd": 10.0},
    {"kind": "contrastive-divergence", "steps": 5},
    {"kind": "voted-perceptron", "steps": 5},
    {"kind": "max-margin"},
    {"kind": "random", "configurations": 2, "metric": "accuracy"},
]
DECLARED = "E(t)\nF(t)\nP(t)\n"
ANN = {"E": ["Ann"], "F": ["Bob"], "P": ["Ann"]}
every = pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: each["kind"])


def weights(model: str, worlds: object, learner: Mapping[str, object]) -> list[float]:
    learned = srl.learn(DECLARED + model, worlds, "P", learner=learner).model.rules
    return [rule.weight for rule in learned if not rule.hard]


@every
def test_hard_rules_stay(learner: Mapping[str, object]) -> None:
    model = "E(x) => P(x).\nF(x) => P(x)\n!P(x)\n"
    learned = srl.learn(DECLARED + model, [ANN, {"F": ["Cid"], "P": ["Cid"]}], "P", learner=learner)
    hard, *soft = learned.model.rules
    assert hard.hard and hard.text == "E(x) => P(x)"
    assert np.isfinite([rule.weight for rule in soft]).all()


@every
@pytest.mark.parametrize("more", ["", "E(x) => P(x).\n"])
def test_soft_rules_without_the_query(learner: Mapping[str, object], more: str) -> None:
    """No state of the query differs in their features: a weight stays, or a prior draws it to 0."""
    (weight,) = weights("1 E(x) => F(x)\n" + more, ANN, learner)
    assert abs(weight) <= 1.0


@every
@pytest.mark.parametrize("worlds", [[{}, ANN], [ANN, {}, ANN]])
def test_empty_worlds(learner: Mapping[str, object], worlds: list[Mapping[str, object]]) -> None:
    found = weights("E(x) => P(x)\nP(x)\n", worlds, learner)
    assert np.isfinite(found).all()


@every
def test_no_constant_of_a_template(learner: Mapping[str, object]) -> None:
    model = "C(t, k)\nC(x, +y) ^ P(x)\nE(x) => P(x).\n"
    with pytest.raises(LearningError, match="no world has a constant for the variables with `\\+`"):
        weights(model, ANN, learner)


BROKEN = {
    "F(x) => P(x).\nP(x)": "the truth breaks the hard rule F(x) => P(x)",
    "E(x) => F(x).\nP(x)": "the evidence breaks the hard rule E(x) => F(x)",
    "Q(t, t!)\nP(x)\nQ(x, x)": "the truth breaks exactly one Q along argument 2",
}


@every
@pytest.mark.parametrize("model", BROKEN)
def test_a_world_that_breaks_a_hard_rule_is_named(
    learner: Mapping[str, object], model: str
) -> None:
    query, good, bad = ["P"], {"E": ["Ann"], "F": ["Ann"], "P": ["Ann"]}, ANN
    if "Q" in model:  # of Bob there is none
        query = ["P", "Q"]
        good, bad = ({**world, "Q": [("Ann", "Ann")]} for world in (good, bad))
    worlds = [good, bad]
    with pytest.raises(ExampleError) as error:
        srl.learn(DECLARED + model, worlds, query, learner=learner)
    assert str(error.value) == f"world 2: {BROKEN[model]}"


def test_the_command_says_where_the_world_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mln").write_text(DECLARED + "F(x) => P(x).\nP(x)\n")
    line = '{"id": %d, "evidence": {"F": [["A"]]}, "truth": {"P": [%s]}}\n'
    (tmp_path / "w.jsonl").write_text(line % (1, '["A"]') + line % (2, ""))
    config = tmp_path / "c.yaml"
    config.write_text("model: m.mln\nquery: P\nsource: {path: w.jsonl}\n")
    assert command("learn", str(config)) == 65
    assert "w.jsonl:2: the truth breaks the hard rule F(x) => P(x)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("worlds", "query", "message"),
    [
        (None, "P", "evidence: expected worlds"),
        ([3], "P", "world 1: expected an Example, atoms by predicate or .db files, found 3"),
        ([ANN, {"P": [("A", "B")]}], "P", "world 2: evidence: P has another number of arguments"),
        ([ANN, srl.Example(id=1, evidence={}, truth={"P": [1.5]})], "P", "world 2: P, row 0: "),
        ([ANN, srl.Example(id=1, evidence={})], "P", "world 2: there is no truth"),
        (ANN, None, "query: expected some of the predicates E, F, P, found None"),
        (ANN, [3], "query: expected some of the predicates E, F, P, found 3"),
    ],
)
def test_what_is_no_world_or_no_query(worlds: object, query: object, message: str) -> None:
    with pytest.raises(srl.OnlinesrlError) as error:
        srl.learn(DECLARED + "E(x) => P(x)\n", worlds, query)
    assert str(error.value).startswith(message)
