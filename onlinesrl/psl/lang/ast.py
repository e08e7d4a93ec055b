"""The abstract syntax of PSL: immutable values.

Atoms, comparisons and connectives are those of `onlinesrl.logic.ast`. In PSL a term is a variable
or a constant, ``X != Y`` is ``Not(Equal(X, Y))``, ``X % Y`` is ``Compare("%", X, Y)``, and
``Variable("X", plus=True)`` is the summation variable written ``+X``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from onlinesrl.logic.ast import Atom, Formula, Position, Variable, subformulas, terms

LARGEST = 1e50
"""The largest weight or coefficient, so that energies and their squares are finite."""


@dataclass(frozen=True, slots=True)
class Number:
    """A coefficient that is a number."""

    value: float


@dataclass(frozen=True, slots=True)
class Cardinality:
    """``|X|``: the number of constants of the summation variable ``X`` in a ground rule."""

    variable: str


@dataclass(frozen=True, slots=True)
class Operation:
    """``left op right``, where ``op`` is one of ``+ - * / @Min @Max``."""

    op: str
    left: Coefficient
    right: Coefficient


Coefficient: TypeAlias = Number | Cardinality | Operation


@dataclass(frozen=True, slots=True)
class Summand:
    """A coefficient times an atom; a constant if ``atom`` is None."""

    coefficient: Coefficient
    atom: Atom | None


_ONE = Summand(Number(1.0), None)


@dataclass(frozen=True, slots=True)
class Filter:
    """``{variable: condition}``: the range of a summation variable."""

    variable: str
    condition: Formula


@dataclass(frozen=True, slots=True)
class LogicalRule:
    """A formula with its weight, None if it is hard; ``power`` is the hinge's exponent, 1 or 2.

    ``text`` is the rule as written, on one line.
    """

    formula: Formula
    weight: float | None
    power: int
    position: Position = field(compare=False)
    text: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class ArithmeticRule:
    """``left op right``, two linear expressions, where ``op`` is one of ``= <= >=``.

    Weight, power and text as in `LogicalRule`. Each summation variable occurs in one atom and has at
    most one filter.
    """

    left: tuple[Summand, ...]
    op: str
    right: tuple[Summand, ...]
    filters: tuple[Filter, ...]
    weight: float | None
    power: int
    position: Position = field(compare=False)
    text: str = field(compare=False)


PslRule: TypeAlias = LogicalRule | ArithmeticRule


@dataclass(frozen=True, slots=True)
class PslProgram:
    """The rules of a model; ``predicates`` maps those declared or used to their arity.

    ``functions`` are the predicates whose values a Python function computes.
    """

    file: str
    predicates: Mapping[str, int]
    rules: tuple[PslRule, ...]
    functions: frozenset[str] = frozenset()


_OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "@Min": min,
    "@Max": max,
}


def cardinalities(coefficient: Coefficient) -> Iterator[str]:
    """Yield the variables of a coefficient's cardinalities, from left to right."""
    match coefficient:
        case Cardinality(variable):
            yield variable
        case Operation(_, left, right):
            yield from cardinalities(left)
            yield from cardinalities(right)


def moderate(coefficient: Coefficient) -> bool:
    """Return whether all numbers of a coefficient are at most `LARGEST`."""
    match coefficient:
        case Number(value):
            return abs(value) <= LARGEST
        case Operation(_, left, right):
            return moderate(left) and moderate(right)
        case _:
            return True


def evaluate(coefficient: Coefficient, counts: Mapping[str, float]) -> float:
    """Return the value of a coefficient, given the cardinality of each variable.

    Raises ZeroDivisionError if it divides by 0.
    """
    match coefficient:
        case Number(value):
            return value
        case Cardinality(variable):
            return counts[variable]
        case Operation(op, left, right):
            return _OPERATIONS[op](evaluate(left, counts), evaluate(right, counts))


def operation(op: str, left: Coefficient, right: Coefficient) -> Coefficient:
    """Return ``left op right``, simplified for numbers and for a factor or divisor of 1.

    Raises ZeroDivisionError if it divides by the number 0.
    """
    one = Number(1.0)
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(evaluate(Operation(op, left, right), {}))
    if op == "/" and right == Number(0.0):
        raise ZeroDivisionError
    if op in {"*", "/"} and right == one:
        return left
    return right if op == "*" and left == one else Operation(op, left, right)


def summed(atom: Atom) -> tuple[str, ...]:
    """Return the summation variables of an atom in order."""
    return tuple(leaf.name for leaf in terms(atom) if getattr(leaf, "plus", False))


def atoms(formula: Formula) -> Iterator[Atom]:
    """Yield the atoms of a formula from left to right."""
    if isinstance(formula, Atom):
        yield formula
    for part in subformulas(formula):
        yield from atoms(part)


def atoms_of(rule: PslRule) -> Iterator[Atom]:
    """Yield the atoms of a rule, those of filters last."""
    if isinstance(rule, LogicalRule):
        yield from atoms(rule.formula)
    else:
        yield from (summand.atom for summand in (*rule.left, *rule.right) if summand.atom)
        for item in rule.filters:
            yield from atoms(item.condition)


def functional_arguments(program: PslProgram) -> dict[str, tuple[int, ...]]:
    """Return the summed arguments of each predicate of which a hard rule says ``P(X, +Y) = 1 .``."""
    result = {}
    for rule in program.rules:
        if not isinstance(rule, ArithmeticRule) or rule.weight is not None or rule.filters:
            continue
        sides = (rule.left, rule.right) if rule.left[0].atom else (rule.right, rule.left)
        atom = sides[0][0].atom
        alone = rule.op == "=" and sides == ((Summand(Number(1.0), atom),), (_ONE,))
        if alone and atom and all(isinstance(leaf, Variable) for leaf in atom.terms):
            places = (n for n, leaf in enumerate(atom.terms) if getattr(leaf, "plus", False))
            result[atom.predicate] = (*places,)
    return {name: places for name, places in result.items() if places}


def with_weights(program: PslProgram, weights: Iterable[float]) -> PslProgram:
    """Return a program with other weights, one for each rule; those for hard rules do not count."""
    rules = (
        rule if rule.weight is None else replace(rule, weight=weight)
        for rule, weight in zip(program.rules, weights, strict=True)
    )
    return replace(program, rules=tuple(rules))
