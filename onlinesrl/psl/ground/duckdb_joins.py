"""Execution of PSL's join plans by DuckDB, one query per plan, for worlds larger than memory.

A predicate's listed atoms are one table: ``c0``, ``c1``, ... are the constants of its arguments,
``atom`` the atom's number, ``variable`` that of a target (else -1), ``value`` that of an observed atom
(else NULL). Results are streamed; large joins and sorts spill to disk. DuckDB uses one thread, so that
the order of rows is deterministic.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Ints32
from onlinesrl.core.errors import StorageError
from onlinesrl.logic.ast import Atom, Constant, Term, Variable
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.psl.ground.plan import Check, RulePlan
from onlinesrl.psl.ground.rows import (
    GroundingFailure,
    Joined,
    Listing,
    constant_orders,
    missing,
    needs_bindings,
    number_constants,
    too_many,
)
from onlinesrl.psl.lang.normal import Condition

ORDER = "%"
"""The table of constants' ranks: among the integers by value (-1 for others), and as text."""


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


def write_sql(plan: RulePlan, opened: Collection[str], number: Mapping[str, int]) -> SqlPlan:
    """Translate a plan to SQL; ``opened``: predicates with targets, ``number``: of each constant."""
    return _SqlWriter(plan, opened, number).query()


class _SqlWriter:
    def __init__(self, plan: RulePlan, opened: Collection[str], number: Mapping[str, int]) -> None:
        self.plan = plan
        self.opened = opened
        self.number = number
        self.place: dict[str, str] = {}
        self.tables: list[str] = []
        self.where: list[str] = []
        self.orders: dict[str, str] = {}

    def query(self) -> SqlPlan:
        plan, form = self.plan, self.plan.form
        self.where += map(self.check, plan.first)
        for step in plan.steps:
            self.join(f"t{step.term}", step.atom)
            self.where += map(self.check, step.checks)
        if not self.tables:
            self.tables.append("FROM (SELECT 0)")
        first = len(plan.steps)
        looked_up = {f"t{first + n}": each.atom for n, each in enumerate(form.lookups)}
        for alias, atom in looked_up.items():
            on = self.match(alias, atom) or ["true"]
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

    def join(self, alias: str, atom: Atom) -> None:
        on = self.match(alias, atom)
        if not self.tables:
            self.tables.append(f"FROM {_table(atom, alias)}")
            self.where += on
        elif on:
            self.tables.append(f"JOIN {_table(atom, alias)} ON {' AND '.join(on)}")
        else:
            self.tables.append(f"CROSS JOIN {_table(atom, alias)}")
        if self.plan.clause:
            self.where.append(f"coalesce({alias}.value, 1) > 0")

    def match(self, alias: str, atom: Atom) -> list[str]:
        """Return the join conditions for bound arguments, and bind the others."""
        on = []
        for n, term in enumerate(atom.terms):
            column = f"{alias}.c{n}"
            if isinstance(term, Variable) and term.name not in self.place:
                self.place[term.name] = column
            else:
                on.append(f"{column} = {self.argument(term)}")
        return on

    def argument(self, term: Term) -> str:
        if isinstance(term, Variable):
            return self.place[term.name]
        assert isinstance(term, Constant)
        return str(self.number[term.name])

    def check(self, check: Check) -> str:
        choices = [" AND ".join(map(self.condition, choice)) for choice in check.choices]
        return choices[0] if len(choices) == 1 else f"({' OR '.join(choices) or 'false'})"

    def condition(self, condition: Condition) -> str:
        if isinstance(condition, Literal):
            text = " AND ".join([*self.match("e", condition.atom), "e.variable < 0", "e.value > 0"])
            text = f"EXISTS (SELECT 1 FROM {_table(condition.atom, 'e')} WHERE {text})"
            return text if condition.positive else f"NOT {text}"
        assert isinstance(condition, Compared)
        if condition.op == "=":
            op = "=" if condition.positive else "<>"
            return f"{self.argument(condition.left)} {op} {self.argument(condition.right)}"
        left, right = self.order(condition.left), self.order(condition.right)
        text = (
            f"if({left}.number >= 0 AND {right}.number >= 0,"
            f" {left}.number < {right}.number, {left}.text < {right}.text)"
        )
        return text if condition.positive else f"NOT {text}"

    def order(self, term: Term) -> str:
        """Return the alias of a constant's row in the table of ranks."""
        constant = self.argument(term)
        if constant not in self.orders:
            self.orders[constant] = alias = f"o{len(self.orders)}"
            start = "JOIN" if self.tables else "FROM (SELECT 0) JOIN"
            self.tables.append(f'{start} "{ORDER}" AS {alias} ON {alias}.constant = {constant}')
        return self.orders[constant]


def _table(atom: Atom, alias: str) -> str:
    return f'"{atom.predicate}" AS {alias}'


class DuckDb:
    """A DuckDB connection with a limit of ``memory`` bytes that spills to ``folder``.

    A context manager. All methods, and the joins of `run`, raise StorageError if memory and disk do not
    suffice.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._folder = folder
        self._memory = memory
        self._exit = ExitStack()

    def __enter__(self) -> DuckDb:
        import duckdb

        with self.errors(), ExitStack() as opened:
            spill = opened.enter_context(
                tempfile.TemporaryDirectory(dir=self._folder, prefix="spill-")
            )
            settings: dict[str, Any] = {
                "threads": 1,
                "memory_limit": f"{self._memory}B",
                "temp_directory": spill,
                "autoload_known_extensions": False,
                "autoinstall_known_extensions": False,
                "python_enable_replacements": False,
            }
            self.connection = duckdb.connect(config=settings)
            opened.callback(self.connection.close)
            self.connection.execute("SET enable_progress_bar = false")
            self._exit = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def run(
        self, plans: Sequence[RulePlan], listing: Listing, most: int, skip: bool
    ) -> DuckDbJoins:
        """Load a listing of one world; return an executor for it."""
        return DuckDbJoins(self, plans, listing, most, skip)

    def load(self, name: str, columns: Mapping[str, Ints32], select: str = "*") -> None:
        """Create a table from columns."""
        with self.errors():
            self.connection.register("loaded", dict(columns))
            self.connection.execute(f'CREATE TABLE "{name}" AS SELECT {select} FROM loaded')
            self.connection.unregister("loaded")

    def stream(self, query: str) -> Generator[Ints32]:
        """Yield the rows of a query in chunks, int32 (columns, rows)."""
        import nanoarrow

        with self.errors():
            stream = nanoarrow.c_array_stream(self.connection.sql(query))
            try:
                for batch in stream:
                    view = batch.view()
                    columns = (view.child(n) for n in range(view.n_children))
                    yield np.stack([_numbers(each) for each in columns])
            finally:
                stream.release()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert DuckDB's errors, which nanoarrow raises as RuntimeError, to StorageError."""
        import duckdb

        try:
            yield
        except (duckdb.OutOfMemoryException, duckdb.IOException, RuntimeError) as error:
            said = str(error).partition("\n")[0]
            raise StorageError(
                f"grounding with {self._memory:,} bytes of memory, and {self._folder} for the rest: {said}"
            ) from error
        except OSError as error:
            raise StorageError(f"grounding cannot use {self._folder}: {error.strerror}") from error


class DuckDbJoins:
    """Runs plans over one listing, like `onlinesrl.psl.ground.array_joins.ArrayJoins`."""

    def __init__(
        self,
        engine: DuckDb,
        plans: Sequence[RulePlan],
        listing: Listing,
        most: int,
        skip: bool = False,
    ) -> None:
        self.failures: dict[int, GroundingFailure] = {}
        self._engine = engine
        self._plans = plans
        self._opened = listing.opened
        self._most = most
        self._skip = skip
        self._rows = 0
        named = dict.fromkeys(name for plan in plans for name in _constants(plan))
        self._names, self._number = number_constants(listing.constants, named)
        for name, columns in listing.columns.items():
            self._load(listing, name, columns)
        compared = (each for plan in plans for each in _conditions(plan))
        if any(isinstance(each, Compared) and each.op == "%" for each in compared):
            number, text = constant_orders(self._names)
            constant = np.arange(len(self._names), dtype=np.int32)
            engine.load(ORDER, {"constant": constant, "number": number, "text": text})

    def _load(self, listing: Listing, name: str, columns: Ints32) -> None:
        n = columns.shape[1]
        atoms = slice(listing.base[name], listing.base[name] + n)
        table: dict[str, Any] = {f"c{k}": column for k, column in enumerate(columns)}
        table["atom"] = np.arange(atoms.start, atoms.stop, dtype=np.int32)
        table["variable"] = listing.variable[atoms]
        table["value"] = listing.value[atoms]
        value = "if(variable < 0, value, NULL) AS value"
        self._engine.load(name, table, f"* REPLACE ({value})")

    def join(self, number: int) -> Iterator[Joined]:
        """Yield the rows of the plan of this number."""
        if self.failures:
            return
        plan = self._plans[number]
        query = write_sql(plan, self._opened, self._number)
        with closing(self._engine.stream(query.rows(needs_bindings(plan)))) as found:
            for rows in _whole_groups(plan, found) if plan.form.summations else found:
                atoms, bindings = rows[: len(query.atoms)], rows[len(query.atoms) :]
                n = rows.shape[1]
                self._rows += n
                if self._rows > self._most:
                    self.failures[0] = too_many(plan.form, self._most)
                    return
                if not self._skip and self._any_missing(plan, atoms):
                    break
                if n:
                    yield Joined(atoms, bindings, np.zeros(n, np.int32))
            else:
                return
        self.failures[0] = self._missing(plan, query)

    def _any_missing(self, plan: RulePlan, atoms: Ints32) -> bool:
        """Return whether an atom of an open predicate is unlisted."""
        looked_up = zip(plan.form.lookups, atoms[len(plan.steps) :], strict=False)
        return any(
            bool(np.any(atom < 0))
            for term, atom in looked_up
            if term.atom.predicate in self._opened
        )

    def _missing(self, plan: RulePlan, query: SqlPlan) -> GroundingFailure:
        ((row,),) = (each.T.tolist() for each in self._engine.stream(query.first_unlisted()))
        bound = {
            name: self._names[constant] for name, constant in zip(plan.variables, row, strict=False)
        }
        atoms = row[len(query.bindings) + len(plan.steps) :]
        term = next(
            term
            for term, atom in zip(plan.form.lookups, atoms, strict=True)
            if atom < 0 and term.atom.predicate in self._opened
        )
        return missing(plan.form, term.atom, bound)


def _numbers(column: Any) -> Ints32:
    """Return an Arrow int32 column as an array, without copying."""
    values: Ints32 = np.frombuffer(column.buffer(1), np.int32)
    return values[column.offset :][: column.length]


def _conditions(plan: RulePlan) -> Iterator[Condition]:
    for check in chain(plan.first, *(step.checks for step in plan.steps)):
        yield from chain(*check.choices)


def _constants(plan: RulePlan) -> Iterator[str]:
    """Yield the names of a plan's constants."""
    for part in chain(_conditions(plan), (each.atom for each in plan.form.terms)):
        sides = (part.left, part.right) if isinstance(part, Compared) else (part,)
        atoms = (each.atom if isinstance(each, Literal) else each for each in sides)
        leaves = chain(*(each.terms if isinstance(each, Atom) else (each,) for each in atoms))
        yield from (leaf.name for leaf in leaves if isinstance(leaf, Constant))


def _whole_groups(plan: RulePlan, found: Iterable[Ints32]) -> Iterator[Ints32]:
    """Regroup chunks of sorted rows so that no group is split."""
    first = len(plan.steps) + len(plan.form.lookups)
    outer = [first + plan.variables.index(name) for name in plan.outer]
    kept: list[Ints32] = []
    for rows in found:
        ends = np.flatnonzero(np.any(np.diff(rows[outer], axis=1) != 0, axis=0)) + 1
        begins_anew = bool(kept) and bool(np.any(kept[-1][outer, -1] != rows[outer, 0]))
        cut = int(ends[-1]) if len(ends) else 0
        if cut or begins_anew:
            yield np.concatenate([*kept, rows[:, :cut]], axis=1)
            kept = []
        kept.append(rows[:, cut:])
    if kept:
        yield np.concatenate(kept, axis=1)
