"""Clauses: terms, arithmetic and quantifiers read and flattened; Alchemy's shares of the weight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.logic.ast import (
    And,
    Arithmetic,
    Atom,
    Constant,
    Equal,
    Exists,
    Forall,
    Function,
    FunctionType,
    Implies,
    Not,
    Position,
    Predicate,
    Rule,
    Variable,
)
from onlinesrl.logic.text import show, show_term
from onlinesrl.mln.lang.clausal_form import clauses, rule_clauses
from onlinesrl.mln.lang.reader import parse
from tests.support.random_formulas import compound

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
        ("Happens(e, t) ^ e = walking(a) => P(t).", "!Happens(e,t) P(t) !walking(a,e)"),
        ("Happens(e, t) => e = walking(Anna).", "!Happens(e,t) !walking(Anna,walking1) e=walking1"),
        (
            "1 Happens(e, t) ^ walking(a) = walking(b) => P(t)",
            "!Happens(e,t) P(t) !walking(a,walking1) !walking(b,walking2) walking1!=walking2",
        ),
        ("1 P(t) ^ u = t + 1 => P(u)", "!P(t) P(u) u:=t+1"),
        ("P(t) ^ P(u) => u != t + 1.", "!P(t) !P(u) u:=t+1"),
        ("P(t) ^ P(u) => u = t + 1.", "!P(t) !P(u) u=t1 t1:=t+1"),
        ("P(t) ^ t != t + 1 => P(3).", "!P(t) P(3) t=t1 t1:=t+1"),
        ("1 P(succ(t)) ^ P((t + 1) * 2)", "!P(t1) !P(n1) t1:=t+1 n1:=t1*2 t:time"),
        ("1 P(t) ^ t + 1 > 3 - t => F(t, 0)", "!P(t) F(t,0) !t1>n1 t1:=t+1 n1:=3-t"),
        ("1 P(t) ^ !(t < u) ^ P(u)", "!P(t) !P(u) t<u"),
        ("1 P(t) ^ x = t + 1 ^ y = x + 1 => P(y)", "!P(t) P(y) x:=t+1 y:=x+1 x:time"),
        ("1 P(t1) ^ F(t1, t11) => P(t1 + 1)", "!P(t1) !F(t1,t11) P(t12) t12:=t1+1"),
        ("1 P(t) ^ 3 < 2", None),
        ("1 P(t) ^ 2 <= 2 ^ -3 < 12", "P(t)"),
        ("1 P(t) v 12 >= 3", None),
        ("1 P(t) v t > t", "P(t)"),
    ],
)
def test_clauses_hold_variables_and_constants_only(text, expected):
    assert normal(text) == ([] if expected is None else [expected])
    assert all("(" not in term for clause in clauses(parse(EVENTS + text)) for term in flat(clause))


def flat(clause):
    return [show_term(term) for literal in clause.literals for term in literal.atom.terms]


def test_every_clause_of_a_formula_names_its_own_terms():
    assert normal("HoldsAt(meet(a, b), t) <=> P(t + 1).") == [
        "!HoldsAt(meet1,t) P(t1) !meet(a,b,meet1) t1:=t+1",
        "!P(t1) HoldsAt(meet1,t) !meet(a,b,meet1) t1:=t+1",
    ]
    assert normal("HoldsAt(meet(a, b), t) ^ t < 3.") == [
        "HoldsAt(meet1,t) !meet(a,b,meet1)",
        "t<3 t:time",
    ]


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
        ("1 (EXIST u F(t,u)) => P(t)", [("!F(t,u) P(t)", [])]),
        ("1 (FORALL u F(t,u)) => P(t)", [("P(t)", [("u", "!F(t,u)")])]),
        ("1 EXIST u (EXIST w (F(u,w) ^ P(w)))", [("", [("u w", "F(u,w) P(w)")])]),
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
        ("1 P(t) => EXIST u (F(t,u) ^ P(u + 1))", [("!P(t)", [("u u1", "F(t,u) P(u1) u1:=u+1")])]),
        ("P(t) <=> (EXIST u F(t,u)).", [("!P(t)", [("u", "F(t,u)")]), ("!F(t,u) P(t)", [])]),
        ("1 (EXIST u P(u)) v !(EXIST w P(w))", [("!P(w)", [("u", "P(u)")])]),
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
    assert found == expected


def test_an_existential_part_counts_as_one_literal_but_not_as_a_unit():
    parts = clauses(parse(EVENTS + "3 P(t) ^ P(u) ^ (EXIST w F(t,w))"))
    assert [(part.text, part.weight, part.sign) for part in parts] == [
        ("P(t) ^ P(u)", 1.5, -1),
        ("EXIST w (F(t, w))", 1.5, 1),
    ]


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


ATOMS = [Atom(name, ()) for name in "ABCD"]
propositional = compound(st.sampled_from(ATOMS))


def rule_of(formula, *, hard=False, weight=1.0):
    return Rule(formula, None if hard else weight, hard, Position(1, 1), "")


@given(propositional, st.floats(-4, 4), st.booleans())
def test_clauses_share_the_weight_without_tautologies_and_repetitions(formula, weight, hard):
    parts = rule_clauses(rule_of(formula, hard=hard, weight=weight))
    contents = [(part.sign, frozenset(part.literals)) for part in parts]
    assert len(set(contents)) == len(contents)
    for part in parts:
        assert len({each.atom for each in part.literals}) == len(part.literals)
        assert hard or part.literals
    if parts and not hard:
        assert sum(part.weight for part in parts) == pytest.approx(weight)


def texts(program):
    return [
        (each.text, each.weight, each.sign)
        for each in clauses(parse("P(t)\nQ(t)\nR(t)\nS(t)\nF(t,t)\n" + program))
    ]


def test_unit_clauses_of_a_soft_formula_count_as_their_conjunction():
    assert texts("2.5 P(x) ^ Q(x) ^ (R(x) v S(x))") == [
        ("P(x) ^ Q(x)", 1.25, -1),
        ("R(x) v S(x)", 1.25, 1),
    ]
    (first, _) = clauses(parse("P(t)\nQ(t)\nR(t)\nS(t)\n2.5 P(x) ^ !Q(x) ^ (R(x) v S(x))"))
    assert [(each.positive, each.atom.predicate) for each in first.literals] == [
        (False, "P"),
        (True, "Q"),
    ]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("P(x) ^ Q(x).", [("P(x)", None, 1), ("Q(x)", None, 1)]),
        ("3 P(x) <=> Q(x)", [("!P(x) v Q(x)", 1.5, 1), ("!Q(x) v P(x)", 1.5, 1)]),
        ("P(x) <=> Q(x)", [("!P(x) v Q(x)", None, 1), ("!Q(x) v P(x)", None, 1)]),
        ("1 P(x) v !P(x)", []),
        ("1 P(x) v P(x)", [("P(x) v P(x)", 1.0, 1)]),
        ("1 P(x) ^ !P(x)", []),
        ("1 P(x) ^ A = B", []),
        ("1 P(x) ^ A != B", [("P(x) ^ A != B", 1.0, 1)]),
        ("1 P(x) v x != x", [("P(x) v x != x", 1.0, 1)]),
        ("P(x) v x = x.", []),
        ("P(x) ^ A = B.", [("P(x)", None, 1), ("false", None, 1)]),
    ],
)
def test_weights_are_shared_and_what_cannot_change_is_left_out(program, expected):
    assert texts(program) == expected


def test_the_template_has_all_plus_variables_of_the_formula():
    first, second = clauses(parse("F(t,t)\n1 F(x, +a) <=> F(+b, +a) ^ F(x, x)"))[:2]
    assert first.template == second.template == ("a", "b")


def test_a_family_shares_out_its_table():
    lines = "\n".join(f"{n} P(C{n}) <=> Q(C{n})" for n in range(1, 10))
    parts = clauses(parse(f"P(t)\nQ(t)\n{lines}"))
    assert [part.rule for part in parts] == [0, 0]
    for part in parts:
        assert part.template == ("c1",)
        assert part.table == tuple(((f"C{n}",), n / 2) for n in range(1, 10))
        assert part.weight == 0.0
