"""Random formulas with quantifiers, functions and arithmetic over two constants, and small worlds."""

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
    Variable,
    subformulas,
)
from tests.support.semantics import World

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
