"""Formulas and their clauses: the same truth, and Alchemy's shares of the weight."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.logic.ast import And, Atom, Equal, Iff, Implies, Not, Or, Position, Rule, Variable
from onlinesrl.logic.cnf import disjunctions
from onlinesrl.mln.lang.clausal_form import Literal, clauses, rule_clauses
from onlinesrl.mln.lang.reader import parse
from tests.support.random_formulas import compound

ATOMS = [Atom(name, ()) for name in "ABCD"]
VARIABLES = [Variable(name) for name in "xyz"]

propositional = compound(st.sampled_from(ATOMS))
with_equality = compound(
    st.sampled_from(ATOMS)
    | st.builds(Equal, st.sampled_from(VARIABLES), st.sampled_from(VARIABLES))
)


def rule_of(formula, *, hard=False, weight=1.0):
    return Rule(formula, None if hard else weight, hard, Position(1, 1), "")


def worlds():
    for values in product([False, True], repeat=len(ATOMS)):
        yield dict(zip(ATOMS, values, strict=True))


def groundings():
    for values in product(range(3), repeat=len(VARIABLES)):
        yield dict(zip(VARIABLES, values, strict=True))


def holds(formula, world, grounding):
    """The truth of a formula, by its definition."""
    match formula:
        case Atom():
            truth = world[formula]
        case Equal(left, right):
            truth = grounding[left] == grounding[right]
        case Not(operand):
            truth = not holds(operand, world, grounding)
        case And(operands):
            truth = all(holds(each, world, grounding) for each in operands)
        case Or(operands):
            truth = any(holds(each, world, grounding) for each in operands)
        case Implies(left, right):
            truth = holds(left, world, grounding) <= holds(right, world, grounding)
        case Iff(left, right):
            truth = holds(left, world, grounding) == holds(right, world, grounding)
    return truth


def satisfied(clause, world, grounding):
    """The truth of a clause, by its definition."""
    literals = any(world[each.atom] == each.positive for each in clause.literals)
    equalities = any((grounding[x] == grounding[y]) == sign for sign, x, y in clause.equalities)
    return literals or equalities


@given(with_equality)
def test_a_hard_formula_holds_where_all_its_clauses_hold(formula):
    parts = rule_clauses(rule_of(formula, hard=True))
    for world, grounding in product(worlds(), groundings()):
        assert holds(formula, world, grounding) == all(
            satisfied(part, world, grounding) for part in parts
        )


@given(propositional)
def test_a_soft_formula_holds_where_all_its_clauses_score_most(formula):
    parts = rule_clauses(rule_of(formula))
    truths = [holds(formula, world, {}) for world in worlds()]
    best = [
        all(satisfied(part, world, {}) == (part.sign > 0) for part in parts) for world in worlds()
    ]
    assert best == truths or (not parts and len(set(truths)) == 1)


@given(with_equality, st.floats(-4, 4))
def test_one_soft_clause_scores_as_its_formula_up_to_a_constant(formula, weight):
    """What has no atom is constant in a grounding and left out, unless it stands with another unit."""
    parts = rule_clauses(rule_of(formula, weight=weight))
    if any(
        len(x) > 1 and not any(isinstance(y, Literal) for y in x) for x in disjunctions(formula)
    ):
        return
    if len(parts) > 1:
        assert sum(part.weight for part in parts) == pytest.approx(weight)
        return
    for grounding in groundings():
        differences = {
            sum(part.weight * part.sign * satisfied(part, world, grounding) for part in parts)
            - weight * holds(formula, world, grounding)
            for world in worlds()
        }
        assert max(differences) == pytest.approx(min(differences))


@given(with_equality, st.booleans())
def test_clauses_have_no_tautologies_and_no_repetitions(formula, hard):
    parts = rule_clauses(rule_of(formula, hard=hard))
    contents = [(part.sign, frozenset(part.literals), frozenset(part.equalities)) for part in parts]
    assert len(set(contents)) == len(contents)
    for part in parts:
        assert len({each.atom for each in part.literals}) == len(part.literals)
        assert hard or part.literals


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


def test_every_conjunct_of_a_hard_formula_is_a_clause():
    assert texts("P(x) ^ Q(x).") == [("P(x)", None, 1), ("Q(x)", None, 1)]


def test_an_equivalence_shares_its_weight():
    assert texts("3 P(x) <=> Q(x)") == [
        ("!P(x) v Q(x)", 1.5, 1),
        ("!Q(x) v P(x)", 1.5, 1),
    ]


def test_one_clause_keeps_the_text_of_its_rule():
    assert texts("-1 P(x)   =>   Q(x)") == [("P(x)   =>   Q(x)", -1.0, 1)]
    assert texts("-1 P(x)  ^  Q(x)") == [("P(x)  ^  Q(x)", -1.0, -1)]


def test_a_weightless_formula_has_weightless_clauses():
    assert texts("P(x) <=> Q(x)") == [("!P(x) v Q(x)", None, 1), ("!Q(x) v P(x)", None, 1)]


def test_equalities_stand_beside_the_literals():
    (clause,) = clauses(parse("F(t,t)\nF(x,y) ^ F(x,z) => y = z."))
    assert clause.literals == (
        Literal(False, Atom("F", (Variable("x"), Variable("y")))),
        Literal(False, Atom("F", (Variable("x"), Variable("z")))),
    )
    assert clause.equalities == ((True, Variable("y"), Variable("z")),)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
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
def test_what_cannot_change_is_left_out(program, expected):
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
