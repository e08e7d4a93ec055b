"""Soft formulas that count as one, as in pracmln, where Alchemy splits them into clauses.

The weight of a formula counts in a state where it is true. Its falsity is a disjunction of conjunctions
of which no two are true together, found by Shannon's expansion; each is the falsity of a clause, and these
clauses, each with the whole weight, count as much, up to a constant. As well, the clauses of its truth
with the negative weight: of the two whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onlinesrl.logic.ast import (
    And,
    Atom,
    Compare,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Variable,
    bound_variables,
    subformulas,
    terms,
)
from onlinesrl.logic.cnf import disjunctions, variables

MAX_PARTS = 12
"""A formula that counts as one has at most so many different atoms."""


def clauses_of(formula: Formula) -> tuple[list[Formula], int] | None:
    """Return clauses, and the sign of their weights, that count as a whole formula does.

    None where there are none: the formula has too many atoms, or denies an existential.
    """
    if _is_clause(formula):
        return [formula], 1
    parts = sorted(dict.fromkeys(_parts(formula)), key=lambda each: isinstance(each, Exists))
    if len(parts) > MAX_PARTS:
        return None
    free = _free(formula)
    candidates = [
        (clauses, sign)
        for sign in (1, -1)
        if (clauses := _clauses(formula, parts, free, sign < 0)) is not None
    ]
    return min(candidates, key=lambda each: len(each[0]), default=None)


def _is_clause(formula: Formula) -> bool:
    operands = formula.operands if isinstance(formula, Or) else (formula,)
    literals = [each.operand if isinstance(each, Not) else each for each in operands]
    if all(isinstance(each, Atom | Equal | Compare) for each in literals):
        return True
    if any(isinstance(each, Exists | Forall) for each in _parts(formula)):
        return False
    clauses = disjunctions(formula)
    return len(clauses) == 1 and _free(formula) <= {
        n for each in clauses[0] for n in variables(each)
    }


def _parts(formula: Formula) -> Iterator[Formula]:
    """Yield the atoms, comparisons and existentials of a formula from left to right."""
    if isinstance(formula, Atom | Equal | Compare | Exists | Forall):
        yield formula
        return
    for part in subformulas(formula):
        yield from _parts(part)


def _free(formula: Formula) -> set[str]:
    bound = set(bound_variables(formula))
    return {t.name for t in terms(formula) if isinstance(t, Variable) and t.name not in bound}


def _clauses(
    formula: Formula, parts: list[Formula], free: set[str], truth: bool
) -> list[Formula] | None:
    """Return the clauses that are false where the formula has a truth value, one for each way to it."""
    clauses = []
    for path in _paths(formula, parts, free, truth, {}):
        if any(isinstance(part, Exists | Forall) and value for part, value in path.items()):
            return None
        literals = tuple(Not(part) if value else part for part, value in path.items())
        clauses.append(Or(literals) if len(literals) > 1 else literals[0])
    return clauses


def _paths(
    formula: Formula, parts: list[Formula], free: set[str], truth: bool, path: dict[Formula, bool]
) -> Iterator[dict[Formula, bool]]:
    """Yield the ways to a truth value, each with all free variables, so that each counts as often."""
    value = _value(formula, path)
    seen = {name for part in path for name in _free(part)}
    if value is not None and (value != truth or free <= seen):
        if value == truth:
            yield dict(path)
        return
    wanted = parts if value is not None else set(_undecided(formula, path))
    for part in parts:
        if part not in path and part in wanted and (value is None or not _free(part) <= seen):
            for chosen in (True, False):
                yield from _paths(formula, parts, free, truth, {**path, part: chosen})
            return


def _undecided(formula: Formula, path: Mapping[Formula, bool]) -> Iterator[Formula]:
    """Yield the parts on which the truth of a formula still depends."""
    if _value(formula, path) is None:
        if isinstance(formula, Atom | Equal | Compare | Exists | Forall):
            yield formula
        else:
            for part in subformulas(formula):
                yield from _undecided(part, path)


def _value(formula: Formula, path: Mapping[Formula, bool]) -> bool | None:
    """Return the truth of a formula where some of its parts are known; None if they leave it open."""
    match formula:
        case Atom() | Equal() | Compare() | Exists() | Forall():
            return path.get(formula)
        case Not(operand):
            value = _value(operand, path)
            return None if value is None else not value
        case And(operands):
            return _all([_value(each, path) for each in operands])
        case Or(operands):
            value = _all([_value(Not(each), path) for each in operands])
            return None if value is None else not value
        case Implies(left, right):
            return _value(Or((Not(left), right)), path)
        case Iff(left, right):
            sides = _value(left, path), _value(right, path)
            return None if None in sides else sides[0] == sides[1]


def _all(values: list[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True
