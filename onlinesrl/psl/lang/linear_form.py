"""PSL's rules as linear forms, which are grounded to hinges and constraints.

A ground row has the form ``l(y) = constant + sum of coefficient * value``. A weighted form is the
potential ``weight * max(l(y), 0) ** power`` (Srinivasan 2020, equation 2.11), a hard one the constraint
``l(y) <= 0``, or ``l(y) = 0`` with ``equality``.

A logical rule is the conjunction of its clauses. PSL accepts only rules of one clause; here a
disjunction in the body or a conjunction in the head gives a form for each clause. They share the weight
of the rule: its feature is the sum of their potentials. As in PSL, a repeated literal counts once, and
tautologies are left out. The ``l`` of a clause is its distance to satisfaction in Lukasiewicz logic
(equations 2.8 to 2.12), ``1 - sum of positive atoms - sum of (1 - atom) of negated atoms``.

An arithmetic rule ``left <= right`` has ``l = left - right``. A weighted equality becomes two hinges,
``l`` and ``-l``, that share the weight; a hard equality stays one form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from onlinesrl.logic.ast import Atom, Not, Variable, terms
from onlinesrl.logic.cnf import Compared, Disjunction, Literal, disjunctions, negated, variables
from onlinesrl.psl.lang.ast import (
    ArithmeticRule,
    Coefficient,
    LogicalRule,
    Number,
    PslProgram,
    PslRule,
    operation,
    summed,
)

Condition: TypeAlias = Literal | Compared
"""A literal in a filter holds if its atom is listed with a value above 0; ``%`` is an order."""
Conditions: TypeAlias = tuple[tuple[Condition, ...], ...]
"""Conditions in disjunctive normal form: in one of the conjunctions, all must hold."""

_MINUS_ONE = Number(-1.0)
_TRUE: Conditions = ((),)


@dataclass(frozen=True, slots=True)
class LinearTerm:
    """``coefficient * atom``; with summation variables, the coefficient of each summed atom."""

    coefficient: Coefficient
    atom: Atom


@dataclass(frozen=True, slots=True)
class Summation:
    """A summation variable and its filter in disjunctive normal form.

    A condition may use the variable and those bound by other atoms. No filter is one empty conjunction.
    """

    variable: str
    choices: Conditions


@dataclass(frozen=True, slots=True)
class NormalRule:
    """One linear form of a rule; see the module's docstring.

    ``joins``: atoms whose listed rows, observed and target, bind the form's variables: those of a
    logical rule's body, or those of an arithmetic rule without summation variable.
    ``sums``: atoms with summation variables. They are joined after the filters; rows are then grouped by
    the other variables. An empty group gives no ground row. ``|X|`` is the number of constants of X in
    the group.
    ``lookups``: atoms whose variables the joins bind; an unlisted one is 0 if its predicate has no
    targets, else an error.
    ``computed``: atoms whose values a Python function computes.
    ``comparisons``: all must hold; ``=`` and ``%`` (the left constant comes before the right one: integers
    come first, by value; equal ones and all others by text), or their negation.
    ``summations``: one for each summation variable.
    ``rule`` is the index of the rule in the program; its forms share a weight.
    ``weight`` is None for a hard rule.
    """

    rule: int
    joins: tuple[LinearTerm, ...]
    sums: tuple[LinearTerm, ...]
    lookups: tuple[LinearTerm, ...]
    computed: tuple[LinearTerm, ...]
    comparisons: tuple[Compared, ...]
    summations: tuple[Summation, ...]
    constant: Coefficient
    weight: float | None
    power: int
    equality: bool = False

    @property
    def terms(self) -> tuple[LinearTerm, ...]:
        """All terms: joins, sums, lookups, computed."""
        return self.joins + self.sums + self.lookups + self.computed


def normal_rules(program: PslProgram) -> tuple[NormalRule, ...]:
    """Return the linear forms of a program's rules in order."""
    return tuple(
        form
        for index, rule in enumerate(program.rules)
        for form in normal_forms(rule, index, program.functions)
    )


def normal_forms(rule: PslRule, index: int, functions: Collection[str]) -> list[NormalRule]:
    """Return the linear forms of the ``index``-th rule; ``functions`` are computed predicates."""
    if isinstance(rule, LogicalRule):
        parts = disjunctions(rule.formula)
        return [_logical(rule, index, part, functions) for part in parts]
    below = _arithmetic(rule, index, functions, rule.op == ">=")
    if rule.op == "=" and rule.weight is not None:
        return [below, _arithmetic(rule, index, functions, True)]
    return [below]


def unbound(form: NormalRule) -> Iterator[str]:
    """Yield the variables that no join binds."""
    bound = {name for term in form.joins + form.sums for name in _variables(term)}
    for term in form.lookups + form.computed:
        yield from (name for name in _variables(term) if name not in bound)
    outer = bound - {summation.variable for summation in form.summations}
    for compared in form.comparisons:
        yield from (name for name in variables(compared) if name not in outer)
    for summation in form.summations:
        in_scope = outer | {summation.variable}
        for condition in chain(*summation.choices):
            yield from (name for name in variables(condition) if name not in in_scope)


def _variables(term: LinearTerm) -> list[str]:
    return [leaf.name for leaf in terms(term.atom) if isinstance(leaf, Variable)]


def _logical(
    rule: LogicalRule, index: int, part: Disjunction, functions: Collection[str]
) -> NormalRule:
    """Return the form of one clause."""
    literals = [literal for literal in part if isinstance(literal, Literal)]
    computed = [literal for literal in literals if literal.atom.predicate in functions]
    listed = [literal for literal in literals if literal.atom.predicate not in functions]
    return NormalRule(
        rule=index,
        joins=tuple(_term(literal) for literal in listed if not literal.positive),
        sums=(),
        lookups=tuple(_term(literal) for literal in listed if literal.positive),
        computed=tuple(map(_term, computed)),
        comparisons=tuple(
            replace(item, positive=not item.positive) for item in part if isinstance(item, Compared)
        ),
        summations=(),
        constant=Number(1.0 - sum(not literal.positive for literal in literals)),
        weight=rule.weight,
        power=rule.power,
    )


def _term(literal: Literal) -> LinearTerm:
    return LinearTerm(Number(-1.0 if literal.positive else 1.0), literal.atom)


def _arithmetic(
    rule: ArithmeticRule, index: int, functions: Collection[str], turned: bool
) -> NormalRule:
    """Return the form of ``left - right``, or of ``right - left``."""
    coefficients: dict[Atom | None, Coefficient] = {None: Number(0.0)}
    for side, minus in ((rule.left, turned), (rule.right, not turned)):
        for summand in side:
            value = (
                operation("*", _MINUS_ONE, summand.coefficient) if minus else summand.coefficient
            )
            before = coefficients.get(summand.atom, Number(0.0))
            added = value if before == Number(0.0) else operation("+", before, value)
            coefficients[summand.atom] = added
    constant = coefficients.pop(None)
    linear = [LinearTerm(value, atom) for atom, value in coefficients.items() if atom]
    computed = tuple(term for term in linear if term.atom.predicate in functions)
    listed = [term for term in linear if term.atom.predicate not in functions]
    names = (name for term in linear for name in summed(term.atom))
    filters: dict[str, Conditions] = {
        term.variable: tuple(
            tuple(map(negated, part)) for part in disjunctions(Not(term.condition))
        )
        for term in rule.filters
    }
    return NormalRule(
        rule=index,
        joins=tuple(term for term in listed if not summed(term.atom)),
        sums=tuple(term for term in listed if summed(term.atom)),
        lookups=(),
        computed=computed,
        comparisons=(),
        summations=tuple(Summation(name, filters.get(name, _TRUE)) for name in names),
        constant=constant,
        weight=rule.weight,
        power=rule.power,
        equality=rule.op == "=" and rule.weight is None,
    )
