"""The abstract syntax of formulas: immutable values, and traversals of formulas.

Strings are names without their spelling: the constant written ``"3"`` or ``3`` is
``Constant("3")``, and the template variable written ``+w`` is ``Variable("w", plus=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a file; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A logical variable; ``plus``: the rule has a separate weight for each constant of the variable."""

    name: str
    plus: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant by its name, without quotes and escapes."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A declared function applied to terms."""

    name: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right`` on integers, where ``op`` is one of ``+ - * / %``; ``succ(t)`` is t + 1.

    As in C, ``/`` truncates and ``%`` has the sign of ``left``.
    """

    op: str
    left: Term
    right: Term


Leaf: TypeAlias = Variable | Constant
Term: TypeAlias = Leaf | Function | Arithmetic


@dataclass(frozen=True, slots=True)
class Atom:
    """A predicate applied to terms."""

    predicate: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """``left = right``."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right`` on integers, where ``op`` is one of ``< <= > >=``; in PSL only ``%``."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Not:
    """``!operand``; ``x != y`` is ``Not(Equal(x, y))``."""

    operand: Formula


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of two or more operands."""

    operands: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of two or more operands."""

    operands: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Implies:
    """``left => right``."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Iff:
    """``left <=> right``."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Exists:
    """``EXIST x, y body``; the names are unique in a rule: not free, not bound by other quantifiers."""

    variables: tuple[str, ...]
    body: Formula


@dataclass(frozen=True, slots=True)
class Forall:
    """``FORALL x, y body``; names as in `Exists`."""

    variables: tuple[str, ...]
    body: Formula


Formula: TypeAlias = Atom | Equal | Compare | Not | And | Or | Implies | Iff | Exists | Forall


def subformulas(formula: Formula) -> tuple[Formula, ...]:
    """Return the direct subformulas from left to right; none of an atom or comparison."""
    match formula:
        case Atom() | Equal() | Compare():
            return ()
        case Not(part) | Exists(_, part) | Forall(_, part):
            return (part,)
        case And(operands) | Or(operands):
            return operands
        case Implies(left, right) | Iff(left, right):
            return (left, right)


def arguments(formula: Atom | Equal | Compare) -> tuple[Term, ...]:
    """Return the terms of an atom, equality or comparison."""
    return formula.terms if isinstance(formula, Atom) else (formula.left, formula.right)


def leaves(term: Term) -> Iterator[Leaf]:
    """Yield the variables and constants of a term from left to right."""
    match term:
        case Variable() | Constant():
            yield term
        case Function(_, parts):
            for part in parts:
                yield from leaves(part)
        case Arithmetic(_, left, right):
            yield from leaves(left)
            yield from leaves(right)


def terms(formula: Formula) -> Iterator[Leaf]:
    """Yield the variables and constants of a formula from left to right, with repetitions."""
    if isinstance(formula, Atom | Equal | Compare):
        for term in arguments(formula):
            yield from leaves(term)
    for part in subformulas(formula):
        yield from terms(part)


def bound_variables(formula: Formula) -> Iterator[str]:
    """Yield the quantified variables of a formula, outer ones first."""
    if isinstance(formula, Exists | Forall):
        yield from formula.variables
    for part in subformulas(formula):
        yield from bound_variables(part)


def variable_names(formula: Formula) -> dict[str, None]:
    """Return the names of all variables of a formula, in order of first occurrence."""
    return {leaf.name: None for leaf in terms(formula) if isinstance(leaf, Variable)}


def fresh_name(stem: str, used: Container[str]) -> str:
    """Return the stem with the least number from 1 on that makes it a name not used."""
    return next(name for name in map(f"{stem}{{}}".format, count(1)) if name not in used)


def free_variables(formula: Formula) -> tuple[str, ...]:
    """Return the names of the variables that are not quantified, in order of first occurrence."""
    bound = set(bound_variables(formula))
    return tuple(name for name in variable_names(formula) if name not in bound)


def replace_leaves(term: Term, new: Callable[[Leaf], Term]) -> Term:
    """Return the term with ``new(leaf)`` for each variable and constant, from left to right."""
    match term:
        case Variable() | Constant():
            return new(term)
        case Function(name, parts):
            return Function(name, tuple(replace_leaves(part, new) for part in parts))
        case Arithmetic(op, left, right):
            return Arithmetic(op, replace_leaves(left, new), replace_leaves(right, new))


def replace_terms(formula: Formula, new: Callable[[Leaf], Term]) -> Formula:
    """Return the formula with ``new(leaf)`` for each variable and constant, from left to right.

    Quantified variables are replaced too, by variables.
    """
    if isinstance(formula, Atom):
        return Atom(formula.predicate, tuple(replace_leaves(term, new) for term in formula.terms))
    if isinstance(formula, Equal | Compare):
        left, right = replace_leaves(formula.left, new), replace_leaves(formula.right, new)
        return replace(formula, left=left, right=right)
    if isinstance(formula, Exists | Forall):
        names = (new(Variable(name)) for name in formula.variables)
        bound = tuple(name.name for name in names if isinstance(name, Variable))
        return type(formula)(bound, replace_terms(formula.body, new))
    parts = tuple(replace_terms(part, new) for part in subformulas(formula))
    return type(formula)(parts) if isinstance(formula, And | Or) else type(formula)(*parts)


Table: TypeAlias = tuple[tuple[tuple[str, ...], float], ...]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A declared predicate, or the relation of a function: its arguments, then its result.

    ``exactly_one`` are the argument positions (from 0) marked ``!``: for all other arguments, exactly
    one tuple of constants at these positions makes the atom true. Atoms of a ``numeric`` predicate have
    numbers as values, which multiply the weights of their ground clauses.
    """

    name: str
    types: tuple[str, ...]
    exactly_one: tuple[int, ...] = ()
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A declared function: ``result name(types)``."""

    name: str
    types: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula with its weight; ``weight`` is None for hard and for weightless rules.

    ``text`` is the formula as written, on one line, without weight and period.

    ``table`` makes the rule a family. It has a row (constants of the ``+`` variables in order of first
    occurrence, weight) for each instance. ``weight`` is then the weight of all other instances.

    ``types`` are the types of the variables.

    The weight of a rule with a ``weight_variable`` is the value of this ``+`` variable, a number in the
    evidence. The weight of a ``fixed`` rule is not learned.
    """

    formula: Formula
    weight: float | None
    hard: bool
    position: Position
    text: str
    table: Table | None = None
    types: tuple[tuple[str, str], ...] = ()
    weight_variable: str | None = None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A model: the contents of one MLN file and of the files that it includes.

    ``types`` maps each type to the constants declared or used, in order of first occurrence; ``open``
    types, as ``label = {A, B, ...}``, also have the constants seen in the stream. ``predicates`` includes
    the relations of ``functions``, by the functions' names. ``text`` is the whole model, with included
    files in place. ``closed`` are the predicates that the file marks as closed-world, in dialects that
    have such a mark.
    """

    file: str
    types: Mapping[str, tuple[str, ...]]
    predicates: Mapping[str, Predicate]
    rules: tuple[Rule, ...]
    functions: Mapping[str, FunctionType] = field(default_factory=dict)
    text: str = field(default="", repr=False, compare=False)
    open: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
