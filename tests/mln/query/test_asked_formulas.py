"""Formulas asked about have the probability that enumeration gives, also on a condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, compress, pairwise, permutations, product
from math import exp, lgamma
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError, Infeasible, UsageError
from onlinesrl.core.learner import Estimate
from onlinesrl.logic.ast import And, Atom, Or, Variable, free_variables
from onlinesrl.logic.text import show
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.query.asked_formulas import spell_formula
from tests.support.quantified_formulas import CONSTANTS, DECLARATIONS, formulas, with_atoms, worlds
from tests.support.semantics import World

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


def team_worlds(weights: list[float]) -> list[tuple[float, Held]]:
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
    rows, given = team_worlds(weights), rng.choice([None, *FORMULAS])
    answer = asked(weights, method="exact", given=given or ())
    for name, formula in FORMULAS.items():
        assert answer[name] == {(): pytest.approx(expected(rows, formula, given), abs=1e-9)}


@st.composite
def questions(draw):
    """A formula, perhaps a condition, and weights; of the predicates some are evidence."""
    free = [Atom("P", (Variable(name),)) for name in ("x", "y")]
    kinds = st.sampled_from([And, Or])
    asked, condition = (draw(kinds)((*free, with_atoms(draw(formulas())))) for _ in range(2))
    known = draw(st.sets(st.sampled_from(["P", "Q", "Rain"]), max_size=2))
    weights = draw(st.lists(st.sampled_from([-1.5, 0.25, 2.0]), min_size=4, max_size=4))
    return asked, condition if draw(st.booleans()) else None, known, weights


CLAUSES = ("P(x)", "Q(x, y) v Rain", "Q(x, y) v !P(x)", "P(x) v P(y) v !Rain")


def weighted_worlds(start, known, weights):
    """Yield the worlds that have the known predicates of one, with the exponentials of their scores."""
    atoms = [("P", (a,)) for a in CONSTANTS] + [("Rain", ())]
    atoms += [("Q", (a, b)) for a in CONSTANTS for b in CONSTANTS]
    fixed = [atom for atom in atoms if atom[0] in known and atom in start.true]
    opened = [atom for atom in atoms if atom[0] not in known]
    rules = [rule.formula for rule in parse(DECLARATIONS + ".\n".join((*CLAUSES, ""))).rules]
    for bits in product((False, True), repeat=len(opened)):
        world = World(CONSTANTS, [*fixed, *compress(opened, bits)], start.functions)
        counts = (sum(world.holds(x, b) for b in world.bindings(free_variables(x))) for x in rules)
        yield exp(sum(w * n for w, n in zip(weights, counts, strict=True))), world


@settings(deadline=None, max_examples=40)
@given(questions(), worlds())
def test_random_formulas_with_quantifiers_in_any_order(question, start) -> None:
    """Probabilities and counts of enumeration, also by a learner, and the truth in the best world."""
    formula, condition, known, weights = question
    names = free_variables(formula)
    rows = [
        (p, world)
        for p, world in weighted_worlds(start, known, weights)
        if condition is None
        or all(world.holds(condition, b) for b in world.bindings(free_variables(condition)))
    ]
    clauses = zip(weights, CLAUSES, strict=True)
    model = DECLARATIONS + "\n".join(f"{weight} {clause}" for weight, clause in clauses)
    evidence: dict[str, list[list[str]]] = {name: [] for name in ("f", "g", *known)}
    for name, constants in start.true:
        if name in evidence:
            evidence[name].append([*constants])
    text = show(formula)
    asked = {"formulas": text, "given": () if condition is None else show(condition)}
    opened = sorted({"P", "Q", "Rain"} - known)

    def answer(method: str, **more: object) -> srl.Answer:
        return srl.infer(model, evidence, opened, closed=[*known], method=method, **asked, **more)  # type: ignore[arg-type]

    predicted = srl.OnlineLearner(model, opened).predict_one(evidence, **asked).formulas
    if not rows:
        with pytest.raises(Infeasible):
            answer("exact")
        assert predicted == {}
        return
    total = sum(p for p, _ in rows)
    values = {
        tuple(b.values()): sum(p for p, world in rows if world.holds(formula, b)) / total
        for b in rows[0][1].bindings(names)
    }
    exact = answer("exact", counts=True)
    assert exact[text] == pytest.approx(values, abs=1e-9)
    assert exact.counts[text]["expected"] == pytest.approx(sum(values.values()), abs=1e-9)
    for constants, value in values.items():
        one = predicted.get(spell_formula(formula, constants))
        assert (0.0 if one is None and value < 0.5 else 1.0 if one is None else one.value) == (
            pytest.approx(value, abs=1e-6)
        )
    best = answer("mpe")
    true = [(name, atom) for name in opened for atom, value in best[name].items() if value]
    fixed = [atom for atom in start.true if atom[0] in known]
    world = World(CONSTANTS, [*fixed, *true], start.functions)
    assert best[text] == {
        row: world.holds(formula, dict(zip(names, row, strict=True))) for row in values
    }
    (weight,) = (p for p, other in rows if other.true == world.true)
    assert weight == pytest.approx(max(p for p, _ in rows))


@pytest.mark.parametrize("seed", range(8))
def test_predictions_have_the_probabilities_of_enumeration(seed: int) -> None:
    """Beside those of ``infer``, quantifiers within quantifiers."""
    rng = Random(seed)
    weights = [round(rng.uniform(-1.5, 1.5), 3) for _ in range(5)]
    rows, given = team_worlds(weights), rng.choice([None, *FORMULAS])
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
    for formula, condition in product(
        ("Hot(1)", "Link(1, 2)"), ("!Hot(3)", "Hot(9)", "Hot(2) <=> !Hot(2)")
    ):
        assert learner.predict_one(evidence, formulas=formula, given=condition).formulas == {}


def test_values_that_evidence_decides_cost_a_prediction_nothing() -> None:
    """All of 400 pairs are more than the limit; evidence links 19, in an order of its own."""
    model = "Link(node, node)\nOn(node)\n0.5 Link(x, y) ^ On(x) => On(y)\n-0.3 On(x)"
    learner = srl.OnlineLearner(model, "On", inference={"max_groundings": 150})
    pairs = [(n + 1, n) for n in range(19)]
    evidence = {"Link": [*map(list, reversed(pairs))]}
    asked = ("Link(x, y) ^ On(x) ^ !On(y)", "Link(x, y) ^ On(x) => On(y)")
    given = "Link(x, y) ^ Link(y, z) ^ On(x) => On(y) v On(z)"
    found = learner.predict_one(evidence, formulas=asked, given=given).formulas
    every = srl.infer(model, evidence, "On", formulas=asked, given=given, method="exact")
    names = [
        text.replace("x", str(x)).replace("y", str(y)) for text in asked for x, y in sorted(pairs)
    ]
    assert [*found] == names
    values = [
        p for text in asked for row, p in every[text].items() if (int(row[0]), int(row[1])) in pairs
    ]
    assert [one.value for one in found.values()] == pytest.approx(values, abs=1e-6)


def test_a_question_adds_no_constant_to_a_world() -> None:
    model = "Link(node, node)\nHot(node)\nnode next(node)\n0.5 Hot(x)\n-1 EXIST x Hot(x)"
    evidence = {"Link": [[1, 2]], "next": [[1, 2]]}
    for text in (
        "Hot(9)",
        "Hot(next(9))",
        "next(9) = x ^ Hot(x)",
        "Hot(1) v !(EXIST x Link(x, 9))",
    ):
        for part, method in product(("formulas", "given"), ("exact", "mpe")):
            with pytest.raises(
                UsageError, match="neither model nor evidence has 9 of the type node"
            ):
                srl.infer(model, evidence, "Hot", method=method, **{part: text})  # type: ignore[arg-type]
        assert srl.OnlineLearner(model, "Hot").predict_one(evidence, formulas=text).formulas == {}
    beyond = srl.infer(model, evidence, "Hot", method="mpe", formulas="EXIST x (Hot(x) ^ x > 9)")
    assert beyond["EXIST x (Hot(x) ^ x > 9)"] == {(): 0}


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
    rows, answer = team_worlds(weights), asked(weights, method=method, error=0.01)
    for name, formula in FORMULAS.items():
        assert answer[name][()] == pytest.approx(expected(rows, formula, None), abs=0.05)
    assert 0 < answer.stats["standard_error"] <= 0.01


def test_the_most_probable_world_has_their_truth() -> None:
    weights = [0.4, 0.6, -0.5, 0.3, 0.2]
    best = max(team_worlds(weights), key=lambda row: row[0])[1]
    answer = asked(weights)
    assert {name: bool(answer[name][()]) for name in FORMULAS} == {
        name: formula(best) for name, formula in FORMULAS.items()
    }


def pairs_of_a_chain(n: int) -> tuple[str, dict[str, list[list[str]]], np.ndarray]:
    """Return a model of a chain, its evidence, and the probabilities that two atoms are true."""
    people = [f"P{k:02}" for k in range(n)]
    rules = "Next(person, person)\nS(person)\n0.8 Next(x, y) ^ S(x) => S(y)\n-0.5 S(x)"
    step = np.array([[exp(0.8 * (not a or b)) for b in (0, 1)] for a in (0, 1)])
    own = np.diag([1.0, exp(-0.5)])

    def total(true: set[int]) -> float:
        row = np.ones(2)
        for k in range(n):
            row = (row @ step if k else row) @ own * (np.array([k not in true, 1]))
        return float(row.sum())

    pairs = [[total({a, b}) / total(set()) for b in range(n)] for a in range(n)]
    evidence = {"Next": [[*pair] for pair in pairwise(people)]}
    return f"person = {{{', '.join(people)}}}\n{rules}", evidence, np.array(pairs)


def test_pairs_that_are_too_wide_together_are_exact() -> None:
    model, evidence, pairs = pairs_of_a_chain(40)
    answer = srl.infer(model, evidence, formulas="S(x) ^ S(y)", method="exact")
    assert (answer.stats["route"], answer.stats["samples"]) == ("exact", 0)
    assert [*answer["S(x) ^ S(y)"].values()] == pytest.approx(pairs.ravel().tolist(), abs=1e-9)


def test_what_is_wide_leaves_the_others_exact() -> None:
    """Beside a clique: pairs within a chain, of the chain and single atoms, and of the clique."""
    n = 40
    model, evidence, pairs = pairs_of_a_chain(6)
    alone = [f"A{k}" for k in range(3)]
    wide = {"Near": [[f"W{i}", f"W{j}"] for i in range(n) for j in range(i)]}
    rules = "Near(w, w)\nOn(w)\nLone(person)\n-0.04 Near(v, w) => (On(v) <=> On(w))\n0.4 Lone(x)"
    asked = ["S(P00) ^ S(P05)", "S(P01) ^ Lone(A1)", "On(W0) ^ On(W1)", "On(W0) ^ S(P03)"]
    model = model.replace("person = {", f"person = {{{', '.join(alone)}, ") + "\n" + rules
    answer = srl.infer(model, evidence | wide, formulas=asked, method="exact")
    lone = 1 / (1 + exp(-0.4))
    values = [answer[text][()] for text in asked]
    assert values[:2] == pytest.approx([pairs[0, 5], pairs[1, 1] * lone], abs=1e-9)
    assert values[3] == pytest.approx(0.5 * pairs[3, 3], abs=0.1)
    assert answer.stats["route"] == "exact+mcsat"
    assert 0.2 < values[2] < 0.5


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


def test_quantifiers_nested_four_deep_over_groups_are_exact() -> None:
    """At a table sit at most three; asked is whether nobody sits alone, which all guests decide."""
    guests, tables = "ABCDEFG", ("T0", "T1", "T2")
    capacity = "Sits(a, t) ^ Sits(b, t) ^ Sits(c, t) ^ Sits(d, t)"
    alike = " v ".join(f"{x} = {y}" for x, y in combinations("abcd", 2))
    rules = f"{capacity} => {alike}.\n1.2 Friends(a, b) ^ Sits(a, t) => Sits(b, t)"
    model = f"Friends(guest, guest)\nSits(guest, table!)\n{rules}\n0.3 Sits(A, T1)"
    friends = [*pairwise(guests[:5])]
    domains = f"guest = {{{', '.join(guests)}}}\ntable = {{{', '.join(tables)}}}\n"
    formula = "FORALL g EXIST h (!(g = h) ^ EXIST t (Sits(g, t) ^ Sits(h, t)))"
    total = favourable = 0.0
    for state in product(range(3), repeat=7):
        count, at = Counter(state), dict(zip(guests, state, strict=True))
        if max(count.values()) <= 3:
            apart = sum(at[a] != at[b] for a, b in friends)
            share = exp(0.3 * (at["A"] == 1) - 1.2 * apart)
            total, favourable = total + share, favourable + share * (1 not in count.values())
    answer = srl.infer(
        domains + model, {"Friends": friends}, "Sits", formulas=formula, method="exact"
    )
    assert answer.stats["route"] == "exact"
    assert answer[formula][()] == pytest.approx(favourable / total, abs=1e-9)


RELATED = {"Before": "<=> !Before(y, x)", "Same": "<=> Same(y, x)"}


@pytest.mark.parametrize("relation", RELATED)
def test_orders_and_partitions_of_six_things_are_exact(relation: str) -> None:
    """Half of the atoms follow from the others; the states are all permutations, or all partitions."""
    things, likes = "ABCDEF", ["AB", "BC", "CA", "DE", "EF", "FA"]
    transitive = f"{relation}(x, y) ^ {relation}(y, z) ^ x != z => {relation}(x, z)."
    both = f"x != y => ({relation}(x, y) {RELATED[relation]})."
    model = f"thing = {{A, B, C, D, E, F}}\nLikes(thing, thing)\n{relation}(thing, thing)\n"
    model += f"{transitive}\n{both}\n!{relation}(x, x).\n0.7 Likes(x, y) => {relation}(x, y)"
    asked = {
        f"FORALL y (!(y = A) => {relation}(A, y))": lambda w: all(w["A", y] for y in "BCDEF"),
        f"EXIST x, y ({relation}(x, y) ^ {relation}(y, x))": lambda w: any(
            w[y, x] and w[x, y] for x, y in w
        ),
        f"{relation}(A, B) ^ {relation}(B, C)": lambda w: w["A", "B"] and w["B", "C"],
    }
    total, favourable = 0.0, dict.fromkeys(asked, 0.0)
    orders = [dict(zip(things, p, strict=True)) for p in permutations(range(6))]
    numbers = product(*(range(k + 1) for k in range(6)))  # of the first thing of a block
    blocks = [dict(zip(things, p, strict=True)) for p in numbers if all(p[k] == k for k in p)]
    for at in orders if relation == "Before" else blocks:
        holds = int.__lt__ if relation == "Before" else int.__eq__
        world = {(x, y): x != y and holds(at[x], at[y]) for x in things for y in things}
        share = exp(0.7 * sum(world[x, y] for x, y in likes))
        total += share
        for text, formula in asked.items():
            favourable[text] += share * formula(world)
    answer = srl.infer(
        model, {"Likes": [[*x] for x in likes]}, relation, formulas=[*asked], method="exact"
    )
    assert answer.stats["route"] == "exact"
    for text, share in favourable.items():
        assert answer[text][()] == pytest.approx(share / total, abs=1e-9)


def test_a_quantifier_follows_the_rows_of_evidence() -> None:
    """Of nine million pairs those that are linked count, by the limit too."""
    nodes = [f"N{k}" for k in range(3000)]
    evidence = {"Link": [["N0", "N1"], ["N1", "N2"], ["N5", "N5"]], "Node": [[x] for x in nodes]}
    model = "Link(node, node)\nNode(node)\nHot(node)\n0.5 Hot(x)"
    asked = {
        "EXIST x, y (Link(x, y) ^ Hot(x) ^ !Hot(y))": lambda a, b, c, d: (
            (a and not b) or (b and not c)
        ),
        "FORALL x, y (Link(x, y) => Hot(x) ^ Hot(y))": lambda *hot: all(hot),
        "EXIST x (Link(x, x) ^ Hot(x))": lambda a, b, c, d: d,
    }
    answer = srl.infer(model, evidence, "Hot", formulas=[*asked], method="exact")
    p = 1 / (1 + exp(-0.5))
    for text, holds in asked.items():
        states = product((0, 1), repeat=4)
        value = sum(p ** sum(hot) * (1 - p) ** (4 - sum(hot)) for hot in states if holds(*hot))
        assert answer[text][()] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("condition", "named"),
    [("Knows(A, C) v Knows(C, A)", None), ("Smokes(x) ^ Knows(x, B)", "Smokes(B) ^ Knows(B, B)")],
)
def test_a_condition_that_evidence_makes_false_is_named(condition: str, named: str | None) -> None:
    model, evidence = MODEL % (1.0, 0.5, 0.25, -0.5, 0.75), {"Knows": [["A", "B"]]}
    with pytest.raises(Infeasible, match=r"given .*: evidence makes this formula false") as error:
        srl.infer(model, evidence, "Smokes", given=condition)
    assert str(error.value).startswith(f"given {named or condition}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 Smokes(x)", "a weight or a final period"),
        ("Smoke(x)", "the predicate Smoke is not declared"),
        ("// nothing", "expected one formula"),
        ("Smokes(x) :- Smokes(y)", "expected one formula"),
        ("In(x, +t)", "expected one formula"),
        ("x = y", "at least one predicate"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_text(text: str, message: str) -> None:
    model = MODEL % (1.0, 0.5, 0.25, -0.5, 0.75)
    with pytest.raises(UsageError, match=message) as error:
        srl.infer(model, formulas=text)
    assert text in str(error.value)
