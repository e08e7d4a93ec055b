"""Functions, integers and comparisons: how they read, and what clauses make of them."""

import pytest

from onlinesrl.logic.ast import (
    Arithmetic,
    Atom,
    Compare,
    Constant,
    Equal,
    Function,
    FunctionType,
    Not,
    Predicate,
    Variable,
)
from onlinesrl.logic.text import show, show_term
from onlinesrl.mln.lang.clausal_form import clauses
from onlinesrl.mln.lang.reader import parse

EVENTS = """
time = {0, ..., 4}
event walking(id)
fluent meet(id, id)
id boss(id)
Happens(event, time)
HoldsAt(fluent, time)
Next(time, time)
Close(id, id, dist, time)
P(time)
F(time, time)
"""


def spelled(body):
    """A clause or existential part in short."""
    parts = [
        ("" if each.positive else "!")
        + f"{each.atom.predicate}({','.join(map(show_term, each.atom.terms))})"
        for each in body.literals
    ]
    parts += [f"{x.name}{'=' if sign else '!='}{y.name}" for sign, x, y in body.equalities]
    parts += [f"{'' if sign else '!'}{x.name}{op}{y.name}" for sign, op, x, y in body.comparisons]
    parts += [f"{name.name}:={x.name}{op}{y.name}" for name, op, x, y in body.computed]
    parts += [f"{name}:{type_}" for name, type_ in body.domains]
    return " ".join(parts)


def normal(text):
    return [spelled(each) for each in clauses(parse(EVENTS + text))]


def test_a_function_is_declared_with_its_result_first_and_is_a_relation_too():
    program = parse(EVENTS)
    assert program.functions == {
        "walking": FunctionType("walking", ("id",), "event"),
        "meet": FunctionType("meet", ("id", "id"), "fluent"),
        "boss": FunctionType("boss", ("id",), "id"),
    }
    assert program.predicates["meet"] == Predicate("meet", ("id", "id", "fluent"))
    assert list(program.predicates)[:4] == ["walking", "meet", "boss", "Happens"]
    assert program.types["time"] == ("0", "1", "2", "3", "4")
    assert program.types["event"] == ()


def test_terms_nest_in_atoms_and_equalities():
    (rule,) = parse(
        EVENTS + "1 Happens(walking(boss(x)), t) => HoldsAt(meet(x, Zoe), 3) v x != boss(+y)"
    ).rules
    x, y, t = Variable("x"), Variable("y", plus=True), Variable("t")
    happens = Atom("Happens", (Function("walking", (Function("boss", (x,)),)), t))
    assert rule.formula.left == happens
    assert rule.formula.right.operands == (
        Atom("HoldsAt", (Function("meet", (x, Constant("Zoe"))), Constant("3"))),
        Not(Equal(x, Function("boss", (y,)))),
    )
    assert dict(rule.types) == {"x": "id", "t": "time", "y": "id"}
    assert parse(EVENTS + f"1 {show(rule.formula)}").rules[0].formula == rule.formula


def test_constants_have_the_types_of_their_places():
    program = parse(
        EVENTS + "1 HoldsAt(meet(Anna, x), t) ^ boss(x) = Bob ^ t < 17 ^ P(t + 23) ^ t = 31"
    )
    assert program.types["id"] == ("Anna", "Bob")
    assert program.types["time"] == ("0", "1", "2", "3", "4", "31")


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("t + 1", Arithmetic("+", Variable("t"), Constant("1"))),
        ("t+1", Arithmetic("+", Variable("t"), Constant("1"))),
        ("t - 1", Arithmetic("-", Variable("t"), Constant("1"))),
        ("t -1", Arithmetic("-", Variable("t"), Constant("1"))),
        ("t - -1", Arithmetic("-", Variable("t"), Constant("-1"))),
        ("t++", Arithmetic("+", Variable("t"), Constant("1"))),
        ("t--", Arithmetic("-", Variable("t"), Constant("1"))),
        ("succ(t)", Arithmetic("+", Variable("t"), Constant("1"))),
        ("3 + +t", Arithmetic("+", Constant("3"), Variable("t", plus=True))),
        (
            "1 + t * 2 - t",
            Arithmetic(
                "-",
                Arithmetic("+", Constant("1"), Arithmetic("*", Variable("t"), Constant("2"))),
                Variable("t"),
            ),
        ),
        (
            "(1 + t) % (t / 2)",
            Arithmetic(
                "%",
                Arithmetic("+", Constant("1"), Variable("t")),
                Arithmetic("/", Variable("t"), Constant("2")),
            ),
        ),
    ],
)
def test_arithmetic(text, term):
    (rule,) = parse(EVENTS + f"1 P({text}) ^ P(t)").rules
    plus = "+t" in text
    assert rule.formula.operands == (Atom("P", (term,)), Atom("P", (Variable("t", plus),)))
    assert parse(EVENTS + f"1 P({show_term(term)}) ^ P(t)").rules[0].formula == rule.formula


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("t > 2", Compare(">", Variable("t"), Constant("2"))),
        ("t >= 2", Compare(">=", Variable("t"), Constant("2"))),
        ("t <= 2", Compare("<=", Variable("t"), Constant("2"))),
        ("t =< 2", Compare("<=", Variable("t"), Constant("2"))),
        ("!t < -2", Not(Compare("<", Variable("t"), Constant("-2")))),
        ("(t + 1) * 2 = t", None),
        ("1 + t != t", None),
    ],
)
def test_comparisons(text, formula):
    (rule,) = parse(EVENTS + f"{text} v P(t).").rules
    assert rule.hard
    assert formula in {None, rule.formula.operands[0]}
    assert parse(EVENTS + f"{show(rule.formula)}.").rules[0].formula == rule.formula


@pytest.mark.parametrize(
    ("line", "weight"),
    [
        ("1 t = 3 v P(t)", 1.0),
        ("1 = t v P(t)", None),
        ("1 + t = 3 v P(t)", None),
        ("1 3 * t = 3 v P(t)", 1.0),
        ("12 < t v P(t)", None),
        ("12 -3 < t v P(t)", 12.0),
        ("-1.5e-1 P(t)", -0.15),
        ("12 *P(t)", 12.0),
        ("12 * t < 3 v P(t)", None),
    ],
)
def test_a_number_that_begins_a_rule_is_its_weight_unless_an_operator_follows(line, weight):
    assert {rule.weight for rule in parse(EVENTS + line).rules} == {weight}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "1 Happens(walking(a), t) ^ Next(u, t) => HoldsAt(meet(a, b), u)",
            "!Happens(walking1,t) !Next(u,t) HoldsAt(meet1,u) !walking(a,walking1)"
            " !meet(a,b,meet1)",
        ),
        (
            "1 Happens(walking(boss(x)), t) => HoldsAt(meet(boss(x), x), t)",
            "!Happens(walking1,t) HoldsAt(meet1,t) !boss(x,boss1) !walking(boss1,walking1)"
            " !meet(boss1,x,meet1)",
        ),
        (
            "Happens(e, t) ^ e = walking(a) => P(t).",
            "!Happens(e,t) P(t) !walking(a,e)",
        ),
        (
            "Happens(e, t) => e = walking(Anna).",
            "!Happens(e,t) !walking(Anna,walking1) e=walking1",
        ),
        (
            "1 Happens(e, t) ^ walking(a) = walking(b) => P(t)",
            "!Happens(e,t) P(t) !walking(a,walking1) !walking(b,walking2) walking1!=walking2",
        ),
        ("1 P(t) => P(t + 1)", "!P(t) P(t1) t1:=t+1"),
        ("1 P(t) ^ u = t + 1 => P(u)", "!P(t) P(u) u:=t+1"),
        ("P(t) ^ P(u) => u != t + 1.", "!P(t) !P(u) u:=t+1"),
        ("P(t) ^ P(u) => u = t + 1.", "!P(t) !P(u) u=t1 t1:=t+1"),
        ("P(t) ^ t != t + 1 => P(3).", "!P(t) P(3) t=t1 t1:=t+1"),
        ("1 P(succ(t)) ^ P((t + 1) * 2)", "!P(t1) !P(n1) t1:=t+1 n1:=t1*2 t:time"),
        ("1 P(t) ^ t + 1 > 3 - t => F(t, 0)", "!P(t) F(t,0) !t1>n1 t1:=t+1 n1:=3-t"),
        ("1 P(t) ^ !(t < u) ^ P(u)", "!P(t) !P(u) t<u"),
        ("1 P(t) ^ x = t + 1 ^ y = x + 1 => P(y)", "!P(t) P(y) x:=t+1 y:=x+1 x:time"),
        ("1 P(t1) => P(t1 + 1) ^ P(t11)", None),
    ],
)
def test_clauses_hold_variables_and_constants_only(text, expected):
    found = normal(text)
    assert expected is None or found == [expected]
    assert all("(" not in term for clause in clauses(parse(EVENTS + text)) for term in flat(clause))


def flat(clause):
    return [show_term(term) for literal in clause.literals for term in literal.atom.terms]


def test_new_variables_avoid_the_names_that_are_taken():
    assert normal("1 P(t1) ^ F(t1, t11) => P(t1 + 1)") == ["!P(t1) !F(t1,t11) P(t12) t12:=t1+1"]


def test_every_clause_of_a_formula_names_its_own_terms():
    assert normal("HoldsAt(meet(a, b), t) <=> P(t + 1).") == [
        "!HoldsAt(meet1,t) P(t1) !meet(a,b,meet1) t1:=t+1",
        "!P(t1) HoldsAt(meet1,t) !meet(a,b,meet1) t1:=t+1",
    ]
    assert normal("HoldsAt(meet(a, b), t) ^ t < 3.") == [
        "HoldsAt(meet1,t) !meet(a,b,meet1)",
        "t<3 t:time",
    ]


def test_a_conjunction_with_functions_stays_one_clause():
    (clause,) = clauses(parse(EVENTS + "2 Happens(walking(a), t) ^ HoldsAt(meet(a, b), t)"))
    assert (clause.sign, clause.weight) == (-1, 2.0)
    assert spelled(clause) == (
        "!Happens(walking1,t) !HoldsAt(meet1,t) !walking(a,walking1) !meet(a,b,meet1)"
    )
    assert clause.text == "Happens(walking(a), t) ^ HoldsAt(meet(a, b), t)"


def test_comparisons_of_numbers_are_decided():
    assert normal("1 P(t) ^ 3 < 2") == []
    assert normal("1 P(t) ^ 2 <= 2 ^ -3 < 12") == ["P(t)"]
    assert normal("1 P(t) v 12 >= 3") == []
    assert normal("1 P(t) v t > t") == ["P(t)"]


def test_families_have_holes_in_functions_but_not_in_numbers():
    lines = [f"{n} Happens(walking(A{n}), t) ^ P(t + 1)" for n in range(9)]
    (family,) = parse(EVENTS + "\n".join(lines)).rules
    assert family.text == "Happens(walking(+c1), t) ^ P(t + 1)"
    assert family.table[3] == (("A3",), 3.0)
    assert dict(family.types) == {"t": "time", "c1": "id"}
    lines = [f"{n} Happens(walking(A), t) ^ P(t + {n})" for n in range(9)]
    assert len(parse(EVENTS + "\n".join(lines)).rules) == 9
    lines = [f"{n} Happens(walking(A{n}), t) ^ P(t + {n})" for n in range(9)]
    assert len(parse(EVENTS + "\n".join(lines)).rules) == 9
    lines = [f"{n} F({n}, t) ^ P(t + {n})" for n in range(9)]
    (family,) = parse(EVENTS + "\n".join(lines)).rules
    assert family.text == "F(+c1, t) ^ P(t + +c1)"
