"""Conversion of formulas to weighted clauses, with the semantics of Alchemy.

A soft formula becomes a conjunctive normal form of k clauses, each with 1/k of its weight. Two or
more unit clauses count as one clause, their conjunction. Alchemy negates this clause and its weight;
here the clause has sign -1 and keeps the user's weight. A hard formula becomes a plain conjunctive
normal form: every clause must hold.

An existentially quantified part counts as one literal. Alchemy differs: it first grounds the part to
a conjunctive normal form, so that the shares of the weight depend on the number of constants.

Compound terms are replaced by variables, so that literals have only variables and constants.
``P(f(x))`` becomes ``!f(x, y) v P(y)`` in a clause, where f(x, y) is the function's relation.
``P(t + 1)`` becomes P(t1), and only groundings with t1 = t + 1 count. In the conjunction of an
existential part, a term with variables of the part gets a positive literal and a new variable of the
part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from onlinesrl.logic.ast import (
    And,
    Arithmetic,
    Atom,
    Compare,
    Equal,
    Exists,
    Formula,
    Function,
    Leaf,
    Not,
    Or,
    Program,
    Rule,
    Table,
    Term,
    Variable,
    fresh_name,
    leaves,
    replace_terms,
    terms,
)
from onlinesrl.logic.cnf import (
    Compared,
    Disjunct,
    Disjunction,
    Literal,
    Some,
    disjunctions,
    negated,
    simplified,
    variables,
)
from onlinesrl.logic.text import show

Equality: TypeAlias = tuple[bool, Leaf, Leaf]
"""``(True, x, y)`` is ``x = y``, ``(False, x, y)`` is ``x != y``."""

Comparison: TypeAlias = tuple[bool, str, Leaf, Leaf]
"""``(True, op, x, y)`` is ``x op y`` on integers, ``(False, op, x, y)`` its negation.

``op`` is one of ``< <= > >=``, or ``=`` if a side is the result of arithmetic.
"""

Computed: TypeAlias = tuple[Variable, str, Leaf, Leaf]
"""``(v, op, x, y)`` is the condition v = x op y; see `Arithmetic`."""


@dataclass(frozen=True, slots=True)
class Flat:
    """Literals, equalities and comparisons without compound terms."""

    literals: tuple[Literal, ...]
    equalities: tuple[Equality, ...]
    comparisons: tuple[Comparison, ...]


class Names:
    """The variables that name the compound terms of a clause or of one existential part.

    ``outer`` has the names of the clause around an existential part, and ``bound`` the variables of the
    part. ``clause_names`` has all names in the clause. ``literals`` and ``computed`` define the names, in
    order of evaluation; ``fresh`` has the new variables.
    """

    def __init__(
        self, clause_names: set[str], outer: Names | None = None, bound: Iterable[str] = ()
    ) -> None:
        self.literals: list[Literal] = []
        self.computed: list[Computed] = []
        self.fresh: list[str] = []
        self._clause_names = clause_names
        self._outer = outer
        self._bound = frozenset(bound)
        self._names: dict[Term, Leaf] = {}

    def flat(self, parts: Iterable[Literal | Compared]) -> Flat:
        """Replace compound terms by variables, and add the definitions of the variables."""
        literals: list[Literal] = []
        equalities: list[Equality] = []
        comparisons: list[Comparison] = []
        for part in [part for part in parts if not self._defines(part)]:
            if isinstance(part, Literal):
                atom = Atom(part.atom.predicate, tuple(map(self._leaf, part.atom.terms)))
                literals.append(Literal(part.positive, atom))
                continue
            left, right = self._leaf(part.left), self._leaf(part.right)
            numeric = isinstance(part.left, Arithmetic) or isinstance(part.right, Arithmetic)
            if part.op != "=" or numeric:
                comparisons.append((part.positive, part.op, left, right))
            else:
                equalities.append((part.positive, left, right))
        return Flat(tuple(literals), tuple(equalities), tuple(comparisons))

    def _leaf(self, term: Term) -> Leaf:
        """Return a variable or constant as it is, or the variable that names a compound term."""
        if isinstance(term, Function | Arithmetic):
            if self._outer is not None and not self._owns(term):
                return self._outer._leaf(term)
            if term not in self._names:
                stem = "n"
                if isinstance(term, Function):
                    stem = term.name[0].lower() + term.name[1:]
                elif isinstance(term.left, Variable):
                    stem = term.left.name
                name = fresh_name(stem, self._clause_names)
                self._clause_names.add(name)
                self.fresh.append(name)
                self._define(term, Variable(name))
            return self._names[term]
        return term

    def _defines(self, part: Literal | Compared) -> bool:
        """Use ``v != f(x)`` in a clause, or ``v = f(x)`` in a conjunction, to name f(x) by v."""
        if not isinstance(part, Compared) or part.op != "=" or part.positive == (not self._outer):
            return False
        for variable, term in ((part.left, part.right), (part.right, part.left)):
            compound = isinstance(term, Function | Arithmetic) and term not in self._names
            names = {leaf.name for leaf in leaves(term) if isinstance(leaf, Variable)}
            if not isinstance(variable, Variable) or variable.name in names:
                continue
            if compound and self._owns(term):
                self._define(term, variable)
                return True
        return False

    def _owns(self, term: Term) -> bool:
        """Return whether a term is named here, not in the outer clause."""
        names = {leaf.name for leaf in leaves(term) if isinstance(leaf, Variable)}
        return self._outer is None or not names.isdisjoint(self._bound)

    def _define(self, term: Term, variable: Variable) -> None:
        self._names[term] = variable
        match term:
            case Function(name, parts):
                arguments = tuple(self._leaf(part) for part in parts)
                relation = Atom(name, (*arguments, variable))
                self.literals.append(Literal(self._outer is not None, relation))
            case Arithmetic(op, left, right):
                first, second = self._leaf(left), self._leaf(right)
                self.computed.append((variable, op, first, second))


__all__ = ["Clause", "Comparison", "Computed", "Equality", "Existential", "Literal", "clauses"]

Domains: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of a variable that ranges over all constants of a type, and the type."""


@dataclass(frozen=True, slots=True)
class Existential:
    """An existential part: constants for ``variables`` exist that satisfy all listed conditions.

    All other variables belong to the clause. ``domains`` has the part's variables that occur in no literal
    of the conjunction, with their types.
    """

    variables: tuple[str, ...]
    literals: tuple[Literal, ...]
    equalities: tuple[Equality, ...]
    comparisons: tuple[Comparison, ...]
    computed: tuple[Computed, ...]
    domains: Domains


@dataclass(frozen=True, slots=True)
class Clause:
    """A disjunction of literals, equalities, comparisons and existential parts, and its score.

    A state's score has the term ``weight * sign * [the clause is true]`` for each grounding; a hard
    clause must be true. Only groundings count in which all ``computed`` conditions hold and all
    comparisons are between integers. ``domains`` has the variables of the clause and its template that
    occur in none of the clause's own literals. A computed variable that is in no literal (also of no
    existential part) and in no domain is a plain integer, which need not be a constant of the world.

    ``rule`` is the index of the rule in the program. ``template`` has the ``+`` variables of the rule's
    formula in order of first occurrence. ``table`` has the weights of a family by the constants of the
    template, as in `Rule`. ``formula`` is the weighted formula with compound terms: the disjunction or, if
    the sign is -1, its negation.
    """

    rule: int
    literals: tuple[Literal, ...]
    equalities: tuple[Equality, ...]
    comparisons: tuple[Comparison, ...]
    computed: tuple[Computed, ...]
    exists: tuple[Existential, ...]
    domains: Domains
    sign: int
    weight: float | None
    hard: bool
    template: tuple[str, ...]
    table: Table | None
    formula: Formula
    text: str


def clauses(program: Program) -> tuple[Clause, ...]:
    """Return the clauses of all rules, in the order of the rules."""
    return tuple(
        clause for index, rule in enumerate(program.rules) for clause in rule_clauses(rule, index)
    )


def rule_clauses(rule: Rule, index: int = 0) -> tuple[Clause, ...]:
    """Return the clauses of one rule; literals and clauses are in the order of the formula.

    Tautologies and soft clauses without an atom are omitted, because they are constant. They take no
    share of the weight.
    """
    parts = disjunctions(rule.formula)
    signed = [(part, 1) for part in parts] if rule.hard else _soft(parts)
    template = plus_variables(rule.formula)
    return tuple([_clause(rule, index, part, sign, len(signed), template) for part, sign in signed])


def plus_variables(formula: Formula) -> tuple[str, ...]:
    """Return the names of the ``+`` variables in order of first occurrence."""
    plus = (term.name for term in terms(formula) if isinstance(term, Variable) and term.plus)
    return tuple(dict.fromkeys(plus))


def plus_everywhere(formula: Formula, weight: str | None = None) -> Formula:
    """Mark all occurrences of each variable that has a ``+`` anywhere, or is the weight."""
    plus = {term.name for term in terms(formula) if isinstance(term, Variable) and term.plus}
    plus |= {weight} if weight is not None else set()
    if not plus:
        return formula

    def marked(leaf: Leaf) -> Leaf:
        isplus = isinstance(leaf, Variable) and leaf.name in plus
        return Variable(leaf.name, plus=True) if isplus else leaf

    return replace_terms(formula, marked)


def _clause(
    rule: Rule, index: int, part: Disjunction, sign: int, shares: int, template: tuple[str, ...]
) -> Clause:
    free = [name for literal in part for name in variables(literal)]
    bound = (name for literal in part if isinstance(literal, Some) for name in literal.variables)
    names = Names({*free, *bound})
    flat = names.flat([literal for literal in part if not isinstance(literal, Some)])
    types = dict(rule.types)
    exists = tuple(
        _existential(literal, names, types) for literal in part if isinstance(literal, Some)
    )
    literals = (*flat.literals, *names.literals)
    operands = tuple(map(disjunct_formula, part if sign > 0 else map(negated, part)))
    formula: Formula = Or(operands) if sign > 0 else And(operands)
    if len(operands) == 1:
        formula = operands[0]
    return Clause(
        rule=index,
        literals=literals,
        equalities=flat.equalities,
        comparisons=flat.comparisons,
        computed=tuple(names.computed),
        exists=exists,
        domains=_domains(dict.fromkeys([*template, *free]), literals, types),
        sign=sign,
        weight=None if rule.weight is None else rule.weight / shares,
        hard=rule.hard,
        template=template,
        table=rule.table and tuple((key, weight / shares) for key, weight in rule.table),
        formula=formula,
        text=rule.text if shares == 1 else show(formula) if part else "false",
    )


def _existential(part: Some, outer: Names, types: Mapping[str, str]) -> Existential:
    names = Names(outer._clause_names, outer, part.variables)
    flat = names.flat(part.parts)
    literals = (*flat.literals, *names.literals)
    return Existential(
        variables=(*part.variables, *names.fresh),
        literals=literals,
        equalities=flat.equalities,
        comparisons=flat.comparisons,
        computed=tuple(names.computed),
        domains=_domains(part.variables, literals, types),
    )


def _domains(
    names: Iterable[str], literals: Iterable[Literal], types: Mapping[str, str]
) -> Domains:
    """Return the variables that no literal binds, with their types."""
    bound = {t.name for x in literals for t in x.atom.terms if isinstance(t, Variable)}
    return tuple((name, types[name]) for name in names if name not in bound and name in types)


def _soft(parts: list[Disjunction]) -> list[tuple[Disjunction, int]]:
    """Join two or more unit clauses to one clause of sign -1, and omit constant clauses.

    The result is empty for a formula that is false in every state.
    """
    if () in parts:
        return []
    units = [part[0] for part in parts if _is_unit(part)]
    if len(units) < 2:
        return [(part, 1) for part in parts if _has_atom(part)]
    joined = simplified(tuple(map(negated, units)))
    if joined is None:
        return []
    first = next(index for index, part in enumerate(parts) if _is_unit(part))
    signed = [
        (joined, -1) if index == first else (part, 1)
        for index, part in enumerate(parts)
        if index == first or not _is_unit(part)
    ]
    return [(part, sign) for part, sign in signed if _has_atom(part)]


def _is_unit(part: Disjunction) -> bool:
    return len(part) == 1 and not isinstance(part[0], Some)


def _has_atom(part: Disjunction) -> bool:
    return any(isinstance(literal, Literal | Some) for literal in part)


def disjunct_formula(disjunct: Disjunct) -> Formula:
    """Return a disjunct as a formula."""
    formula: Formula
    match disjunct:
        case Literal(positive, atom):
            formula = atom
        case Compared(positive, op, left, right):
            formula = Equal(left, right) if op == "=" else Compare(op, left, right)
        case Some(names, parts):
            inner = tuple(map(disjunct_formula, parts))
            body = And(inner) if len(inner) > 1 else inner[0]
            return Exists(names, body) if names else body
    return formula if positive else Not(formula)
