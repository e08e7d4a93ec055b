"""Clauses of the whole language mean what their formulas mean, in every small world."""

from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.logic.ast import Atom, Constant, Or, Position, Rule, Variable, bound_variables, terms
from onlinesrl.logic.cnf import misplaced_universal
from onlinesrl.logic.text import show
from onlinesrl.mln.lang.clausal_form import rule_clauses
from onlinesrl.mln.lang.reader import parse
from tests.support.quantified_formulas import CONSTANTS, DECLARATIONS, formulas, with_atoms, worlds
from tests.support.semantics import ranging

supported = formulas().filter(lambda formula: misplaced_universal(formula) is None)


def rule_of(formula, *, hard):
    names = [leaf.name for leaf in terms(formula) if isinstance(leaf, Variable)]
    types = tuple((name, "t") for name in dict.fromkeys([*names, *bound_variables(formula)]))
    return Rule(formula, None if hard else 1.0, hard, Position(1, 1), "", types=types)


def free(formula):
    bound = set(bound_variables(formula))
    names = [leaf.name for leaf in terms(formula) if isinstance(leaf, Variable)]
    return [name for name in dict.fromkeys(names) if name not in bound]


@given(supported, st.lists(worlds(), min_size=4, max_size=4))
def test_a_hard_formula_holds_where_all_its_clauses_hold(formula, chosen):
    parts = rule_clauses(rule_of(formula, hard=True))
    for world in chosen:
        truth = all(world.holds(formula, each) for each in world.bindings(free(formula)))
        assert truth == all(value for part in parts for _, value in world.clause_values(part))


@given(supported, st.lists(worlds(), min_size=4, max_size=4))
def test_one_soft_clause_is_true_where_its_formula_is(formula, chosen):
    parts = rule_clauses(rule_of(formula, hard=False))
    own = free(formula)
    if len(parts) != 1 or len(rule_clauses(rule_of(formula, hard=True))) != (
        1 if parts[0].sign > 0 else len(parts[0].literals)
    ):
        return
    (part,) = parts
    if {*bound_variables(formula)} & {*ranging(part)}:
        return  # a universal quantifier: each of its groundings counts
    for world in chosen:
        truths = {}
        for binding, value in world.clause_values(part):
            for rest in world.bindings([name for name in own if name not in binding]):
                key = tuple((binding | rest)[name] for name in own)
                truths[key] = truths.get(key, True) and value
        for binding in world.bindings(own):
            clause = truths.get(tuple(binding.values()), True)
            assert world.holds(formula, binding) == (clause == (part.sign > 0))


@given(supported)
def test_clauses_are_flat_and_their_variables_apart(formula):
    for part in rule_clauses(rule_of(formula, hard=True)):
        leaves = [
            t for body in (part, *part.exists) for lit in body.literals for t in lit.atom.terms
        ]
        assert all(isinstance(leaf, Variable | Constant) for leaf in leaves)
        own = {leaf.name for lit in part.literals for leaf in lit.atom.terms}
        for existential in part.exists:
            assert not own & set(existential.variables) - set(CONSTANTS)
            assert not {name for name, _ in part.domains} & set(existential.variables)
            assert {name for name, _ in existential.domains} <= set(existential.variables)


@given(supported)
def test_formulas_read_back_as_they_are_written(formula):
    atoms = [Atom("P", (Variable(name),)) for name in ("x", "y")]
    whole = Or((*atoms, with_atoms(formula)))
    (rule,) = parse(f"{DECLARATIONS}1 {show(whole)}").rules
    assert rule.formula == whole
    assert dict(rule.types) == dict.fromkeys(["x", "y", *bound_variables(formula)], "t")
