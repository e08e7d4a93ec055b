"""Join plans as text: each program in tests/programs says in its header what its plan is.

``//?`` names the query predicates, ``//=`` lines are the groups and the plan, and ``//+`` lines, where
there are any, the steps in worlds that list their open atoms.
"""

import pytest

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.mln.ground.join_planner import Plan, compile_program
from onlinesrl.mln.lang.reader import parse
from tests.support.paths import REPO

EVERY = sorted((REPO / "tests" / "programs").glob("*.mln"))
PROGRAMS = [path for path in EVERY if "//?" in path.read_text()]


def marked(text: str, mark: str) -> list[str]:
    """The lines after a mark and a blank."""
    return [line[len(mark) + 1 :] for line in text.splitlines() if line.startswith(mark)]


def full(plan: Plan) -> list[str]:
    """The groups, and the plan for worlds whose atoms are all open."""
    groups = [group.show(name) for name, group in plan.groups.items()]
    return [*groups, *str(plan).splitlines()]


def listed(plan: Plan) -> list[str]:
    """The steps in worlds that list their open atoms."""
    return [
        line
        for clause in plan.clauses
        for line in (clause.clause.text, *(f"  {step}" for step in clause.listed))
    ]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_plans_are_as_written(path):
    text = path.read_text()
    plan = compile_program(parse(text), marked(text, "//?")[0].split())

    assert full(plan) == marked(text, "//=")
    if expected := marked(text, "//+"):
        assert listed(plan) == expected


def compiled(text: str, *query: str) -> Plan:
    return compile_program(parse(text), query)


SPELLINGS = [
    "!F(i, f) v !F(i, g) v f = g.",
    "!F(i, f) v !F(i, g) v g = f.",
    "F(i, f) ^ F(i, g) => f = g.",
    "f != g => !(F(i, f) ^ F(i, g)).",
    "F(i, f) ^ f != g => !F(i, g).",
]


@pytest.mark.parametrize("rule", SPELLINGS)
def test_every_spelling_of_at_most_one_makes_a_group_and_no_clauses(rule):
    plan = compiled(f"F(position, field)\n{rule}\n", "F")

    assert plan.groups["F"].arguments == (1,)
    assert not plan.groups["F"].exactly
    assert plan.clauses == ()


@pytest.mark.parametrize(
    "rule",
    [
        "1 !F(i, f) v !F(i, g) v f = g",
        "!F(i, f) v !F(j, g) v f = g.",
        "!F(i, f) v !F(j, g) v i = j.",
        "!F(i, f) v !F(i, g) v f != g.",
        "!F(i, f) v F(i, g) v f = g.",
        "!F(i, f) v !F(i, A) v f = A.",
        "!F(i, f) v !F(i, g) v f = g v E(i).",
        "!F(1, f) v !F(1, g) v f = g.",
    ],
)
def test_a_rule_that_says_something_else_stays_a_clause(rule):
    plan = compiled(f"E(position)\nF(position, field)\n{rule}\n", "F")

    assert plan.groups == {}
    assert len(plan.clauses) == 1


def test_at_most_one_over_three_arguments():
    plan = compiled("F(a, b, c)\n!F(x, y, z) v !F(x, w, z) v y = w.\n", "F")
    assert (plan.groups["F"].arguments, plan.clauses) == ((1,), ())

    plan = compiled("F(a, a, a)\n!F(x, x, y) v !F(x, x, z) v y = z.\n", "F")
    assert (plan.groups, len(plan.clauses)) == ({}, 1)


def test_a_second_constraint_on_a_predicate_stays_a_clause():
    rules = "!F(i, f) v !F(i, g) v f = g.\n!F(i, f) v !F(j, f) v i = j.\n"
    plan = compiled(f"F(position, field)\n{rules}", "F")

    assert plan.groups["F"].arguments == (1,)
    assert [c.clause.rule for c in plan.clauses] == [1]


def test_marks_on_several_arguments_are_one_group_over_all_of_them():
    rules = "!F(x, y, z) v !F(x, w, z) v y = w.\n!F(x, y, z) v !F(w, y, z) v x = w.\n"
    plan = compiled(f"F(a, b!, c!)\n{rules}", "F")

    assert plan.groups["F"].arguments == (1, 2)
    assert plan.groups["F"].show("F") == "exactly one F along argument 2 and 3"
    assert [c.clause.rule for c in plan.clauses] == [1]


def test_a_query_predicate_named_twice_counts_once():
    assert compiled("Q(thing)\n1 Q(x)\n", "Q", "Q").query == ("Q",)


def test_a_rule_about_evidence_alone_is_checked_if_hard_and_else_left_out():
    plan = compiled("E(thing)\nF(thing)\nQ(thing)\n1 E(x) => F(x)\nE(x) => F(x).\n", "Q")

    assert [c.clause.rule for c in plan.clauses] == [1]


def test_an_undeclared_query_predicate_is_named_with_those_declared():
    with pytest.raises(OnlinesrlError, match=r"query predicate R is not declared.*: P, Q"):
        compiled("Q(thing)\nP(thing)\n1 P(x) => Q(x)\n", "R")
