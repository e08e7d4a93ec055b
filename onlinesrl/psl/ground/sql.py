"""PSL's join plans as SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from onlinesrl.logic.ast import Atom, Constant, Term, Variable
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.psl.ground.join_plan import RulePlan
from onlinesrl.psl.lang.linear_form import Condition, Conditions


class Cut(NamedTuple):
    """One of so many parts of all ground rules: those with some constants for a plan's first variable.

    That is the first which the plan binds and does not sum over, usually of the first column of the table
    that drives it; ground rules without any are in the first part.
    """

    part: int
    parts: int

    def condition(self, column: str | None = None) -> str:
        """Return the SQL that tells whether a row is in the part, given the variable's column, if any."""
        if column is None:
            return "true" if self.part == 0 else "false"
        mixed = (
            f"(({column}::BIGINT * 2654435761) & 4294967295) >> 16"  # Knuth's multiplicative hash
        )
        return f"({mixed}) % {self.parts} = {self.part}"


ORDER = "%"
"""The table of the constants' ranks in the order of ``%``."""


@dataclass(frozen=True, slots=True)
class SqlPlan:
    """A plan as SQL expressions.

    ``atoms`` are the numbers of the atoms, in the order of the form's terms, ``bindings`` the constants
    of the plan's variables. ``unlisted`` is true for rows with an unlisted atom of an open predicate.
    ``order`` are the outer variables of a plan with summations.
    """

    atoms: tuple[str, ...]
    bindings: tuple[str, ...]
    body: str
    order: tuple[str, ...]
    unlisted: str

    def rows(self, with_bindings: bool) -> str:
        """Return the query for all rows, sorted by ground rule."""
        columns = self.atoms + (self.bindings if with_bindings else ())
        text = f"SELECT {', '.join(columns) or '0'}\n{self.body}"
        return text + (f"\nORDER BY {', '.join(self.order)}" if self.order else "")

    def first_unlisted(self) -> str:
        """Return the query for the bindings and atoms of one row with an unlisted atom."""
        columns = ", ".join(self.bindings + self.atoms)
        return f"SELECT {columns}\n{self.body}\n  AND ({self.unlisted})\nLIMIT 1"


@dataclass
class SqlWriter:
    """Translates a plan to SQL; ``opened``: predicates with targets, ``number``: of each constant."""

    plan: RulePlan
    opened: Collection[str]
    number: Mapping[str, int]
    cut: Cut | None
    place: dict[str, str] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    orders: dict[str, str] = field(default_factory=dict)

    def query(self) -> SqlPlan:
        """Return the plan's SQL."""
        plan, form = self.plan, self.plan.form
        self.where += map(self._check, plan.first)
        for step in plan.steps:
            self._join(f"t{step.term}", step.atom)
            self.where += map(self._check, step.checks)
        if not self.tables:
            self.tables.append("FROM (SELECT 0)")
        if self.cut is not None:
            driving = [self.place[name] for name in plan.outer[:1]]
            self.where.append(self.cut.condition(*driving))
        first = len(plan.steps)
        looked_up = {f"t{first + n}": lookup.atom for n, lookup in enumerate(form.lookups)}
        for alias, atom in looked_up.items():
            on = self._match(alias, atom) or ["true"]
            self.tables.append(f"LEFT JOIN {_table(atom, alias)} ON {' AND '.join(on)}")
            if plan.clause:
                self.where.append(f"coalesce({alias}.value, 0) < 1")
        targets = [
            f"t{step.term}.variable >= 0"
            for step in plan.steps
            if step.atom.predicate in self.opened
        ]
        missed = [alias for alias, atom in looked_up.items() if atom.predicate in self.opened]
        targets += [f"coalesce({alias}.variable, 0) >= 0" for alias in missed]
        if form.weight is not None and not form.summations:
            self.where.append(f"({' OR '.join(targets) or 'false'})")
        return SqlPlan(
            tuple(f"t{n}.atom" for n in range(first))
            + tuple(f"coalesce({alias}.atom, -1)" for alias in looked_up),
            tuple(self.place[name] for name in plan.variables),
            "\n".join([*self.tables, "WHERE " + "\n  AND ".join(self.where or ["true"])]),
            tuple(self.place[name] for name in plan.outer) if form.summations else (),
            " OR ".join(f"{alias}.atom IS NULL" for alias in missed),
        )

    def _join(self, alias: str, atom: Atom) -> None:
        on = self._match(alias, atom)
        if not self.tables:
            self.tables.append(f"FROM {_table(atom, alias)}")
            self.where += on
        elif on:
            self.tables.append(f"JOIN {_table(atom, alias)} ON {' AND '.join(on)}")
        else:
            self.tables.append(f"CROSS JOIN {_table(atom, alias)}")
        if self.plan.clause:
            self.where.append(f"coalesce({alias}.value, 1) > 0")

    def _match(self, alias: str, atom: Atom) -> list[str]:
        """Return the join conditions for bound arguments, and bind the others."""
        on = []
        for n, term in enumerate(atom.terms):
            column = f"{alias}.c{n}"
            if isinstance(term, Variable) and term.name not in self.place:
                self.place[term.name] = column
            else:
                on.append(f"{column} = {self._argument(term)}")
        return on

    def _argument(self, term: Term) -> str:
        if isinstance(term, Variable):
            return self.place[term.name]
        assert isinstance(term, Constant)
        return str(self.number[term.name])

    def _check(self, check: Conditions) -> str:
        choices = [" AND ".join(map(self._condition, choice)) for choice in check]
        return choices[0] if len(choices) == 1 else f"({' OR '.join(choices) or 'false'})"

    def _condition(self, condition: Condition) -> str:
        if isinstance(condition, Literal):
            text = " AND ".join(
                [*self._match("e", condition.atom), "e.variable < 0", "e.value > 0"]
            )
            text = f"EXISTS (SELECT 1 FROM {_table(condition.atom, 'e')} WHERE {text})"
            return text if condition.positive else f"NOT {text}"
        assert isinstance(condition, Compared)
        if condition.op == "=":
            op = "=" if condition.positive else "<>"
            return f"{self._argument(condition.left)} {op} {self._argument(condition.right)}"
        op = "<" if condition.positive else ">="
        return f"{self._rank(condition.left)} {op} {self._rank(condition.right)}"

    def _rank(self, term: Term) -> str:
        """Return the rank of a constant, after joining the table of ranks."""
        constant = self._argument(term)
        if constant not in self.orders:
            self.orders[constant] = alias = f"o{len(self.orders)}"
            start = "JOIN" if self.tables else "FROM (SELECT 0) JOIN"
            self.tables.append(f'{start} "{ORDER}" AS {alias} ON {alias}.constant = {constant}')
        return f"{self.orders[constant]}.rank"


def _table(atom: Atom, alias: str) -> str:
    return f'"{atom.predicate}" AS {alias}'
