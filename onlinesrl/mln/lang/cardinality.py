"""Cardinality constraints, as in RockIt: hard formulas that bound the number of true atoms."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from onlinesrl.logic.ast import (
    And,
    Atom,
    Equal,
    Exists,
    Formula,
    Leaf,
    Not,
    Or,
    Position,
    Predicate,
    Rule,
    Variable,
    fresh_name,
    replace_terms,
    variable_names,
)
from onlinesrl.logic.text import show
from onlinesrl.mln.lang.statements import Cardinality

MAX_AT_MOST = 4
"""The largest bound of a cardinality; a clause of bound k has k + 1 atoms."""


def counted(rule: Rule, cardinality: Cardinality, closed: Container[str]) -> Rule:
    """Return the hard rule of a cardinality, given the clause that it counts.

    It counts the atom of the only predicate that is not ``closed``, if all other literals of the clause are
    false. Raises ValueError, with a message, for unsupported cardinalities.
    """
    over, op, bound = cardinality.over, cardinality.op, cardinality.bound
    literals = rule.formula.operands if isinstance(rule.formula, Or) else (rule.formula,)
    atoms = [literal for literal in literals if _is_open(literal, closed)]
    conditions = [_negated(literal) for literal in literals if not _is_open(literal, closed)]
    if len(atoms) != 1 or not isinstance(atoms[0], Atom):
        raise ValueError(
            "a cardinality counts one atom without sign, of a predicate not marked `*`"
        )
    atom_variables = {*variable_names(atoms[0])}
    if not {*over} <= atom_variables:
        raise ValueError(
            f"the counted atom does not have {', '.join(sorted({*over} - atom_variables))}"
        )
    if not 1 <= bound <= (MAX_AT_MOST if op == "<=" else 1):
        raise ValueError(f"a cardinality is from <= 1 to <= {MAX_AT_MOST}, or >= 1")
    if op == "<=":
        return _typed(rule, *_at_most(atoms[0], conditions, over, bound))
    (copy,) = _copies([atoms[0], *conditions], over, 1)
    body = tuple(_renamed(formula, copy) for formula in (*conditions, atoms[0]))
    existential = Exists(tuple(copy.values()), And(body) if len(body) > 1 else body[0])
    parts: tuple[Formula, ...] = (*map(_negated, conditions), existential)
    formula = Or(parts) if len(parts) > 1 else existential
    return _typed(rule, formula, {new: old for old, new in copy.items()})


def functional(predicate: Predicate, arguments: Sequence[int], position: Position) -> Rule:
    """Return the hard rule that at most one atom is true among atoms that differ only in ``arguments``."""
    names = [f"x{number}" for number in range(1, len(predicate.types) + 1)]
    atom = Atom(predicate.name, tuple(map(Variable, names)))
    types = tuple(zip(names, predicate.types, strict=True))
    rule = Rule(atom, None, True, position, "", types=types)
    return _typed(rule, *_at_most(atom, (), [names[index] for index in arguments], 1))


def _typed(rule: Rule, formula: Formula, new: Mapping[str, str]) -> Rule:
    """Return the rule with another formula; ``new`` maps new variables to old ones of the same type."""
    types = dict(rule.types)
    types |= {name: types[old] for name, old in new.items()}
    names = variable_names(formula)
    pairs = tuple((name, type_) for name, type_ in types.items() if name in names)
    return replace(rule, formula=formula, text=show(formula), types=pairs)


def _at_most(
    atom: Atom, conditions: Sequence[Formula], over: Sequence[str], bound: int
) -> tuple[Formula, dict[str, str]]:
    """Return the clause that of any ``bound`` + 1 atoms, two are equal or one is false.

    The second result maps new variables to the old variables that they copy.
    """
    copies = _copies([atom, *conditions], over, bound + 1)
    parts: list[Formula] = []
    for copy in copies:
        parts += [_negated(_renamed(part, copy)) for part in (*conditions, atom)]
    parts = [part for index, part in enumerate(parts) if part not in parts[:index]]
    for first, second in combinations(copies, 2):
        equal = tuple(Equal(Variable(first[name]), Variable(second[name])) for name in over)
        parts.append(And(equal) if len(equal) > 1 else equal[0])
    return Or(tuple(parts)), {new: old for copy in copies for old, new in copy.items()}


def _is_open(literal: Formula, closed: Container[str]) -> bool:
    atom = literal.operand if isinstance(literal, Not) else literal
    return isinstance(atom, Atom) and atom.predicate not in closed


def _negated(literal: Formula) -> Formula:
    return literal.operand if isinstance(literal, Not) else Not(literal)


def _copies(formulas: Sequence[Formula], over: Sequence[str], number: int) -> list[dict[str, str]]:
    """Return ``number`` mappings of the variables ``over`` to new names."""
    used = {name for formula in formulas for name in variable_names(formula)}
    copies: list[dict[str, str]] = [{} for _ in range(number)]
    for name in over:
        for copy in copies:
            copy[name] = fresh_name(name, used)
            used.add(copy[name])
    return copies


def _renamed(formula: Formula, names: Mapping[str, str]) -> Formula:
    def new(leaf: Leaf) -> Leaf:
        return Variable(names.get(leaf.name, leaf.name)) if isinstance(leaf, Variable) else leaf

    return replace_terms(formula, new)
