"""PSL's rules to linear forms: what is grounded, and the hinge or constraint of each ground row.

A ground row gives ``l(y) = constant + sum of coefficient * value``. A weighted form is the potential
``weight * max(l(y), 0) ** power`` (Srinivasan 2020, equation 2.11), a hard one the constraint
``l(y) <= 0``, or ``l(y) = 0`` with ``equality``.

A logical rule is the conjunction of its clauses, as in Boolean logic. PSL takes rules of one clause
only; here a body with a disjunction or a head with a conjunction gives a form for each clause.
Each has the whole weight of the rule and shares it: learning sees one weight, the sum of the
potentials. As in PSL a literal that a clause repeats counts once, and tautologies are dropped.
A clause's ``l`` is its distance to satisfaction in Lukasiewicz's logic (equations 2.8 to 2.12),
``1 - sum of its positive literals' atoms - sum of (1 - atom) of its negative ones``.

An arithmetic rule ``left <= right`` has ``l = left - right``. A weighted equality becomes two hinges,
``l`` and ``-l``, that share the weight; a hard one stays one equality.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from onlinesrl.logic.ast import Atom, Formula, Not, Variable, terms
from onlinesrl.logic.cnf import Compared, Disjunction, Literal, disjunctions, negated, variables
from onlinesrl.psl.lang.ast import (
    ArithmeticRule,
    Coefficient,
    LogicalRule,
    Number,
    PslProgram,
    PslRule,
    Summand,
    operation,
    summed,
)

Condition: TypeAlias = Literal | Compared
"""In a filter a literal asks whether an atom is listed with a value above 0; ``%`` is an order."""

_MINUS_ONE = Number(-1.0)
_TRUE: tuple[tuple[Condition, ...], ...] = ((),)


@dataclass(frozen=True, slots=True)
class LinearTerm:
    """``coefficient * atom``; with summation variables, each row's atoms have that coefficient."""

    coefficient: Coefficient
    atom: Atom


@dataclass(frozen=True, slots=True)
class Summation:
    """A summation variable: it takes the constants for which one of ``choices`` holds entirely.

    A condition names the variable and those that the rule's other atoms bind. No filter is one
    empty choice.
    """

    variable: str
    choices: tuple[tuple[Condition, ...], ...]


@dataclass(frozen=True, slots=True)
class NormalRule:
    """One linear form of a rule, as a planner of joins wants it; see this module for its meaning.

    ``joins``: atoms whose listed rows, observed and target, bind the form's variables. A logical
    rule's are its body's, an arithmetic one's all that have no summation variable.
    ``sums``: atoms of arithmetic rules with summation variables. They are joined, too, after the
    filters; the rows are then grouped by the variables that are not summed. A group without a row
    is no ground row. ``|X|`` is the number of constants that X takes in the group.
    ``lookups``: atoms whose variables the joins bind; one that is not listed is 0 if its predicate
    has no targets, else an error.
    ``computed``: atoms whose values a Python function gives for bound constants.
    ``comparisons``: all must hold; ``=`` and ``%`` (the left constant comes before the right one: by
    value if both are integers, else as text), or their negation.
    ``summations``: one for each summation variable.
    ``rule`` is the index of the rule in the program; forms with the same one share the weight.
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
    """Return the linear forms of a program's rules in their order."""
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
    joined = [*form.joins, *form.sums]
    bound = {leaf.name for each in joined for leaf in terms(each.atom) if _is_variable(leaf)}
    for each in (*form.lookups, *form.computed):
        yield from (leaf.name for leaf in terms(each.atom) if _is_variable(leaf, bound))
    outer = bound - {each.variable for each in form.summations}
    for compared in form.comparisons:
        yield from (name for name in variables(compared) if name not in outer)
    for each_sum in form.summations:
        own = outer | {each_sum.variable}
        for condition in (each for choice in each_sum.choices for each in choice):
            yield from (name for name in variables(condition) if name not in own)


def _is_variable(leaf: object, without: Collection[str] = ()) -> bool:
    return isinstance(leaf, Variable) and leaf.name not in without


def _logical(
    rule: LogicalRule, index: int, part: Disjunction, functions: Collection[str]
) -> NormalRule:
    """Return the form of one clause."""
    literals = [each for each in part if isinstance(each, Literal)]
    computed = [each for each in literals if each.atom.predicate in functions]
    listed = [each for each in literals if each.atom.predicate not in functions]
    return NormalRule(
        rule=index,
        joins=tuple(_term(each) for each in listed if not each.positive),
        sums=(),
        lookups=tuple(_term(each) for each in listed if each.positive),
        computed=tuple(map(_term, computed)),
        comparisons=tuple(_failing(each) for each in part if isinstance(each, Compared)),
        summations=(),
        constant=Number(1.0 - sum(not each.positive for each in literals)),
        weight=rule.weight,
        power=rule.power,
    )


def _term(literal: Literal) -> LinearTerm:
    return LinearTerm(Number(-1.0 if literal.positive else 1.0), literal.atom)


def _failing(compared: Compared) -> Compared:
    """Return what must hold for a comparison to leave its clause open."""
    return Compared(not compared.positive, compared.op, compared.left, compared.right)


def _arithmetic(
    rule: ArithmeticRule, index: int, functions: Collection[str], turned: bool
) -> NormalRule:
    """Return the form of ``left - right``, or of ``right - left``."""
    coefficients: dict[Atom | None, Coefficient] = {None: Number(0.0)}
    for side, minus in ((rule.left, turned), (rule.right, not turned)):
        for summand in side:
            _add(coefficients, summand, minus)
    constant = coefficients.pop(None)
    linear = [LinearTerm(value, atom) for atom, value in coefficients.items() if atom]
    computed = tuple(each for each in linear if each.atom.predicate in functions)
    listed = [each for each in linear if each.atom.predicate not in functions]
    names = (name for each in linear for name in summed(each.atom))
    filters = {each.variable: _choices(each.condition) for each in rule.filters}
    return NormalRule(
        rule=index,
        joins=tuple(each for each in listed if not summed(each.atom)),
        sums=tuple(each for each in listed if summed(each.atom)),
        lookups=(),
        computed=computed,
        comparisons=(),
        summations=tuple(Summation(name, filters.get(name, _TRUE)) for name in names),
        constant=constant,
        weight=rule.weight,
        power=rule.power,
        equality=rule.op == "=" and rule.weight is None,
    )


def _add(coefficients: dict[Atom | None, Coefficient], summand: Summand, minus: bool) -> None:
    """Add a summand, or its negative, to the coefficient of its atom."""
    value = operation("*", _MINUS_ONE, summand.coefficient) if minus else summand.coefficient
    known = coefficients.get(summand.atom, Number(0.0))
    added = value if known == Number(0.0) else operation("+", known, value)
    coefficients[summand.atom] = added


def _choices(condition: Formula) -> tuple[tuple[Condition, ...], ...]:
    """Return a filter's disjunctive normal form."""
    return tuple(tuple(map(negated, part)) for part in disjunctions(Not(condition)))
