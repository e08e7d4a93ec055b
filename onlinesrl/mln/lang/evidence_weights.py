"""Numbers that rules take from evidence, in Tuffy and RockIt: weights and compared integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isfinite

from onlinesrl.core.errors import DatabaseError, DataError, ModelError
from onlinesrl.core.example import GroundAtom
from onlinesrl.logic.ast import (
    Arithmetic,
    Atom,
    Compare,
    Equal,
    Formula,
    Program,
    Variable,
    arguments,
    leaves,
    subformulas,
)
from onlinesrl.logic.dialect import FLOAT
from onlinesrl.logic.text import WHOLE


def with_weights(program: Program, atoms: Iterable[GroundAtom]) -> Program:
    """Return the program with the weights that rules take from evidence.

    Each such rule becomes a family. It has one row for each number of the weight's type in the atoms or the
    program. Raises DataError for a constant of the type that is no number.
    """
    if all(rule.weight_variable is None for rule in program.rules):
        return program
    numbers = dict.fromkeys(program.types.get(FLOAT, ()))
    for atom in atoms:
        numbers |= dict.fromkeys(numbers_in(program, atom.predicate, atom.arguments))
    return with_table(program, numbers)


def with_table(program: Program, numbers: Iterable[str]) -> Program:
    """Return the program whose rules with weights from evidence are families with a row for each number."""
    if all(rule.weight_variable is None for rule in program.rules):
        return program
    table = tuple(((constant,), float(constant)) for constant in numbers)
    rules = (
        rule if rule.weight_variable is None else replace(rule, table=table, weight=0.0)
        for rule in program.rules
    )
    return replace(program, rules=tuple(rules))


def numbers_in(program: Program, predicate: str, constants: Iterable[str]) -> Iterator[str]:
    """Yield the constants of an atom that may be weights. Raises DataError for one that is no number."""
    for type_, constant in zip(program.predicates[predicate].types, constants, strict=True):
        if type_ == FLOAT:
            if not _is_number(constant):
                raise DataError(f"{predicate}: {_no_number(constant)}")
            yield constant


def check_learned(program: Program) -> None:
    """Raise ModelError for a rule whose weight is not learned; learners change the weights of all rules."""
    for rule in program.rules:
        if rule.fixed or rule.weight_variable is not None:
            raise ModelError(
                "a learner changes the weights of all soft rules, but the weight of this rule is fixed or "
                f"comes from evidence: {rule.text}",
                file=program.file,
                line=rule.position.line,
                column=rule.position.column,
                hint="remove the mark; infer, ground, count and worlds support such rules",
            )


def check_numbers(program: Program, atoms: Iterable[GroundAtom], file: str) -> None:
    """Check that weights are numbers, and that constants in comparisons and arithmetic are integers.

    Raises DatabaseError at the first bad atom of the file. The predicates must be declared.
    """
    # the text of a rule, by the types of variables that it compares or adds
    ordered: dict[str, str] = {}
    for rule in program.rules:
        types_of = dict(rule.types)
        names = (name for name in ordered_variables(rule.formula) if name in types_of)
        ordered |= {types_of[name]: rule.text for name in names}
    for atom in atoms:
        types = program.predicates[atom.predicate].types
        for type_, constant in zip(types, atom.arguments, strict=True):
            if type_ == FLOAT and not _is_number(constant):
                raise DatabaseError(_no_number(constant), file=file, line=atom.line, column=1)
            if type_ in ordered and not WHOLE.fullmatch(constant):
                raise DatabaseError(
                    f"{constant} is not a whole number, and constants of type {type_} are compared",
                    file=file,
                    line=atom.line,
                    column=1,
                    hint=f"in {ordered[type_]}",
                )


def _no_number(constant: str) -> str:
    return f"{constant} is not a number, and the type {FLOAT} has numbers only"


def _is_number(constant: str) -> bool:
    try:
        return isfinite(float(constant))
    except ValueError:
        return False


def ordered_variables(formula: Formula) -> Iterator[str]:
    """Yield the variables of a formula in order comparisons (`<`, `<=`, ...) or arithmetic."""
    if isinstance(formula, Atom | Compare | Equal):
        for term in arguments(formula):
            if isinstance(formula, Compare) or isinstance(term, Arithmetic):
                yield from (leaf.name for leaf in leaves(term) if isinstance(leaf, Variable))
    for part in subformulas(formula):
        yield from ordered_variables(part)
