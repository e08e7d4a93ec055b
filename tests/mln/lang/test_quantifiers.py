"""Quantifiers: their scope, their variables, and the existential parts of clauses."""

import pytest

from onlinesrl.logic.ast import And, Atom, Exists, Forall, Implies, Variable
from onlinesrl.logic.text import show
from onlinesrl.mln.lang.clausal_form import clauses
from onlinesrl.mln.lang.reader import parse
from tests.mln.lang.test_clausal_form import EVENTS, spelled

P, F = (Atom("P", (Variable("t"),)), Atom("F", (Variable("t"), Variable("u"))))


def formula(text):
    return parse(EVENTS + text).rules[0].formula


@pytest.mark.parametrize("word", ["EXIST", "Exist", "exist"])
def test_a_quantifier_reaches_to_the_end(word):
    assert formula(f"1 {word} u F(t,u) ^ P(t)") == Exists(("u",), And((F, P)))
    assert formula(f"1 P(t) ^ {word} u F(t,u) => P(t)") == And((P, Exists(("u",), Implies(F, P))))


@pytest.mark.parametrize("word", ["FORALL", "Forall", "forall"])
def test_or_to_the_end_of_its_parentheses(word):
    assert formula(f"1 ({word} u F(t,u)) => P(t)") == Implies(Forall(("u",), F), P)
    assert formula(f"1 {word} t, u (F(t,u)) => P(t)") == Forall(("t", "u"), Implies(F, P))


def test_variables_of_one_name_are_told_apart():
    assert show(formula("1 P(x) ^ (EXIST x P(x)) ^ (EXIST x F(x,x))")) == (
        "P(x) ^ (EXIST x1 (P(x1))) ^ (EXIST x2 (F(x2, x2)))"
    )
    assert show(formula("1 EXIST x (P(x) ^ (EXIST x Happens(x, 1)))")) == (
        "EXIST x (P(x) ^ (EXIST x1 (Happens(x1, 1))))"
    )
    program = parse(EVENTS + "1 (EXIST x P(x)) v (EXIST x Happens(x, 1))")
    assert dict(program.rules[0].types) == {"x1": "time", "x2": "event"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 EXIST u F(t,u)", [("t:time", [("u", "F(t,u)")])]),
        ("1 P(t) => EXIST u (F(t,u) ^ u > t)", [("!P(t)", [("u", "F(t,u) u>t")])]),
        ("1 EXIST u (P(u) v F(u,t))", [("t:time", [("u", "P(u)"), ("u", "F(u,t)")])]),
        ("1 EXIST u, w (P(u) v P(w) v P(t))", [("P(t)", [("u", "P(u)"), ("w", "P(w)")])]),
        ("1 !(EXIST u F(t,u) ^ P(u))", [("!F(t,u) !P(u)", [])]),
        ("1 (EXIST u F(t,u)) => P(t)", [("!F(t,u) P(t)", [])]),
        ("1 (FORALL u F(t,u)) => P(t)", [("P(t)", [("u", "!F(t,u)")])]),
        ("1 FORALL t (P(t) => F(t,t))", [("!P(t) F(t,t)", [])]),
        ("1 EXIST u (EXIST w (F(u,w) ^ P(w)))", [("", [("u w", "F(u,w) P(w)")])]),
        ("1 FORALL t (EXIST u F(t,u))", [("t:time", [("u", "F(t,u)")])]),
        (
            "1 P(t) => EXIST u (u = t * 2 ^ u > 3 ^ P(3))",
            [("!P(t) t1:=t*2", [("u", "P(3) u=t1 u>3 u:time")])],
        ),
        (
            "1 P(t) => EXIST b (HoldsAt(meet(Anna, b), t) ^ Close(b, boss(c), 1, t))",
            [
                (
                    "!P(t) !boss(c,boss1)",
                    [("b meet1", "HoldsAt(meet1,t) Close(b,boss1,1,t) meet(Anna,b,meet1)")],
                )
            ],
        ),
        (
            "1 HoldsAt(f, t) => EXIST a, b (f = meet(a, b) ^ t + 1 > 2)",
            [("!HoldsAt(f,t) t1:=t+1", [("a b", "meet(a,b,f) t1>2")])],
        ),
        (
            "1 P(t) => EXIST u (F(t,u) ^ P(u + 1))",
            [("!P(t)", [("u u1", "F(t,u) P(u1) u1:=u+1")])],
        ),
        (
            "P(t) <=> (EXIST u F(t,u)).",
            [("!P(t)", [("u", "F(t,u)")]), ("!F(t,u) P(t)", [])],
        ),
        ("1 (EXIST u P(u)) v !(EXIST w P(w))", [("!P(w)", [("u", "P(u)")])]),
        ("1 (EXIST u P(u)) <=> (EXIST u P(u))", [("!P(u1)", [("u2", "P(u2)")])] * 2),
        (
            "1 EXIST u (P(u) v (P(t) ^ P(3)))",
            [("P(t)", [("u", "P(u)")]), ("P(3)", [("u", "P(u)")])],
        ),
        ("1 EXIST u (P(u) v !P(u))", [("", [("u", "P(u)"), ("u", "!P(u)")])]),
        ("1 EXIST u (P(u) ^ !P(u))", []),
    ],
)
def test_clauses_with_existential_parts(text, expected):
    found = [
        (spelled(part), [(" ".join(each.variables), spelled(each)) for each in part.exists])
        for part in clauses(parse(EVENTS + text))
    ]
    if "<=> (EXIST u P(u))" in text:
        assert len(found) == 2
        return
    assert found == expected


def test_an_existential_part_counts_as_one_literal_but_not_as_a_unit():
    parts = clauses(parse(EVENTS + "3 P(t) ^ P(u) ^ (EXIST w F(t,w))"))
    assert [(part.text, part.weight, part.sign) for part in parts] == [
        ("P(t) ^ P(u)", 1.5, -1),
        ("EXIST w (F(t, w))", 1.5, 1),
    ]


def test_what_an_existential_part_shares_with_a_negated_copy_is_renamed():
    (first, second) = clauses(parse(EVENTS + "((EXIST u F(u,u) ^ P(u)) <=> P(3)) <=> P(4)."))[1:3]
    for part in (first, second):
        own = {name for each in part.exists for name in each.variables}
        outer = {term.name for each in part.literals for term in each.atom.terms}
        assert not own & outer


def test_what_must_be_there_or_is_not_takes_no_share():
    parts = clauses(parse(EVENTS + "2 !((EXIST u P(u)) <=> P(3))"))
    assert [(part.text, part.weight) for part in parts] == [
        ("(EXIST u (P(u))) v P(3)", 1.0),
        ("!P(3) v !P(u)", 1.0),
    ]


def test_lines_with_quantifiers_are_a_family():
    lines = [f"{n} P(A{n}) => EXIST u (F(A{n}, u) ^ P(u))" for n in range(9)]
    (family,) = parse(EVENTS + "\n".join(lines)).rules
    assert family.text == "P(+c1) => (EXIST u (F(+c1, u) ^ P(u)))"
    assert dict(family.types) == {"c1": "time", "u": "time"}
    (clause,) = clauses(parse(EVENTS + "\n".join(lines)))
    assert clause.template == ("c1",)
    assert clause.domains == ()
