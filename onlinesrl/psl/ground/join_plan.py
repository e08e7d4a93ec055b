"""Join plans of PSL's rules: the order in which atoms are joined and conditions checked.

A plan is an immutable value; ``str`` prints it. `onlinesrl.psl.ground.memory_joins` runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod

from onlinesrl.logic.ast import Atom, Compare, Equal, Formula, Not, Variable
from onlinesrl.logic.cnf import Literal, variables
from onlinesrl.psl.lang.ast import LogicalRule, Number, PslProgram
from onlinesrl.psl.lang.linear_form import (
    Condition,
    Conditions,
    LinearTerm,
    NormalRule,
    normal_rules,
)
from onlinesrl.psl.lang.text import show_formula, show_psl_atom

LARGE = 1000.0
"""The assumed number of constants of an argument when the data are unknown."""


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rows of a relation, and of distinct constants in each column."""

    rows: int
    constants: Sequence[int]


@dataclass(frozen=True, slots=True)
class JoinStep:
    """The join of one atom.

    ``term`` is its index in the form's ``terms``; ``keys`` are the columns bound by constants or earlier
    steps; ``checks`` are the conditions whose variables are bound after the step.
    """

    term: int
    atom: Atom
    keys: tuple[int, ...]
    checks: tuple[Conditions, ...]


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The plan for grounding one linear form.

    ``variables`` are in the order in which the steps bind them. ``first`` are checks without
    variables. ``clause``: the form is a clause, so a joined atom of value 0 or a looked up atom of
    value 1 satisfies it and there is no row. Rows of weighted rules without a target are left out too.
    """

    form: NormalRule
    clause: bool
    variables: tuple[str, ...]
    first: tuple[Conditions, ...]
    steps: tuple[JoinStep, ...]

    @property
    def needs_bindings(self) -> bool:
        """Whether ground rules depend on the constants of variables, not on atoms alone."""
        return bool(self.form.summations or self.form.computed)

    @property
    def outer(self) -> tuple[str, ...]:
        """The variables that are not summed; rows that agree on them form one ground rule."""
        summed = {summation.variable for summation in self.form.summations}
        return tuple(name for name in self.variables if name not in summed)

    def __str__(self) -> str:
        lines = [f"check {_check_text(item)}" for item in self.first]
        for step in self.steps:
            keys = ", ".join(str(column + 1) for column in step.keys)
            lines.append(
                f"join {show_psl_atom(step.atom)}" + (f" by argument {keys}" if keys else "")
            )
            lines += [f"  check {_check_text(item)}" for item in step.checks]
        lines += [f"look up {show_psl_atom(item.atom)}" for item in self.form.lookups]
        lines += [f"compute {show_psl_atom(item.atom)}" for item in self.form.computed]
        if self.form.summations:
            lines.append(f"group by {', '.join(self.outer) or 'nothing'}")
        return "\n".join(lines)


def plan_program(program: PslProgram, sizes: Mapping[str, Size] | None = None) -> list[RulePlan]:
    """Return the plans of a program's linear forms; ``sizes``: of all relations, if known."""
    forms = normal_rules(program)
    return [
        plan_form(form, isinstance(program.rules[form.rule], LogicalRule), sizes) for form in forms
    ]


def plan_form(
    form: NormalRule,
    clause: bool,
    sizes: Mapping[str, Size] | None = None,
    given: Iterable[str] = (),
) -> RulePlan:
    """Return the plan of one form: a greedy join order by estimated fanout.

    Estimates assume that rows are spread evenly over the constants of each column. Ties are broken by
    the order in the rule. The ``given`` variables are bound before the first step.
    """
    remaining = dict(enumerate(term.atom for term in form.joins + form.sums))
    pending: list[Conditions] = [((compared,),) for compared in form.comparisons]
    pending += [item.choices for item in form.summations if () not in item.choices]
    bound = dict.fromkeys(given)
    first = _ready(pending, bound)
    steps = []
    while remaining:
        steps.append(_next_step(remaining, pending, bound, sizes))
    return RulePlan(form, clause, tuple(bound), first, tuple(steps))


def pinned_plan(
    form: NormalRule, atom: Atom, outer: Collection[str], opened: Collection[str]
) -> RulePlan:
    """Return a plan that starts with the constants of an atom, and binds the ``outer`` variables of a form.

    It leads to all ground rules that may have the atom, or to those that may have a target beside it; they
    are the same for a hard rule, and for one with summations. ``opened`` predicates may have targets.
    """
    remaining = {n: term.atom for n, term in enumerate(form.joins + form.sums) if term.atom != atom}
    pending: list[Conditions] = [((compared,),) for compared in form.comparisons]
    bound = dict.fromkeys(leaf.name for leaf in atom.terms if isinstance(leaf, Variable))
    first = _ready(pending, bound)
    steps = []
    while not {*outer} <= bound.keys() or any(
        len(_keys(joined, bound)) == len(joined.terms) for joined in remaining.values()
    ):
        steps.append(replace(_next_step(remaining, pending, bound, None), term=0))
    beside = {term.atom for term in form.joins + form.lookups if term.atom.predicate in opened}
    beside -= {atom, *(step.atom for step in steps)}
    bare = BARE
    if form.weight is not None and not form.summations:
        lookups = [LinearTerm(Number(0.0), other) for other in sorted(beside, key=str)]
        bare = replace(BARE, lookups=(*lookups,), weight=1.0)
    return RulePlan(bare, False, tuple(bound), first, tuple(steps))


BARE = NormalRule(0, (), (), (), (), (), (), Number(0.0), None, 1)
"""The form of plans that lead to ground rules of several forms."""


def _next_step(
    remaining: dict[int, Atom],
    pending: list[Conditions],
    bound: dict[str, None],
    sizes: Mapping[str, Size] | None,
) -> JoinStep:
    """Remove the atom of least fanout; return its join, and bind its variables."""
    term = min(remaining, key=lambda n: _fanout(remaining[n], bound, sizes))
    atom = remaining.pop(term)
    keys = _keys(atom, bound)
    bound |= dict.fromkeys(leaf.name for leaf in atom.terms if isinstance(leaf, Variable))
    return JoinStep(term, atom, keys, _ready(pending, bound))


def _ready(pending: list[Conditions], bound: Mapping[str, None]) -> tuple[Conditions, ...]:
    """Remove and return the checks whose variables are bound."""
    ready = tuple(
        check
        for check in pending
        if all(name in bound for condition in chain(*check) for name in variables(condition))
    )
    pending[:] = [check for check in pending if check not in ready]
    return ready


def _fanout(atom: Atom, bound: Mapping[str, None], sizes: Mapping[str, Size] | None) -> float:
    """Estimate how many rows of an atom's relation match one row so far."""
    keys = _keys(atom, bound)
    if sizes is None:
        return LARGE ** (len(atom.terms) - len(keys))
    size = sizes[atom.predicate]
    return size.rows / max(1, min(size.rows, prod(size.constants[column] for column in keys)))


def _keys(atom: Atom, bound: Mapping[str, None]) -> tuple[int, ...]:
    return tuple(
        column
        for column, term in enumerate(atom.terms)
        if not isinstance(term, Variable) or term.name in bound
    )


def _check_text(check: Conditions) -> str:
    def text(condition: Condition) -> str:
        formula: Formula
        if isinstance(condition, Literal):
            formula = condition.atom
        elif condition.op == "=":
            formula = Equal(condition.left, condition.right)
        else:
            formula = Compare(condition.op, condition.left, condition.right)
        return show_formula(formula if condition.positive else Not(formula))

    return " | ".join(" & ".join(map(text, choice)) for choice in check)
