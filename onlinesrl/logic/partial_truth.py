"""The truth of a formula where that of only some of its parts is known, as Shannon's expansion asks for it.

The parts of a formula are its atoms, equations, comparisons and quantified formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from onlinesrl.logic.ast import And, Formula, Iff, Implies, Not, Or, subformulas

Known: TypeAlias = Callable[[Formula], bool | None]
"""The truth of a part, None where it is not known."""


def parts(formula: Formula) -> Iterator[Formula]:
    """Yield the parts of a formula from left to right."""
    if not isinstance(formula, And | Or | Not | Implies | Iff):
        yield formula
        return
    for part in subformulas(formula):
        yield from parts(part)


def undecided(formula: Formula, known: Known) -> Iterator[Formula]:
    """Yield the parts that still decide the truth of a formula, from left to right."""
    if truth(formula, known) is None:
        if not isinstance(formula, And | Or | Not | Implies | Iff):
            yield formula
            return
        for part in subformulas(formula):
            yield from undecided(part, known)


def truth(formula: Formula, known: Known) -> bool | None:
    """Return the truth of a formula, None where what is known leaves it open."""
    match formula:
        case Not(operand):
            denied = truth(operand, known)
            return None if denied is None else not denied
        case And(operands):
            values = {truth(part, known) for part in operands}
            return False if False in values else None if None in values else True
        case Or(operands):
            return truth(Not(And(tuple(map(Not, operands)))), known)
        case Implies(left, right):
            return truth(Or((Not(left), right)), known)
        case Iff(left, right):
            sides = truth(left, known), truth(right, known)
            return None if None in sides else sides[0] == sides[1]
    return known(formula)
