"""Constants come back as they were given, whole numbers and text that reads as one."""

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import onlinesrl as srl

MODEL = "P(thing)\nR(kind)\nQ(thing, kind)\n1 P(x) ^ R(y) => Q(x, y)"
GIVEN = ["17", 17, -3, "017", "+1", "1.0", 2**60, str(2**70)]
RULES = "1: P(A) & R(B) -> Q(A, B) ^2"


def same(found: Any, expected: Any) -> None:
    assert found == expected
    assert [*map(type, found)] == [*map(type, expected)]


@pytest.mark.parametrize("thing", GIVEN)
@pytest.mark.parametrize("kind", [17, "17"])
def test_a_constant_of_markov_logic_keeps_its_type(thing: Any, kind: Any) -> None:
    x, atom = {"P": [thing], "R": [kind]}, (thing, kind)
    for evidence in (x, {"P": pl.DataFrame({"a": [str(thing)]}), "R": [kind]}):
        expected = atom if evidence is x else (str(thing), kind)
        for method in ("mpe", "exact"):
            found = srl.infer(MODEL, evidence, "Q", method=method)
            same(next(iter(found["Q"])), expected)
            same(found.tables["Q"]["thing"] + found.tables["Q"]["kind"], [*expected])
    learner = srl.OnlineLearner(MODEL, "Q")
    for found in (learner.predict_one(x), learner.learn_one(x, {"Q": [atom]})):
        for each in (found, pickle.loads(pickle.dumps(found))):
            same(each["Q"][0], atom)
            same(next(iter(each.table("Q").rows())), atom)
    values = learner.predict_one(x, marginals=True).values
    assert values is not None
    same(next(iter(values["Q"])), atom)
    assert learner.evaluate([x], [{"Q": [atom]}])["f1"] == 1.0


@pytest.mark.parametrize("thing", GIVEN)
def test_a_constant_of_psl_keeps_its_type(thing: Any) -> None:
    model = srl.Model(RULES, "psl")
    atom = (thing, 5)
    for targets in ([atom], iter([atom]), {atom: 0.5}):
        found = srl.infer(model, {"P": [thing], "R": ["5"]}, {"Q": targets})
        same(next(iter(found["Q"])), atom)
        same(found.tables["Q"]["argument_1"], [thing])
    learner = srl.OnlineLearner(model, "Q")
    values = learner.predict_one({"P": [thing], "R": [5]}, query={"Q": [atom]}).values
    assert values is not None
    same(next(iter(values["Q"])), atom)


def test_answers_join_to_ids() -> None:
    for ids in (["1", "2"], [1, 2]):
        people = pd.DataFrame({"id": ids, "age": [30, 40]})
        found = srl.infer(MODEL, {"P": people[["id"]], "R": ["k"]}, "Q").tables["Q"]
        joined = people.merge(pl.DataFrame(found).to_pandas(), left_on="id", right_on="thing")
        assert joined["age"].tolist() == [30, 40]


def test_what_is_given_as_both_is_text() -> None:
    found = srl.infer(MODEL, {"P": [17, "17", 18], "R": [17]}, "Q")["Q"]
    assert [*found] == [("17", 17), (18, 17)]


@pytest.mark.parametrize("declared", ["kind = {...}\n", "kind = {1, 2}\n"])
@pytest.mark.parametrize("label", ["2", 2])
def test_labels_are_as_they_were_learned(declared: str, label: Any, tmp_path: Path) -> None:
    model = declared + "T(word, place)\nQ(place, kind!)\n0 T(+w, i) ^ Q(i, +k)"
    learner = srl.OnlineLearner(model, "Q")
    xs = [{"T": [("3", 3)]}] * 3
    found = learner.learn_many(xs, [{"Q": [(3, label)]}] * 3)
    same(found[-1]["Q"], [(3, label)])
    learner.save(tmp_path / "learner.ckpt")
    for each in (
        learner,
        srl.OnlineLearner.load(tmp_path / "learner.ckpt"),
        pickle.loads(pickle.dumps(learner)),
    ):
        same(each.predict_one(xs[0])["Q"][0], (3, label))
        rule = "T(+w, i) ^ Q(i, +k)"
        assert each.weights[rule, 3, label] == each.weights[rule, "3", str(label)]
        assert len(each.weights.about(3).rows) == len(each.weights.about("3").rows) > 0


def test_an_exception_leaves_the_types_as_they_were() -> None:
    learner = srl.OnlineLearner("kind = {1, 2}\nT(a)\nQ(a, kind!)\n0 T(x) ^ Q(x, +k)", "Q")
    good, bad = {"Q": [("a", "2")]}, {"Q": [("b", "2")]}
    with pytest.raises(srl.ExampleError):
        learner.learn_many([{"T": ["a"]}] * 2, [good, bad])
    same(learner.predict_one({"T": ["a"]})["Q"][0], ("a", 1))


def test_background_facts_keep_their_types(tmp_path: Path) -> None:
    for thing in ("17", 17):
        background = {"P": [thing]}
        learner = srl.OnlineLearner(MODEL, "Q", background=background)
        learner.save(tmp_path / "learner.ckpt")
        for each in (learner, srl.OnlineLearner.load(tmp_path / "learner.ckpt")):
            same(each.predict_one({"R": ["k"]})["Q"][0], (thing, "k"))
