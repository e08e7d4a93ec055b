"""Atoms that hard rules make false are not made; limits and advice where there is too much to ground."""

import numpy as np
import pytest

from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.mln.ground.advice import largest
from onlinesrl.mln.ground.grounder import LIMITS, Limits
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.open_atoms import candidates
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.small_learners import exact, online

ADVISED = """Student(person)
Professor(person)
Paper(title, person)
Adv(person, person)
Busy(person)
Adv(s, p) => Student(s).
Adv(s, p) => Professor(p).
1 Paper(t, s) ^ Paper(t, p) => Adv(s, p)
-1 Adv(s, p) ^ Adv(s, q) ^ p != q
"""
PEOPLE = {
    "Student": [[f"S{n}"] for n in range(4)],
    "Professor": [[f"P{n}"] for n in range(3)],
    "Paper": [["T", "S1"], ["T", "P2"], ["T", "X"], ["U", "S3"], ["U", "P0"]],
}


def learner(text: str, *query: str, limits: Limits = LIMITS) -> MlnOnlineLearner:
    plan = compile_program(parse(text), query)
    return online(plan, inference=exact(limits=limits))


def atoms(own: MlnOnlineLearner) -> int:
    return int(own.grounder.net.size[0])


def test_open_atoms_are_joined_from_evidence_and_from_other_open_atoms():
    text = ADVISED + "Adv(s, p) => !Paper(t, s) v Student(p).\nBusy(p) => Professor(p).\n"
    plan = compile_program(parse(text + "Adv(s, p) => Busy(p).\n"), ("Adv", "Busy"))

    assert "\n".join(map(str, candidates(plan))) == (
        "Busy($0)\n  join Professor($0)\n"
        "Adv($0, $1)\n  join Student($0)\n  join Professor($1)\n  open Busy($1)\n"
        "  but not where s := $0; where p := $1; absent Student(p); join Paper(t, s)"
    )


def test_no_more_atoms_than_hard_rules_leave():
    own = learner(ADVISED, "Adv")
    (outcome,), _ = own.step([Example(id=1, evidence=PEOPLE)], learning=False)

    assert atoms(own) == 4 * 3
    assert outcome.prediction.predicted == {"Adv": [["S1", "P2"], ["S3", "P0"]]}


def test_a_world_of_many_people_has_few_atoms():
    """Of 4,000,000 pairs 400 are open, and the limits are on these."""
    own = learner(ADVISED, "Adv", limits=Limits(2000, 10_000))
    people = {
        "Student": [[f"S{n}"] for n in range(20)],
        "Professor": [[f"P{n}"] for n in range(20)],
    }
    people["Busy"] = [[f"X{n}"] for n in range(1960)]
    (outcome,), _ = own.step([Example(id=1, evidence=people)], learning=False)

    assert outcome.error is None
    assert atoms(own) == 400


@pytest.mark.parametrize(
    ("evidence", "truth", "said"),
    [
        ({}, {"Adv": [["X", "P1"]]}, "the truth breaks the hard rule Adv(s, p) => Student(s)"),
        ({}, {"Adv": [["S1", "X"]]}, "the truth breaks the hard rule Adv(s, p) => Professor(p)"),
        ({}, {"Adv": [["S1", "Z"]]}, "only the truth names the person Z"),
        ({}, {"Adv": [ValuedAtom(["S1", "X"], 0.0), ["S1", "P1"]]}, None),
        ({"Adv": [["S1", "X"]]}, None, "no state satisfies the hard rules"),
        ({"Adv": [["S1", "X"]]}, {}, "the truth breaks the hard rule Adv(s, p) => Professor(p)"),
    ],
)
def test_what_breaks_hard_rules_is_said_as_ever(evidence, truth, said):
    own = learner(ADVISED, "Adv")
    (outcome,), _ = own.step([Example(id=1, evidence=PEOPLE | evidence, truth=truth)])

    assert (outcome.error is None) == (said is None)
    assert said is None or said in outcome.error


def test_hard_rules_that_contradict_each_other_are_found():
    own = learner(ADVISED + "Paper(t, s) => EXIST p Adv(s, p).\n", "Adv")
    bare, told = own.step(
        [Example(id=n, evidence=PEOPLE, truth=truth) for n, truth in enumerate((None, {}))]
    )[0]

    assert bare.error == "no state satisfies the hard rules"
    assert told.error.startswith("the truth breaks the hard rule Paper(t, s) => ")


def test_long_clauses_are_refused_before_they_are_made():
    own = learner("C(t)\nP(t, t)\n1 C(x) ^ C(y) => EXIST a P(x, a)\n", "P")
    evidence = {"C": [[n] for n in range(900)]}
    (outcome,), _ = own.step([Example(id=1, evidence=evidence)], learning=False)

    assert "more ground clauses than inference.max_groundings (1000000)" in outcome.error
    assert "(line 3), where 8 more literals count as one more clause; " in outcome.error
    assert own.grounder.room["rows"] <= 1 << 22


def test_the_rule_with_most_ground_clauses_is_named():
    own = learner("Person(p)\nKnows(p, p)\n1 Knows(a, b) ^ Knows(b, c) => Knows(a, c)\n", "Knows")
    example = Example(id=1, evidence={"Person": [[n] for n in range(30)]})
    first, advice = largest(own.layout.plan, [own.grounder.rule_sizes(example)])

    assert first.startswith("ground clauses: 27,000, 27,000 of them (100%) by the rule in line 3: ")
    assert "no evidence in the rule binds a or b or c" in advice
    assert largest(own.layout.plan, [np.zeros(1, np.int64)]) == []
