"""Conjunctive normal form: formulas as disjunctions of literals, comparisons and existential parts.

Negations are pushed inwards. Universally quantified variables become free variables; an existential
quantifier becomes a disjunction of conjunctions, each with its own variables.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import TypeAlias

from onlinesrl.logic.ast import (
    And,
    Atom,
    Compare,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Leaf,
    Not,
    Or,
    Term,
    Variable,
    bound_variables,
    fresh_name,
    leaves,
    replace_leaves,
)


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom or its negation."""

    positive: bool
    atom: Atom


@dataclass(frozen=True, slots=True)
class Compared:
    """``left op right`` or its negation, where ``op`` is one of ``= < <= > >=``."""

    positive: bool
    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Some:
    """An existential conjunction: ``variables`` for which all of ``parts`` hold."""

    variables: tuple[str, ...]
    parts: tuple[Literal | Compared, ...]


_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

MAX_LITERALS = 20_000
"""The maximal number of literals in the conjunctive normal form of a formula."""

Disjunct: TypeAlias = Literal | Compared | Some
Disjunction: TypeAlias = tuple[Disjunct, ...]


def disjunctions(formula: Formula) -> list[Disjunction]:
    """Return the conjunctive normal form, without tautologies and repetitions.

    In each disjunction the variables of existential parts differ from all others. Raises ValueError for
    a universal quantifier inside an existential one, and if the normal form of the formula or of a part
    has more than `MAX_LITERALS`.
    """
    apart = []
    for part in _distinct(_conjuncts(formula, True)):
        free = {name for disjunct in part for name in variables(disjunct)}
        apart.append(
            tuple(
                _renamed(item, free)
                if isinstance(item, Some) and free & {*item.variables}
                else item
                for item in part
            )
        )
    return apart


def negated(disjunct: Disjunct) -> Literal | Compared:
    """Return the negation of a literal or comparison."""
    match disjunct:
        case Literal(positive, atom):
            return Literal(not positive, atom)
        case Compared(positive, op, left, right):
            return Compared(not positive, op, left, right)
        case Some():
            raise ValueError("a universal quantifier inside an existential one is not supported")


def simplified(part: Disjunction) -> Disjunction | None:
    """Remove false and repeated disjuncts; return None for a tautology."""
    distinct: dict[tuple[bool, Hashable], Disjunct] = {}
    for disjunct in part:
        truth = _truth(disjunct)
        positive, content = _sense(disjunct)
        if truth is True or (not positive, content) in distinct:
            return None
        if truth is None:
            distinct.setdefault((positive, content), disjunct)
    disjuncts = tuple(distinct.values())
    for disjunct in disjuncts:
        if isinstance(disjunct, Some) and all(
            negated(item) in disjuncts for item in disjunct.parts
        ):
            return None
    return disjuncts


def variables(disjunct: Disjunct) -> Iterator[str]:
    """Yield the free variables of a disjunct."""
    if isinstance(disjunct, Some):
        inner = chain.from_iterable(map(variables, disjunct.parts))
        yield from (name for name in inner if name not in disjunct.variables)
        return
    terms = (
        disjunct.atom.terms if isinstance(disjunct, Literal) else (disjunct.left, disjunct.right)
    )
    for leaf in chain.from_iterable(map(leaves, terms)):
        if isinstance(leaf, Variable):
            yield leaf.name


def misplaced_universal(formula: Formula, inside: bool = False) -> int | None:
    """Return the index, from left to right, of a universal quantifier inside an existential one.

    ``inside``: the formula is in the scope of an existential quantifier.
    """
    quantifiers = enumerate(_quantifiers(formula, True, inside))
    return next((index for index, misplaced in quantifiers if misplaced), None)


def _quantifiers(formula: Formula, positive: bool | None, inside: bool) -> Iterator[bool]:
    """Yield for each quantifier whether it is misplaced; ``positive`` is None under ``<=>``."""
    match formula:
        case Exists(_, body) | Forall(_, body):
            existential = positive is not None and isinstance(formula, Exists) == positive
            yield inside and not existential
            yield from _quantifiers(body, positive, inside or existential or positive is None)
        case Not(operand):
            yield from _quantifiers(operand, _flipped(positive), inside)
        case Implies(left, right):
            yield from _quantifiers(left, _flipped(positive), inside)
            yield from _quantifiers(right, positive, inside)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _quantifiers(operand, positive, inside)
        case Iff(left, right):
            yield from _quantifiers(left, None, inside)
            yield from _quantifiers(right, None, inside)


def _flipped(positive: bool | None) -> bool | None:
    return None if positive is None else not positive


def _conjuncts(formula: Formula, positive: bool) -> list[Disjunction]:
    """Return the conjunctive normal form of a formula, or of its negation, unsimplified."""
    parts: list[Disjunction]
    match formula:
        case Atom():
            parts = [(Literal(positive, formula),)]
        case Equal(left, right):
            parts = [(Compared(positive, "=", left, right),)]
        case Compare(op, left, right):
            parts = [(Compared(positive, op, left, right),)]
        case Not(operand):
            parts = _conjuncts(operand, not positive)
        case Exists(_, body) | Forall(_, body):
            existential = isinstance(formula, Exists) == positive
            parts = _existential(formula, positive) if existential else _conjuncts(body, positive)
        case Implies(first, second):
            parts = _conjuncts(Or((Not(first), second)), positive)
        case Iff(first, second):
            parts = _conjuncts(And((Implies(first, second), Implies(second, first))), positive)
        case And(operands) | Or(operands):
            inner = [_conjuncts(operand, positive) for operand in operands]
            if isinstance(formula, And) != positive:
                return _one_of(inner)
            parts = list(chain(*inner))
            _check_literals(sum(map(len, parts)))
    return parts


def _one_of(conjunctions: Sequence[Sequence[Disjunction]]) -> list[Disjunction]:
    """Return the conjunctive normal form of the disjunction of normal forms."""
    number = prod(map(len, conjunctions))
    if number:
        shares = (number // len(parts) * sum(map(len, parts)) for parts in conjunctions)
        _check_literals(max(number, sum(shares)))
    return [tuple(chain(*choice)) for choice in product(*conjunctions)]


def _check_literals(number: int) -> None:
    if number > MAX_LITERALS:
        raise ValueError(
            f"there are more than {MAX_LITERALS:,} literals in the conjunctive normal form"
        )


def _existential(formula: Exists | Forall, positive: bool) -> list[Disjunction]:
    """Return ``EXIST variables body`` as disjunctions.

    A conjunction without quantified variables is distributed.
    """
    return _one_of(
        [
            [(part,)] if part.variables else [(item,) for item in part.parts]
            for part in conjunctions(formula, positive)
        ]
    )


def conjunctions(formula: Exists | Forall, positive: bool = True) -> list[Some]:
    """Return ``EXIST variables body`` as conjunctions, of which one holds; some have no variables.

    They are the negated clauses of the negated body. Existential quantifiers in the body are universal in
    its negation, so their variables become free.
    """
    bound = tuple(dict.fromkeys(bound_variables(formula)))
    parts = []
    for clause in _distinct(_conjuncts(formula.body, not positive)):
        used = {name for item in clause for name in variables(item)}
        names = tuple(name for name in bound if name in used)
        parts.append(Some(names, tuple(map(negated, clause))))
    return parts


def _distinct(parts: Iterable[Disjunction]) -> list[Disjunction]:
    """Simplify disjunctions; remove tautologies and repetitions."""
    distinct: dict[Hashable, Disjunction] = {}
    for part in map(simplified, parts):
        if part is not None:
            distinct.setdefault(frozenset(map(_sense, part)), part)
    return list(distinct.values())


def _sense(disjunct: Disjunct) -> tuple[bool, Hashable]:
    """Return the sign of a disjunct and its content without the sign."""
    match disjunct:
        case Literal(positive, atom):
            return positive, atom
        case Compared(positive, "=", left, right):
            return positive, frozenset((left, right))
        case Compared(positive, op, left, right):
            return positive, (op, left, right)
        case Some():
            return True, disjunct


def _truth(disjunct: Disjunct) -> bool | None:
    """Return the truth value of a comparison if it is the same in every grounding, else None."""
    if not isinstance(disjunct, Compared):
        return None
    left, right, op = disjunct.left, disjunct.right, disjunct.op
    if left == right:
        return (op in {"=", "<=", ">="}) == disjunct.positive
    if isinstance(left, Constant) and isinstance(right, Constant):
        if op == "=":
            return not disjunct.positive
        return _ORDER[op](int(left.name), int(right.name)) == disjunct.positive
    return None


def _renamed(existential: Some, free: set[str]) -> Some:
    """Rename the variables of an existential part that are free elsewhere in its disjunction."""
    used = {*free, *existential.variables}
    names: dict[str, str] = {}
    for name in existential.variables:
        if name in free:
            names[name] = fresh_name(name, used)
            used.add(names[name])

    def new(leaf: Leaf) -> Leaf:
        renamed = isinstance(leaf, Variable) and leaf.name in names
        return Variable(names[leaf.name]) if renamed else leaf

    parts: list[Literal | Compared] = []
    for part in existential.parts:
        match part:
            case Literal(positive, Atom(predicate, terms)):
                atom = Atom(predicate, tuple(replace_leaves(term, new) for term in terms))
                parts.append(Literal(positive, atom))
            case Compared(positive, op, left, right):
                sides = replace_leaves(left, new), replace_leaves(right, new)
                parts.append(Compared(positive, op, *sides))
    return Some(tuple(names.get(name, name) for name in existential.variables), tuple(parts))
