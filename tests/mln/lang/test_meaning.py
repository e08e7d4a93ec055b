"""Clauses of the whole language mean what their formulas mean, in every small world."""

from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.logic.ast import (
    And,
    Arithmetic,
    Atom,
    Compare,
    Constant,
    Equal,
    Exists,
    Forall,
    Function,
    Iff,
    Implies,
    Not,
    Or,
    Position,
    Rule,
    Variable,
    bound_variables,
    subformulas,
    terms,
)
from onlinesrl.logic.cnf import misplaced_universal
from onlinesrl.logic.text import show
from onlinesrl.mln.lang.clausal_form import rule_clauses
from onlinesrl.mln.lang.reader import parse
from tests.support.semantics import World, ranging

DECLARATIONS = "t = {0, 1}\nP(t)\nQ(t, t)\nRain\nt f(t)\nt g(t, t)\n"
CONSTANTS = ("0", "1")


@st.composite
def simple_terms(draw, scope, depth=2):
    """Terms whose value is 0 or 1."""
    kind = draw(st.sampled_from(["variable"] * 4 + ["constant", "f", "g", "*", "%"]))
    if depth == 0 or kind == "variable":
        return Variable(draw(st.sampled_from(scope)))
    if kind == "constant":
        return Constant(draw(st.sampled_from(CONSTANTS)))
    first = draw(simple_terms(scope, depth - 1))
    if kind == "f":
        return Function("f", (first,))
    if kind == "%":
        return Arithmetic("%", first, Constant("2"))
    second = draw(simple_terms(scope, depth - 1))
    return Function("g", (first, second)) if kind == "g" else Arithmetic("*", first, second)


@st.composite
def numbers(draw, scope):
    """Terms with integer values."""
    first = draw(simple_terms(scope))
    if draw(st.booleans()):
        return first
    op = draw(st.sampled_from("+-*"))
    return Arithmetic(op, first, draw(simple_terms(scope)))


@st.composite
def atomic(draw, scope):
    kind = draw(st.sampled_from(["P", "P", "Q", "Q", "Rain", "=", "=", "<"]))
    if kind == "Rain":
        return Atom("Rain", ())
    if kind == "P":
        return Atom("P", (draw(simple_terms(scope)),))
    if kind == "Q":
        return Atom("Q", (draw(simple_terms(scope)), draw(simple_terms(scope))))
    left, right = draw(numbers(scope)), draw(numbers(scope))
    return Equal(left, right) if kind == "=" else Compare(draw(_OPERATORS), left, right)


_OPERATORS = st.sampled_from(["<", "<=", ">", ">="])


@st.composite
def formulas(draw, scope=("x", "y"), depth=3, names=None):
    names = iter("abcdehijklmnopqrstuw") if names is None else names
    kind = draw(st.sampled_from(["atom", "!", "^", "v", "=>", "<=>", "EXIST", "FORALL"]))
    if depth == 0 or kind == "atom":
        return draw(atomic(scope))
    if kind in {"EXIST", "FORALL"}:
        bound = tuple(next(names) for _ in range(draw(st.integers(1, 2))))
        body = draw(formulas((*bound, *scope), depth - 1, names))
        return (Exists if kind == "EXIST" else Forall)(bound, body)
    left = draw(formulas(scope, depth - 1, names))
    if kind == "!":
        return Not(left)
    right = draw(formulas(scope, depth - 1, names))
    pairs = {"^": And((left, right)), "v": Or((left, right)), "=>": Implies(left, right)}
    return pairs.get(kind) or Iff(left, right)


supported = formulas().filter(lambda formula: misplaced_universal(formula) is None)


@st.composite
def worlds(draw):
    every = [("P", (a,)) for a in CONSTANTS] + [("Rain", ())]
    every += [("Q", (a, b)) for a in CONSTANTS for b in CONSTANTS]
    constant = st.sampled_from(CONSTANTS)
    return World(
        CONSTANTS,
        [atom for atom in every if draw(st.booleans())],
        {
            "f": {(a,): draw(constant) for a in CONSTANTS},
            "g": {(a, b): draw(constant) for a in CONSTANTS for b in CONSTANTS},
        },
    )


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


def with_atoms(formula):
    """A formula with an atom for each bound variable, which gives it a type."""
    match formula:
        case Exists(names, body) | Forall(names, body):
            atoms = [Atom("P", (Variable(name),)) for name in names]
            return type(formula)(names, And((*atoms, with_atoms(body))))
        case And(operands) | Or(operands):
            return type(formula)(tuple(map(with_atoms, operands)))
        case Not() | Implies() | Iff():
            return type(formula)(*map(with_atoms, subformulas(formula)))
    return formula


@given(supported)
def test_formulas_read_back_as_they_are_written(formula):
    atoms = [Atom("P", (Variable(name),)) for name in ("x", "y")]
    whole = Or((*atoms, with_atoms(formula)))
    (rule,) = parse(f"{DECLARATIONS}1 {show(whole)}").rules
    assert rule.formula == whole
    assert dict(rule.types) == dict.fromkeys(["x", "y", *bound_variables(formula)], "t")
