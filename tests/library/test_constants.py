"""Constants come back as they were given, whole numbers and text that reads as one."""

import pickle
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import onlinesrl as srl
from onlinesrl.logic.text import quote
from tests.support.semantics import calculate

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


# numbers in comparisons and arithmetic ----------------------------------------------------------

MOST = 10**18 - 1
SPELLED = [
    0,
    -7,
    MOST,
    -MOST,
    MOST + 1,
    -MOST - 1,
    "7",
    "007",
    "-0",
    "00",
    "-07",
    "+7",
    "7.0",
    "\u0667",
]
RULE = "P(t)\nQ(t)\n1 P(x) ^ x < 9 v P(x) ^ x >= 9 => Q(x)\n"


def by_evidence(text: str, given: Any, folder: Path) -> Any:
    return srl.infer(text, given, "Q")["Q"]


def by_declaration(text: str, given: Any, folder: Path) -> Any:
    words = ", ".join(dict.fromkeys(quote(str(x)) for x in given["P"]))
    return srl.infer(f"t = {{{words}}}\n{text}", given, "Q")["Q"]


def by_database(text: str, given: Any, folder: Path) -> Any:
    (folder / "e.db").write_text("".join(f"P({quote(str(x))})\n" for x in given["P"]))
    return srl.infer(text, folder / "e.db", "Q")["Q"]


def by_table(text: str, given: Any, folder: Path) -> Any:
    return srl.infer(text, {"P": pd.DataFrame({"t": [*map(str, given["P"])]})}, "Q")["Q"]


def by_world(text: str, given: Any, folder: Path) -> Any:
    world = srl.World(srl.Model(text), "Q")
    world.apply(add=given)
    return world.answer()["Q"]


def by_learner(text: str, given: Any, folder: Path) -> Any:
    return dict.fromkeys(srl.OnlineLearner(text, "Q").predict_one(given)["Q"], 1)


def by_background(text: str, given: Any, folder: Path) -> Any:
    learner = srl.OnlineLearner(text, "Q", background=given)
    return dict.fromkeys(learner.predict_one({})["Q"], 1)


EVERY_WAY = [
    by_evidence,
    by_declaration,
    by_database,
    by_table,
    by_world,
    by_learner,
    by_background,
]


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_constant_is_a_number_or_a_name_wherever_it_is_met(
    way: Callable[[str, Any, Path], Any], tmp_path: Path
) -> None:
    found = way(RULE, {"P": SPELLED}, tmp_path)
    true = {str(x) for (x,), value in found.items() if value}
    assert true == {"0", "7", "-7", str(MOST), str(-MOST)}


NAMES_OF_RESULTS = "P(t)\nS(t)\nQ(t)\n1 S(x) ^ S(y) ^ P(x {op} y) => Q(x {op} y)\n-0.1 Q(x)\n"
RESULTS = (
    f"P(t)\nS(t)\nQ(t, t)\n1 S(x) ^ S(y) ^ x {{op}} y {{order}} {MOST} => Q(x, y)\n-0.1 Q(x, y)\n"
)


@pytest.mark.parametrize("op", "+-*/%")
@pytest.mark.parametrize("way", [by_evidence, by_world, by_learner])
def test_results_are_exact_up_to_their_limit(
    way: Callable[[str, Any, Path], Any], op: str, tmp_path: Path
) -> None:
    sides = [0, 1, -1, 3, -4, 10**9, -2 * 10**9, 2 * 10**9 - 1, 2 * 10**9 + 1, MOST, -MOST]
    results = {pair: calculate(op, *pair) for pair in product(sides, sides)}
    small = {x for x in results.values() if x is not None and abs(x) <= MOST}
    numbers = sorted({*sides, *small, MOST + 1, 2 * MOST, -MOST - 1})
    found = way(NAMES_OF_RESULTS.format(op=op), {"P": numbers, "S": sides}, tmp_path)
    assert {number for (number,), value in found.items() if value} == small
    for order, holds in (("<=", int.__le__), (">", int.__gt__)):
        found = way(RESULTS.format(op=op, order=order), {"S": sides}, tmp_path)
        expected = {pair for pair, x in results.items() if x is not None and holds(x, MOST)}
        assert {pair for pair, value in found.items() if value} == expected
