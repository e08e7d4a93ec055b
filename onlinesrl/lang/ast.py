"""The abstract syntax of Markov logic: immutable values, and the walks over formulas.

Strings are names without their spelling: the constant written ``"3"`` or ``3`` is
``Constant("3")``, and the template variable written ``+w`` is ``Variable("w", plus=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A logical variable; ``plus`` asks for one weight for each of its constants."""

    name: str
    plus: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant by its name, quotes and escapes removed."""

    name: str


Term: TypeAlias = Variable | Constant


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


Formula: TypeAlias = Atom | Equal | Not | And | Or | Implies | Iff


def subformulas(formula: Formula) -> tuple[Formula, ...]:
    """Return the direct parts of a formula from left to right; none for an atom or equality."""
    match formula:
        case Atom() | Equal():
            return ()
        case Not(operand):
            return (operand,)
        case And(operands) | Or(operands):
            return operands
        case Implies(left, right) | Iff(left, right):
            return (left, right)


def terms(formula: Formula) -> Iterator[Term]:
    """Yield the terms of a formula from left to right, each as often as it occurs."""
    match formula:
        case Atom(_, arguments):
            yield from arguments
        case Equal(left, right):
            yield from (left, right)
        case _:
            for part in subformulas(formula):
                yield from terms(part)


def replace_terms(formula: Formula, new: Callable[[Term], Term]) -> Formula:
    """Return the formula with ``new(term)`` for each term, called from left to right."""
    match formula:
        case Atom(predicate, arguments):
            return Atom(predicate, tuple(map(new, arguments)))
        case Equal(left, right):
            return Equal(new(left), new(right))
        case Not(operand):
            return Not(replace_terms(operand, new))
        case And(operands) | Or(operands):
            return type(formula)(tuple(replace_terms(each, new) for each in operands))
        case Implies(left, right) | Iff(left, right):
            return type(formula)(replace_terms(left, new), replace_terms(right, new))


Table: TypeAlias = tuple[tuple[tuple[str, ...], float], ...]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A declared predicate.

    ``exactly_one`` lists the argument positions (from 0) marked ``!``: for each choice of the
    other arguments, exactly one constant of these makes the atom true.
    """

    name: str
    types: tuple[str, ...]
    exactly_one: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula with its weight; ``weight`` is None for hard and for weightless rules.

    ``text`` is the formula as it is written, on one line, without weight and period.

    ``table`` makes the rule a family: a row (constants of the ``+`` variables in order of first
    occurrence in the formula, weight) for each instance. ``weight`` is then that of a tuple of
    constants which the table does not list, 0.
    """

    formula: Formula
    weight: float | None
    hard: bool
    position: Position
    text: str
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A model: the contents of one MLN file.

    ``types`` gives each type the constants that the file declares or uses, in order of first
    occurrence.
    """

    file: str
    types: Mapping[str, tuple[str, ...]]
    predicates: Mapping[str, Predicate]
    rules: tuple[Rule, ...]
