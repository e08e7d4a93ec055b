"""PSL's rules as linear forms: Lukasiewicz's and Boolean logic, and what PSL grounds."""

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onlinesrl.logic.ast import And, Atom, Implies, Not, Or, Position, Variable
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.psl.lang.ast import Cardinality, LogicalRule, Number, Operation
from onlinesrl.psl.lang.linear_form import (
    LinearTerm,
    NormalRule,
    Summation,
    normal_forms,
    normal_rules,
)
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.lang.text import show_coefficient, show_psl_atom
from tests.support.naive_psl_grounder import ground
from tests.support.paths import SHARED

SHARED = SHARED / "peers" / "psl"
X, Y, Z = (Variable(name) for name in "XYZ")


def forms(text, **options):
    return normal_rules(parse(text, **options))


def linear(form):
    """Spell a form's left side."""
    terms = (f"{show_coefficient(x.coefficient)} {show_psl_atom(x.atom)}" for x in form.terms)
    return " + ".join((*terms, show_coefficient(form.constant)))


def test_a_clause():
    (form,) = forms(
        "2: A(X) & !B(X) & X != Y & X % Z & A(Y) & A(Z) & Near(X, Y) -> C(X) | D(Y) ^2",
        functions=["Near"],
    )
    one, minus = Number(1.0), Number(-1.0)
    assert form == NormalRule(
        rule=0,
        joins=tuple(LinearTerm(one, Atom("A", (each,))) for each in (X, Y, Z)),
        sums=(),
        lookups=tuple(
            LinearTerm(minus, Atom(name, (each,))) for name, each in (("B", X), ("C", X), ("D", Y))
        ),
        computed=(LinearTerm(one, Atom("Near", (X, Y))),),
        comparisons=(Compared(False, "=", X, Y), Compared(True, "%", X, Z)),
        summations=(),
        constant=Number(-3.0),
        weight=2.0,
        power=2,
    )


def test_a_sum():
    (form,) = forms("|Y| * A(X) - B(X, +Y) >= 2 . {Y: (C(Y) | X == Y) & !D(Y)}")
    filtered = ((Literal(True, Atom("C", (Y,))),), (Compared(True, "=", X, Y),))
    assert form.joins == (
        LinearTerm(Operation("*", Number(-1.0), Cardinality("Y")), Atom("A", (X,))),
    )
    assert form.sums == (LinearTerm(Number(1.0), Atom("B", (X, Variable("Y", plus=True)))),)
    assert form.summations == (
        Summation("Y", tuple((*each, Literal(False, Atom("D", (Y,)))) for each in filtered)),
    )
    assert (form.constant, form.weight, form.equality) == (Number(2.0), None, False)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("1: !A(X)", ["1 A(X) + 0"]),
        ("1: A('a')", ["-1 A('a') + 1"]),
        ("1: A(X) -> B(X) & C(X)", ["1 A(X) + -1 B(X) + 0", "1 A(X) + -1 C(X) + 0"]),
        ("1: A(X) | B(X) -> C(X)", ["1 A(X) + -1 C(X) + 0", "1 B(X) + -1 C(X) + 0"]),
        ("1: A(X) & B(X) -> A(X)", []),
        ("1: A(X) & A(X) -> B(X)", ["1 A(X) + -1 B(X) + 0"]),
        ("1: A(X) = B(X)", ["1 A(X) + -1 B(X) + 0", "-1 A(X) + 1 B(X) + 0"]),
        ("A(X) = B(X) .", ["1 A(X) + -1 B(X) + 0"]),
        ("1: A(X) >= 0.25", ["-1 A(X) + 0.25"]),
        ("A(X) + 2 <= 3 * A(X) .", ["-2 A(X) + 2"]),
        ("A(X, +Y) <= 1 .", ["1 A(X, +Y) + -1"]),
    ],
)
def test_linear_forms(text, spelled):
    found = forms(text)
    assert [linear(each) for each in found] == spelled
    assert all(
        each.equality == ("=" in text and text.endswith(".") and "<" not in text) for each in found
    )
    assert {each.rule for each in found} <= {0}


# Logic. The formulas have no variables, so that a ground row is the whole rule.

ATOMS = [Atom(name, ()) for name in "ABCDE"]
truths = st.tuples(*[st.floats(0, 1)] * len(ATOMS)).map(
    lambda row: dict(zip(ATOMS, row, strict=True))
)


def compound(most):
    return st.recursive(
        st.sampled_from(ATOMS),
        lambda parts: st.one_of(
            st.builds(Not, parts),
            st.builds(And, st.lists(parts, min_size=2, max_size=3).map(tuple)),
            st.builds(Or, st.lists(parts, min_size=2, max_size=3).map(tuple)),
            st.builds(Implies, parts, parts),
        ),
        max_leaves=most,
    )


def lukasiewicz(formula, truth):
    """Equations 2.8 to 2.10 of seed 003."""
    match formula:
        case Atom():
            return truth[formula]
        case Not(part):
            return 1 - lukasiewicz(part, truth)
        case And(parts):
            return max(0, sum(lukasiewicz(each, truth) for each in parts) - len(parts) + 1)
        case Or(parts):
            return min(1, sum(lukasiewicz(each, truth) for each in parts))
        case Implies(left, right):
            return min(1, 1 - lukasiewicz(left, truth) + lukasiewicz(right, truth))


def hinges(formula, truth):
    rule = LogicalRule(formula, 1.0, 1, Position(1, 1), "")
    return [
        max(0.0, form.constant.value + sum(x.coefficient.value * truth[x.atom] for x in form.terms))
        for form in normal_forms(rule, 0, ())
    ]


literals = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.booleans()), unique_by=lambda x: x[0].predicate
)


def signed(some):
    return tuple(atom if positive else Not(atom) for atom, positive in some)


@given(literals, st.integers(0, 5), truths)
def test_a_clause_is_its_distance_to_satisfaction(some, cut, truth):
    body, head = signed(some[:cut]), signed(some[cut:])
    assume(body and head)
    formula = Implies(
        And(body) if len(body) > 1 else body[0], Or(head) if len(head) > 1 else head[0]
    )
    (hinge,) = hinges(formula, truth)
    assert hinge == pytest.approx(1 - lukasiewicz(formula, truth), abs=1e-12)


@given(compound(7))
def test_on_zero_and_one_the_forms_are_boolean_logic(formula):
    for values in product((0, 1), repeat=len(ATOMS)):
        truth = dict(zip(ATOMS, values, strict=True))
        assert (max(hinges(formula, truth), default=0) == 0) == (lukasiewicz(formula, truth) == 1)


# Against PSL.

OBSERVED = {("A", ("a",)): 0.5, ("A", ("b",)): 1.0, ("C", ("a",)): 0.5, ("C", ("b",)): 0.0}
TARGETS = {("T", ("a",)), ("T", ("b",)), ("U", ("a", "b")), ("U", ("b", "a")), ("U", ("b", "b"))}


def grounded(text, **functions):
    found = [
        ({f"{name}({', '.join(row)})": value for (name, row), value in terms.items()}, constant)
        for form in forms(text, functions=functions)
        for terms, constant in ground(form, OBSERVED, TARGETS, functions)
    ]
    return sorted(found, key=lambda each: sorted(each[0]))


def test_ground_rules_as_in_psl():
    assert grounded("1: A(X) -> T(X)") == [({"T(a)": -1}, 0.5), ({"T(b)": -1}, 1.0)]
    assert grounded("1: A(X) & A(Y) & X % Y -> U(X, Y)") == [({"U(a, b)": -1}, 0.5)]
    assert grounded("1: T(X) & Half(X) -> A(X)", Half=lambda _: 0.75) == [({"T(a)": 1}, -0.75)]
    assert grounded("U(X, +Y) = 1 .") == [({"U(a, b)": 1}, -1), ({"U(b, a)": 1, "U(b, b)": 1}, -1)]


def test_a_group_without_a_row_is_no_ground_rule():
    assert grounded("U(X, +Y) = |Y| . {Y: C(Y)}") == [({"U(b, a)": 1}, -1)]
