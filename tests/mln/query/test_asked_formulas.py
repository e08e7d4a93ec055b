"""Formulas asked about have the probability that enumeration gives, also on a condition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from math import exp, lgamma
from random import Random

import pytest

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError, UsageError
from onlinesrl.core.learner import Estimate

PEOPLE, TEAMS = ("A", "B", "C"), ("Red", "Blue", "Green")
MODEL = """
person = {A, B, C}
team = {Red, Blue, Green}
Knows(person, person)
Smokes(person)
In(person, team!)
Like(team)
%g Smokes(x)
%g Knows(x, y) ^ Smokes(x) => Smokes(y)
%g In(x, t) ^ Smokes(x) ^ Like(t)
%g In(x, Red) ^ In(y, Red) ^ x != y
%g Like(t)
Knows(x, y) ^ In(x, Red) => In(y, Red).
"""
KNOWS = (("A", "B"), ("B", "C"))
Held = dict[tuple[str, ...], bool]
"""Whether each open atom is true."""
FORMULAS: dict[str, Callable[[Held], bool]] = {
    "Smokes(A) ^ Smokes(B)": lambda w: w["S", "A"] and w["S", "B"],
    "EXIST x Smokes(x)": lambda w: any(w["S", x] for x in PEOPLE),
    "FORALL x (Smokes(x) => In(x, Red))": lambda w: all(
        not w["S", x] or w["I", x, "Red"] for x in PEOPLE
    ),
    "EXIST x, t (In(x, t) ^ Like(t) ^ Smokes(x))": lambda w: any(
        w["I", x, t] and w["L", t] and w["S", x] for x, t in product(PEOPLE, TEAMS)
    ),
    "In(A, Red) <=> In(C, Red)": lambda w: w["I", "A", "Red"] == w["I", "C", "Red"],
    "Knows(A, B) ^ !Smokes(B)": lambda w: not w["S", "B"],
    "Knows(B, A) v EXIST t (In(A, t) ^ In(B, t))": lambda w: any(
        w["I", "A", t] and w["I", "B", t] for t in TEAMS
    ),
}


def worlds(weights: list[float]) -> list[tuple[float, Held]]:
    """Return all feasible worlds with the exponentials of their scores."""
    rows = []
    for bits in product((False, True), repeat=6):
        for teams in product(TEAMS, repeat=3):
            smokes, like = (
                dict(zip(PEOPLE, bits, strict=False)),
                dict(zip(TEAMS, bits[3:], strict=True)),
            )
            team = dict(zip(PEOPLE, teams, strict=True))
            if any(team[x] == "Red" != team[y] for x, y in KNOWS):
                continue
            knowing = sum(
                not ((x, y) in KNOWS and smokes[x] and not smokes[y])
                for x, y in product(PEOPLE, repeat=2)
            )
            red = sum(team[x] == "Red" for x in PEOPLE)
            counts = (
                sum(smokes.values()),
                knowing,
                sum(smokes[x] and like[team[x]] for x in PEOPLE),
                red * (red - 1),
                sum(like.values()),
            )
            held = {("S", x): smokes[x] for x in PEOPLE} | {("L", t): like[t] for t in TEAMS}
            held |= {("I", x, t): team[x] == t for x, t in product(PEOPLE, TEAMS)}
            rows.append((exp(sum(w * n for w, n in zip(weights, counts, strict=True))), held))
    return rows


def expected(
    rows: list[tuple[float, Held]], formula: Callable[[Held], bool], given: str | None
) -> float:
    """Return the probability of a formula on the condition that another holds."""
    rows = [row for row in rows if given is None or FORMULAS[given](row[1])]
    return sum(p for p, world in rows if formula(world)) / sum(p for p, _ in rows)


def asked(weights: list[float], **keys: object) -> srl.Answer:
    """Return the answer of a model with these weights."""
    evidence = {"Knows": [list(pair) for pair in KNOWS]}
    return srl.infer(MODEL % tuple(weights), evidence, formulas=[*FORMULAS], **keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(8))
def test_probabilities_are_those_of_enumeration(seed: int) -> None:
    rng = Random(seed)
    weights = [round(rng.uniform(-1.5, 1.5), 3) for _ in range(5)]
    rows, given = worlds(weights), rng.choice([None, *FORMULAS])
    answer = asked(weights, method="exact", given=given or ())
    for name, formula in FORMULAS.items():
        assert answer[name] == {(): pytest.approx(expected(rows, formula, given), abs=1e-9)}


@pytest.mark.parametrize("seed", range(8))
def test_predictions_have_the_probabilities_of_enumeration(seed: int) -> None:
    """Beside those of ``infer``, quantifiers within quantifiers."""
    rng = Random(seed)
    weights = [round(rng.uniform(-1.5, 1.5), 3) for _ in range(5)]
    rows, given = worlds(weights), rng.choice([None, *FORMULAS])
    learner = srl.OnlineLearner(MODEL % tuple(weights), ["Smokes", "In", "Like"])
    evidence = {"Knows": [list(pair) for pair in KNOWS]}
    nested = "FORALL x (EXIST t (In(x, t) ^ Like(t)))"
    asked = [*FORMULAS, nested]
    predicted = learner.predict_one(evidence, formulas=asked, given=given or ())
    every = FORMULAS | {
        nested: lambda w: all(any(w["I", x, t] and w["L", t] for t in TEAMS) for x in PEOPLE)
    }
    assert [*predicted.formulas] == asked
    for name, one in predicted.formulas.items():
        assert one.standard_error is None
        assert one.value == pytest.approx(expected(rows, every[name], given), abs=1e-6)


def test_what_evidence_decides_and_what_an_example_lacks() -> None:
    model = "Link(node, node)\nHot(node)\n0.5 Hot(x)\n0.7 Link(x, y) ^ Hot(x) => Hot(y)"
    learner = srl.OnlineLearner(model, "Hot")
    evidence = {"Link": [[1, 2], [2, 3]], "Hot": [[3]]}
    formulas = [
        "Link(1, 2)",
        "Hot(x) ^ Link(x, x + 1)",
        "Hot(3)",
        "Hot(9)",
        "EXIST x (x > 3 ^ Hot(x))",
    ]
    values = learner.predict_one(evidence, formulas=formulas).formulas
    assert {*values} == {
        *formulas[:1],
        "Hot(1) ^ Link(1, 1 + 1)",
        "Hot(2) ^ Link(2, 2 + 1)",
        "Hot(3)",
        formulas[4],
    }
    assert [values[name].value for name in ("Link(1, 2)", "Hot(3)", formulas[4])] == [1, 1, 0]
    both = srl.infer(learner.model, evidence, "Hot", method="exact")["Hot"][1,]
    assert values["Hot(1) ^ Link(1, 1 + 1)"].value == pytest.approx(both, abs=1e-6)
    for formula, given in product(
        ("Hot(1)", "Link(1, 2)"), ("!Hot(3)", "Hot(9)", "Hot(2) <=> !Hot(2)")
    ):
        assert learner.predict_one(evidence, formulas=formula, given=given).formulas == {}


def test_a_refused_question_leaves_no_example_waiting() -> None:
    learner = srl.OnlineLearner(
        "On(node)\n0.5 On(x)", "On", pending=5, inference={"max_groundings": 100}
    )
    evidence = srl.Example(id=1, evidence={}, query={"On": [[n] for n in range(6)]})
    for keys, said in (
        ({"given": "On(1)"}, "given: expected formulas"),
        ({"formulas": 3}, "formulas is 3, expected a formula"),
        ({"formulas": "Off(1)"}, "the predicate Off is not declared"),
    ):
        with pytest.raises(UsageError, match=said):
            learner.predict_one(evidence, **keys)  # type: ignore[arg-type]
    nested = "FORALL x (EXIST y, z (On(x) ^ On(y) ^ On(z)))"
    with pytest.raises(
        ExampleError, match=r"more groundings than inference.max_groundings \(100\)"
    ):
        learner.predict_one(evidence, formulas=nested)
    assert learner.metrics["pending"] == learner.metrics["examples"] == 0
    predicted = learner.predict_one(evidence, formulas="EXIST x On(x)")
    assert 0 < predicted.formulas["EXIST x On(x)"].value < 1
    assert learner.metrics["pending"] == 1


def test_formulas_of_wide_examples_are_sampled_with_their_errors() -> None:
    n = 60
    model = "Near(x, x)\nOn(x)\n-0.04 Near(x, y) => (On(x) <=> On(y))\n-0.2 On(x)"
    evidence = {"Near": [[i, j] for i in range(n) for j in range(i)]}
    formula = "On(0) ^ On(1)"
    learner = srl.OnlineLearner(model, "On", inference="mcsat")
    rare = f"FORALL x (On(x) <=> x < {n // 2})"  # no sample is likely to have it
    values = learner.predict_one(evidence, formulas=[formula, rare]).formulas
    assert values[rare] == Estimate(0.0, standard_error=0.0)
    one = values[formula]
    # by the number of true atoms; each of the two clauses of <=> has half of the weight
    logs = [
        lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - 0.2 * k + 0.02 * k * (n - k)
        for k in range(n + 1)
    ]
    p = [exp(x - max(logs)) for x in logs]
    both = sum(k * (k - 1) / (n * (n - 1)) * x for k, x in enumerate(p)) / sum(p)
    assert one.standard_error is not None
    assert one.value == pytest.approx(both, abs=5 * one.standard_error + 0.01)


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_samples_are_within_their_errors(method: str) -> None:
    weights = [0.4, 0.6, -0.5, 0.3, 0.2]
    rows, answer = worlds(weights), asked(weights, method=method, error=0.01)
    for name, formula in FORMULAS.items():
        assert answer[name][()] == pytest.approx(expected(rows, formula, None), abs=0.05)
    assert 0 < answer.stats["standard_error"] <= 0.01


def test_the_most_probable_world_has_their_truth() -> None:
    weights = [0.4, 0.6, -0.5, 0.3, 0.2]
    best = max(worlds(weights), key=lambda row: row[0])[1]
    answer = asked(weights)
    assert {name: bool(answer[name][()]) for name in FORMULAS} == {
        name: formula(best) for name, formula in FORMULAS.items()
    }


def test_free_variables_have_a_row_for_their_constants() -> None:
    evidence = {"Knows": [["A", "B"]]}
    model = MODEL % (1.0, 0.5, 0.25, -0.5, 0.75)
    pairs = srl.infer(model, evidence, formulas="Smokes(x)  ^ Smokes(y)", method="exact")
    alone = srl.infer(model, evidence, "Smokes", method="exact")
    both = pairs["Smokes(x) ^ Smokes(y)"]
    assert sorted(both) == sorted(product(PEOPLE, repeat=2))
    assert [both[x, x] for x in PEOPLE] == pytest.approx([alone["Smokes"][x,] for x in PEOPLE])
    assert both["A", "C"] == pytest.approx(both["C", "A"])


@pytest.mark.parametrize("n", [40, 300])
def test_a_quantifier_over_many_constants_is_exact(n: int) -> None:
    """The chance that some link of a chain is true, by the recursion over its links."""
    people = [f"P{i}" for i in range(n)]
    rules = "Next(person, person)\nS(person)\n1.1 Next(x, y) ^ S(x) => S(y)\n-2 S(x)"
    model = f"person = {{{', '.join(people)}}}\n{rules}"
    evidence = {"Next": [[*pair] for pair in pairwise(people)]}
    formula = "EXIST x, y (Next(x, y) ^ S(x) ^ S(y))"
    # weights of chains by their last value; without two neighbours that are both true
    step = {(a, b): exp(1.1 * (not a or b) - 2 * b) for a in (0, 1) for b in (0, 1)}
    total, none = ({0: 1.0, 1: exp(-2)} for _ in range(2))
    for _ in range(n - 1):
        total = {b: sum(total[a] * step[a, b] for a in (0, 1)) for b in (0, 1)}
        none = {b: sum(none[a] * step[a, b] for a in (0, 1) if not (a and b)) for b in (0, 1)}
        scale = sum(total.values())
        total, none = ({b: x / scale for b, x in part.items()} for part in (total, none))
    answer = srl.infer(model, evidence, formulas=formula, method="exact")
    assert answer.stats["route"] == "exact"
    assert answer[formula][()] == pytest.approx(
        1 - sum(none.values()) / sum(total.values()), abs=1e-9
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 Smokes(x)", "a weight or a final period"),
        ("Smoke(x)", "the predicate Smoke is not declared"),
        ("// nothing", "expected one formula"),
        ("Smokes(x) :- Smokes(y)", "expected one formula"),
        ("In(x, +t)", "expected one formula"),
        ("FORALL x (EXIST t (In(x, t) ^ Like(t)))", "ask about parts of it"),
        ("x = y", "at least one predicate"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_text(text: str, message: str) -> None:
    model = MODEL % (1.0, 0.5, 0.25, -0.5, 0.75)
    with pytest.raises(UsageError, match=message) as error:
        srl.infer(model, formulas=text)
    assert text in str(error.value)
