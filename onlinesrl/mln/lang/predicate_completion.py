"""Predicate completion of definite clauses (Clark 1978; in MLNs as LoMRF's decomposed mode).

A definite clause ``head :- body`` means ``body => head``, with its weight. The completion adds the
converse as one hard rule per head predicate: an atom is true only if the body of one of the
predicate's clauses is true. Variables that occur only in the body are existentially quantified.
Constants, functions and repeated variables in a head become equations in the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onlinesrl.logic.ast import (
    And,
    Atom,
    Equal,
    Exists,
    Formula,
    Implies,
    Leaf,
    Or,
    Position,
    Predicate,
    Rule,
    Variable,
    free_variables,
    fresh_name,
    replace_leaves,
    replace_terms,
    variable_names,
)
from onlinesrl.logic.cnf import disjunctions
from onlinesrl.logic.source import Source
from onlinesrl.logic.text import show


@dataclass(frozen=True, slots=True)
class Definite:
    """A definite clause ``body => head``, with its position and the types of its variables."""

    formula: Implies
    position: Position
    types: tuple[tuple[str, str], ...]
    source: Source

    @property
    def head(self) -> Atom:
        """The head atom."""
        assert isinstance(self.formula.right, Atom)
        return self.formula.right


def completions(
    definite: Iterable[Definite], predicates: Mapping[str, Predicate]
) -> tuple[Rule, ...]:
    """Return the completion of each head predicate, in the order of the predicates' first clauses.

    Raises the error of the source, at the predicate's first clause, if a completion is too large.
    """
    groups: dict[str, list[Definite]] = {}
    for clause in definite:
        groups.setdefault(clause.head.predicate, []).append(clause)
    rules: list[Rule] = []
    for predicate, group in groups.items():
        terms_of_head, position = group[0].head.terms, group[0].position
        head_variables = variable_names(group[0].head)
        names: list[str] = []  # of the head's arguments, distinct: their variables' if possible
        for term in terms_of_head:
            if isinstance(term, Variable) and term.name not in names:
                names.append(term.name)
            else:
                names.append(fresh_name("x", {*head_variables, *names}))
        types = dict(zip(names, predicates[predicate].types, strict=True))
        bodies = tuple(_body(clause, names, types) for clause in group)
        head = Atom(predicate, tuple(map(Variable, names)))
        formula = Implies(head, Or(bodies) if len(bodies) > 1 else bodies[0])
        try:
            disjunctions(formula)
        except ValueError as error:
            message = f"too many clauses have the head {predicate}: {error} of their completion"
            raise group[0].source.error(message, position) from None
        kinds = tuple(types.items())
        rules.append(Rule(formula, None, True, position, show(formula), types=kinds))
    return tuple(rules)


def _body(clause: Definite, names: Sequence[str], types: dict[str, str]) -> Formula:
    """Return the condition under which a clause makes the head over ``names`` true; add to ``types``."""
    renaming: dict[str, str] = {}
    equations: list[tuple[str, int]] = []
    for index, (name, term) in enumerate(zip(names, clause.head.terms, strict=True)):
        if isinstance(term, Variable) and term.name not in renaming:
            renaming[term.name] = name
        else:
            equations.append((name, index))
    clause_types = dict(clause.types)
    for name, type_ in clause_types.items():
        if name not in renaming:
            renaming[name] = (
                name if name not in types else fresh_name(name, {*types, *clause_types})
            )
            types[renaming[name]] = type_

    def renamed(leaf: Leaf) -> Leaf:
        return Variable(renaming[leaf.name]) if isinstance(leaf, Variable) else leaf

    equal = [
        Equal(Variable(name), replace_leaves(clause.head.terms[index], renamed))
        for name, index in equations
    ]
    body = replace_terms(clause.formula.left, renamed)
    parts = (*equal, *(body.operands if isinstance(body, And) else (body,)))
    formula = And(parts) if len(parts) > 1 else body
    quantified = tuple(name for name in free_variables(formula) if name not in names)
    return Exists(quantified, formula) if quantified else formula
