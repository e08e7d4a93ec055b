"""Clauses for soft formulas that are one feature, as in pracmln; Alchemy splits them into clauses.

A state gets the weight of a formula if the formula is true. Shannon expansion writes the negated formula
as a disjunction of mutually exclusive conjunctions. Each conjunction is the negation of a clause. These
clauses, each with the whole weight, are equivalent to the formula up to a constant. The expansion of the
formula itself, with the negative weight, is equivalent as well; the smaller expansion is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

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
from onlinesrl.logic.cnf import Some, conjunctions, disjunctions, variables
from onlinesrl.mln.lang.clausal_form import disjunct_formula

MAX_PARTS = 12
"""The largest number of distinct atoms of a formula that is one feature."""


def clauses_of(formula: Formula) -> tuple[list[Formula], int] | None:
    """Return clauses that are equivalent to a formula as one feature, and the sign of their weights.

    None: the formula has too many atoms, or negates an existential.
    """
    if _is_clause(formula):
        return [formula], 1
    free, formula = _free(formula), _apart(formula)
    parts = sorted(dict.fromkeys(_parts(formula)), key=lambda part: isinstance(part, Exists))
    free_in = {part: _free(part) for part in parts}
    if len(parts) > MAX_PARTS or not free <= set().union(*free_in.values()):
        return None
    candidates: list[tuple[list[Formula], int]] = []
    for sign in (1, -1):
        paths = [*_paths(formula, free_in, free, sign < 0, {})]
        true = (part for path in paths for part, value in path.items() if value)
        if any(isinstance(part, Exists | Forall) for part in true):
            continue
        # clauses whose negations cover the states in which the formula is false, or true
        clauses: list[Formula] = []
        for path in paths:
            literals = tuple(Not(part) if value else part for part, value in path.items())
            clauses.append(Or(literals) if len(literals) > 1 else literals[0])
        candidates.append((clauses, sign))
    return min(candidates, key=lambda part: len(part[0]), default=None)


def _is_clause(formula: Formula) -> bool:
    operands = formula.operands if isinstance(formula, Or) else (formula,)
    literals = [operand.operand if isinstance(operand, Not) else operand for operand in operands]
    if all(isinstance(operand, Atom | Equal | Compare) for operand in literals):
        return True
    if any(isinstance(operand, Exists | Forall) for operand in _parts(formula)):
        return False
    clauses = disjunctions(formula)
    return len(clauses) == 1 and _free(formula) <= {
        n for operand in clauses[0] for n in variables(operand)
    }


def _apart(formula: Formula) -> Formula:
    """Take conjunctions without quantified variables out of existentials, as the normal form does."""
    match formula:
        case Exists():
            within: dict[bool, list[Some]] = {True: [], False: []}
            for part in conjunctions(formula):
                within[bool(part.variables)].append(part)
            apart = [*map(disjunct_formula, within[False])]
            if within[True]:
                names = dict.fromkeys(chain.from_iterable(part.variables for part in within[True]))
                bodies = (disjunct_formula(Some((), part.parts)) for part in within[True])
                apart.append(Exists((*names,), Or((*bodies,))))
            return Or((*apart,))
        case Not(operand):
            return Not(_apart(operand))
        case Implies(left, right) | Iff(left, right):
            return type(formula)(_apart(left), _apart(right))
        case And(operands) | Or(operands):
            return type(formula)(tuple(map(_apart, operands)))
    return formula


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


def _paths(
    formula: Formula,
    free_in: Mapping[Formula, set[str]],
    free: set[str],
    truth: bool,
    path: dict[Formula, bool],
) -> Iterator[dict[Formula, bool]]:
    """Yield the paths of Shannon expansion to a truth value.

    Each path has all free variables, so that its clause has as many groundings as the formula. ``free_in``
    has the parts of the formula with their free variables.
    """
    value = _value(formula, path)
    seen = {name for part in path for name in free_in[part]}
    if value is not None and (value != truth or free <= seen):
        if value == truth:
            yield dict(path)
        return
    candidates = free_in if value is not None else set(_undecided(formula, path))
    for part, names in free_in.items():
        if part not in path and part in candidates and (value is None or not names <= seen):
            for truth_of_part in (True, False):
                yield from _paths(formula, free_in, free, truth, {**path, part: truth_of_part})
            return


def _undecided(formula: Formula, path: Mapping[Formula, bool]) -> Iterator[Formula]:
    """Yield the parts that still decide the truth of a formula."""
    if _value(formula, path) is None:
        if isinstance(formula, Atom | Equal | Compare | Exists | Forall):
            yield formula
        else:
            for part in subformulas(formula):
                yield from _undecided(part, path)


def _value(formula: Formula, path: Mapping[Formula, bool]) -> bool | None:
    """Return the truth of a formula, given the truth of some parts; None if it is undecided."""
    match formula:
        case Atom() | Equal() | Compare() | Exists() | Forall():
            return path.get(formula)
        case Not(operand):
            value = _value(operand, path)
            return None if value is None else not value
        case And(operands):
            return _all([_value(part, path) for part in operands])
        case Or(operands):
            value = _all([_value(Not(part), path) for part in operands])
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
