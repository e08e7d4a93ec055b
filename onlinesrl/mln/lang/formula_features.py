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
    free_variables,
)
from onlinesrl.logic.cnf import Some, conjunctions, disjunctions, variables
from onlinesrl.logic.partial_truth import parts as parts_of
from onlinesrl.logic.partial_truth import truth, undecided
from onlinesrl.mln.lang.clausal_form import disjunct_formula

MAX_PARTS = 12
"""The largest number of distinct atoms of a formula that is one feature."""


def clauses_of(formula: Formula) -> tuple[list[Formula], int] | None:
    """Return clauses that are equivalent to a formula as one feature, and the sign of their weights.

    None: the formula has too many atoms, or negates an existential.
    """
    if _is_clause(formula):
        return [formula], 1
    free, formula = {*free_variables(formula)}, _apart(formula)
    parts = sorted(dict.fromkeys(parts_of(formula)), key=lambda part: isinstance(part, Exists))
    free_in = {part: {*free_variables(part)} for part in parts}
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
    if any(isinstance(operand, Exists | Forall) for operand in parts_of(formula)):
        return False
    clauses = disjunctions(formula)
    return len(clauses) == 1 and {*free_variables(formula)} <= {
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


def _paths(
    formula: Formula,
    free_in: Mapping[Formula, set[str]],
    free: set[str],
    wanted: bool,
    path: dict[Formula, bool],
) -> Iterator[dict[Formula, bool]]:
    """Yield the paths of Shannon expansion to a truth value.

    Each path has all free variables, so that its clause has as many groundings as the formula. ``free_in``
    has the parts of the formula with their free variables.
    """
    value = truth(formula, path.get)
    seen = {name for part in path for name in free_in[part]}
    if value is not None and (value != wanted or free <= seen):
        if value == wanted:
            yield dict(path)
        return
    candidates = free_in if value is not None else set(undecided(formula, path.get))
    for part, names in free_in.items():
        if part not in path and part in candidates and (value is None or not names <= seen):
            for truth_of_part in (True, False):
                yield from _paths(formula, free_in, free, wanted, {**path, part: truth_of_part})
            return
