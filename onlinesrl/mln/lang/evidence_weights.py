"""What rules take from evidence as numbers, in Tuffy and RockIt: weights, and what they compare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isfinite

from onlinesrl.core.errors import DatabaseError
from onlinesrl.core.example import GroundAtom
from onlinesrl.logic.ast import (
    Arithmetic,
    Atom,
    Compare,
    Equal,
    Formula,
    Program,
    Rule,
    Variable,
    arguments,
    leaves,
    subformulas,
)
from onlinesrl.logic.dialect import FLOAT

_WHOLE = re.compile(r"-?[0-9]+")


def with_weights(program: Program, atoms: Iterable[GroundAtom]) -> Program:
    """Return the program in which each rule that takes its weight from evidence is a family.

    It has a row for each number that an atom, or the program, has in a place of the weight's type.
    """
    if all(rule.weight_variable is None for rule in program.rules):
        return program
    numbers = dict.fromkeys(program.types.get(FLOAT, ()))
    for atom in atoms:
        places = zip(program.predicates[atom.predicate].types, atom.arguments, strict=True)
        numbers |= dict.fromkeys(constant for type_, constant in places if type_ == FLOAT)
    table = tuple(((constant,), float(constant)) for constant in numbers)
    rules = (
        rule if rule.weight_variable is None else replace(rule, table=table, weight=0.0)
        for rule in program.rules
    )
    return replace(program, rules=tuple(rules))


def check_numbers(program: Program, atoms: Iterable[GroundAtom], file: str) -> None:
    """Check that what is a weight is a number, and what is ordered or calculated with a whole one.

    Raises DatabaseError at the first atom of the file where it is not. The atoms are the program's.
    """
    ordered = dict(_ordered(program.rules))
    for atom in atoms:
        types = program.predicates[atom.predicate].types
        for type_, constant in zip(types, atom.arguments, strict=True):
            if type_ == FLOAT and not _is_number(constant):
                message = f"{constant} is not a number, and the type {FLOAT} has numbers only"
                raise DatabaseError(message, file=file, line=atom.line, column=1)
            if type_ in ordered and not _WHOLE.fullmatch(constant):
                raise DatabaseError(
                    f"{constant} is not a whole number, and constants of type {type_} are compared",
                    file=file,
                    line=atom.line,
                    column=1,
                    hint=f"in {ordered[type_]}",
                )


def _is_number(constant: str) -> bool:
    try:
        return isfinite(float(constant))
    except ValueError:
        return False


def _ordered(rules: Iterable[Rule]) -> Iterator[tuple[str, str]]:
    """Yield the types of the variables that rules order or calculate with, and the rule."""
    for rule in rules:
        types = dict(rule.types)
        for name in ordered_variables(rule.formula):
            if name in types:
                yield types[name], rule.text


def ordered_variables(formula: Formula) -> Iterator[str]:
    """Yield the variables of a formula that stand in `<` and its kin, or in arithmetic."""
    if isinstance(formula, Atom | Compare | Equal):
        for term in arguments(formula):
            if isinstance(formula, Compare) or isinstance(term, Arithmetic):
                yield from (each.name for each in leaves(term) if isinstance(each, Variable))
    for part in subformulas(formula):
        yield from ordered_variables(part)
