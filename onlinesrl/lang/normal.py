"""Formulas to weighted clauses, with the meaning that Alchemy gives them.

A soft formula becomes a conjunctive normal form of k clauses, each with a k-th of its weight; its
unit clauses, if there are two or more, count as one clause: their conjunction (Alchemy negates the
clause and the weight; here the clause has sign -1 and keeps the user's weight). A hard formula
becomes the plain conjunctive normal form: every clause must hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import chain, product
from typing import TypeAlias

from onlinesrl.lang.ast import (
    And,
    Atom,
    Constant,
    Equal,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Program,
    Rule,
    Table,
    Term,
    Variable,
    terms,
)
from onlinesrl.lang.text import show


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom or its negation."""

    positive: bool
    atom: Atom


Equality: TypeAlias = tuple[bool, Term, Term]
"""``(True, x, y)`` is ``x = y``, ``(False, x, y)`` is ``x != y``."""


@dataclass(frozen=True, slots=True)
class Clause:
    """The disjunction of ``literals`` and ``equalities``, with its part in the score.

    A state's score holds ``weight * sign * [the clause is true]`` for each grounding; a hard
    clause must be true. ``rule`` is the index of its rule in the program, ``template`` names the
    ``+`` variables of the rule's formula in order of first occurrence, and ``table`` gives the
    weights of a family by the constants of the template, as in `Rule`.
    """

    rule: int
    literals: tuple[Literal, ...]
    equalities: tuple[Equality, ...]
    sign: int
    weight: float | None
    hard: bool
    template: tuple[str, ...]
    table: Table | None
    text: str


_Disjunct: TypeAlias = Literal | Equality
_Disjunction: TypeAlias = tuple[_Disjunct, ...]


def clauses(program: Program) -> tuple[Clause, ...]:
    """Return the clauses of all rules, in the order of the rules."""
    return tuple(
        clause for index, rule in enumerate(program.rules) for clause in rule_clauses(rule, index)
    )


def rule_clauses(rule: Rule, index: int = 0) -> tuple[Clause, ...]:
    """Return the clauses of one rule, literals and clauses in the order of the formula.

    Clauses that every state satisfies are left out, and so are soft ones without an atom, which
    are constant: neither takes a share of the weight.
    """
    parts = _distinct(_conjuncts(rule.formula, True))
    signed = [(part, 1) for part in parts] if rule.hard else _soft(parts)
    template = plus_variables(rule.formula)
    return tuple(
        Clause(
            rule=index,
            literals=tuple(each for each in part if isinstance(each, Literal)),
            equalities=tuple(each for each in part if not isinstance(each, Literal)),
            sign=sign,
            weight=None if rule.weight is None else rule.weight / len(signed),
            hard=rule.hard,
            template=template,
            table=_divided(rule.table, len(signed)),
            text=rule.text if len(signed) == 1 else _show(part, sign),
        )
        for part, sign in signed
    )


def plus_variables(formula: Formula) -> tuple[str, ...]:
    """Return the names of the ``+`` variables in order of first occurrence."""
    plus = (term.name for term in terms(formula) if isinstance(term, Variable) and term.plus)
    return tuple(dict.fromkeys(plus))


def clause_formula(clause: Clause) -> Formula:
    """Return the formula that a clause's weight counts: the conjunction where the sign is -1."""
    return _formula((*clause.literals, *clause.equalities), clause.sign)


def _conjuncts(formula: Formula, positive: bool) -> list[_Disjunction]:
    """Return the conjunctive normal form of a formula, or of its negation, unsimplified."""
    match formula:
        case Atom():
            return [(Literal(positive, formula),)]
        case Equal(left, right):
            return [((positive, left, right),)]
        case Not(operand):
            return _conjuncts(operand, not positive)
        case Implies(left, right):
            return _conjuncts(Or((Not(left), right)), positive)
        case Iff(left, right):
            return _conjuncts(And((Implies(left, right), Implies(right, left))), positive)
        case And(operands) | Or(operands):
            parts = [_conjuncts(operand, positive) for operand in operands]
            joined = isinstance(formula, And) == positive
            choices = ((part,) for part in chain(*parts)) if joined else product(*parts)
            return [tuple(chain(*choice)) for choice in choices]


def _distinct(parts: Iterable[_Disjunction]) -> list[_Disjunction]:
    """Simplify disjunctions, and leave out tautologies and repetitions."""
    distinct: dict[Hashable, _Disjunction] = {}
    for part in map(_simplified, parts):
        if part is not None:
            distinct.setdefault(frozenset(map(_sense, part)), part)
    return list(distinct.values())


def _simplified(part: _Disjunction) -> _Disjunction | None:
    """Remove false and repeated disjuncts; None if the disjunction is true in every state."""
    kept: dict[tuple[bool, Hashable], _Disjunct] = {}
    for disjunct in part:
        truth = _truth(disjunct)
        positive, content = _sense(disjunct)
        if truth is True or (not positive, content) in kept:
            return None
        if truth is None:
            kept.setdefault((positive, content), disjunct)
    return tuple(kept.values())


def _sense(disjunct: _Disjunct) -> tuple[bool, Hashable]:
    """Return whether a disjunct is positive, and what it affirms or denies."""
    if isinstance(disjunct, Literal):
        return disjunct.positive, disjunct.atom
    positive, left, right = disjunct
    return positive, frozenset((left, right))


def _truth(disjunct: _Disjunct) -> bool | None:
    """Return the truth value of an equality that has the same one in every grounding."""
    if isinstance(disjunct, Literal):
        return None
    positive, left, right = disjunct
    if left == right:
        return positive
    if isinstance(left, Constant) and isinstance(right, Constant):
        return not positive
    return None


def _soft(parts: list[_Disjunction]) -> list[tuple[_Disjunction, int]]:
    """Join two or more unit clauses in one of sign -1, and leave out what is constant.

    Of a formula that is false in every state nothing is left.
    """
    if () in parts:
        return []
    units = [part[0] for part in parts if len(part) == 1]
    if len(units) < 2:
        return [(part, 1) for part in parts if _has_atom(part)]
    joined = _simplified(tuple(map(_negated, units)))
    if joined is None:
        return []
    first = next(index for index, part in enumerate(parts) if len(part) == 1)
    signed = [
        (joined, -1) if index == first else (part, 1)
        for index, part in enumerate(parts)
        if index == first or len(part) != 1
    ]
    return [(part, sign) for part, sign in signed if _has_atom(part)]


def _has_atom(part: _Disjunction) -> bool:
    return any(isinstance(each, Literal) for each in part)


def _negated(disjunct: _Disjunct) -> _Disjunct:
    if isinstance(disjunct, Literal):
        return Literal(not disjunct.positive, disjunct.atom)
    positive, left, right = disjunct
    return (not positive, left, right)


def _divided(table: Table | None, shares: int) -> Table | None:
    if table is None or shares == 1:
        return table
    return tuple((key, weight / shares) for key, weight in table)


def _formula(part: _Disjunction, sign: int) -> Formula:
    operands = tuple(map(_disjunct_formula, part if sign > 0 else map(_negated, part)))
    if len(operands) == 1:
        return operands[0]
    return Or(operands) if sign > 0 else And(operands)


def _disjunct_formula(disjunct: _Disjunct) -> Formula:
    if isinstance(disjunct, Literal):
        return disjunct.atom if disjunct.positive else Not(disjunct.atom)
    positive, left, right = disjunct
    return Equal(left, right) if positive else Not(Equal(left, right))


def _show(part: _Disjunction, sign: int) -> str:
    return show(_formula(part, sign)) if part else "false"
