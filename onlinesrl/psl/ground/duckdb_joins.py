"""Execution of PSL's join plans by DuckDB, one query per plan, for worlds larger than memory.

A predicate's listed atoms are one table: ``c0``, ``c1``, ... are the constants of its arguments,
``atom`` the atom's number, ``variable`` that of a target (else -1), ``value`` that of an observed atom
(else NULL). Results are streamed; large joins and sorts spill to disk. DuckDB uses one thread, so that
the order of rows is deterministic.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Ints32
from onlinesrl.core.errors import StorageError
from onlinesrl.logic.ast import Atom, Constant
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.psl.ground.form_assembly import (
    GroundingFailure,
    Joined,
    Listing,
    constant_ranks,
    listed,
    missing,
    number_constants,
    too_many,
)
from onlinesrl.psl.ground.join_plan import RulePlan
from onlinesrl.psl.ground.sql import ORDER, Cut, SqlWriter
from onlinesrl.psl.lang.linear_form import Condition


class DuckDb:
    """A DuckDB connection with a limit of ``memory`` bytes that spills to ``folder``.

    It finds the ground rules of a ``cut`` only. A context manager. All methods, and `DuckDbJoins`, raise
    StorageError if memory and disk do not suffice.
    """

    def __init__(self, folder: Path, memory: int, cut: Cut | None = None) -> None:
        self.cut = cut
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
                    rows = []
                    for n in range(view.n_children):
                        column = view.child(n)
                        numbers: Ints32 = np.frombuffer(column.buffer(1), np.int32)  # not a copy
                        rows.append(numbers[column.offset :][: column.length])
                    yield np.stack(rows)
            finally:
                stream.release()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert DuckDB's errors, which nanoarrow raises as RuntimeError, to StorageError."""
        import duckdb

        try:
            yield
        except (duckdb.OutOfMemoryException, duckdb.IOException, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise StorageError(
                f"grounding with {self._memory:,} bytes of memory, and {self._folder} for the rest: {reason}"
            ) from error
        except OSError as error:
            raise StorageError(f"grounding cannot use {self._folder}: {error.strerror}") from error


class DuckDbJoins:
    """Runs plans over one listing, like `onlinesrl.psl.ground.memory_joins.ArrayJoins`."""

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
            atoms = slice(listing.base[name], listing.base[name] + columns.shape[1])
            table: dict[str, Any] = {f"c{k}": column for k, column in enumerate(columns)}
            table["atom"] = np.arange(atoms.start, atoms.stop, dtype=np.int32)
            table["variable"] = listing.variable[atoms]
            table["value"] = listing.value[atoms]
            engine.load(name, table, "* REPLACE (if(variable < 0, value, NULL) AS value)")
        compared = (condition for plan in plans for condition in _conditions(plan))
        if any(isinstance(condition, Compared) and condition.op == "%" for condition in compared):
            constant = np.arange(len(self._names), dtype=np.int32)
            engine.load(ORDER, {"constant": constant, "rank": constant_ranks(self._names)})

    def join(self, number: int) -> Iterator[Joined]:
        """Yield the rows of the plan of this number."""
        if self.failures:
            return
        plan = self._plans[number]
        query = SqlWriter(plan, self._opened, self._number, self._engine.cut).query()
        with closing(self._engine.stream(query.rows(plan.needs_bindings))) as batches:
            for rows in _whole_groups(plan, batches) if plan.form.summations else batches:
                atoms, bindings = rows[: len(query.atoms)], rows[len(query.atoms) :]
                n = rows.shape[1]
                self._rows += n
                if self._rows > self._most:
                    self.failures[0] = too_many(plan.form, self._most)
                    return
                joined = Joined(atoms, bindings, np.zeros(n, np.int32))
                if not self._skip and listed(plan, joined, self._opened) is not joined:
                    break
                if n:
                    yield joined
            else:
                return
        with closing(self._engine.stream(query.first_unlisted())) as batches:
            row = next(batches)[:, 0].tolist()  # DuckDB's optimiser may lose the limit
        constants = (self._names[constant] for constant in row)
        bound = dict(zip(plan.variables, constants, strict=False))
        numbers = row[len(query.bindings) + len(plan.steps) :]
        term = next(
            term
            for term, atom in zip(plan.form.lookups, numbers, strict=True)
            if atom < 0 and term.atom.predicate in self._opened
        )
        self.failures[0] = missing(plan.form, term.atom, bound)


def _conditions(plan: RulePlan) -> Iterator[Condition]:
    for check in chain(plan.first, *(step.checks for step in plan.steps)):
        yield from chain(*check)


def _constants(plan: RulePlan) -> Iterator[str]:
    """Yield the names of a plan's constants."""
    for part in chain(_conditions(plan), (term.atom for term in plan.form.terms)):
        sides = (part.left, part.right) if isinstance(part, Compared) else (part,)
        atoms = (term.atom if isinstance(term, Literal) else term for term in sides)
        leaves = chain(*(term.terms if isinstance(term, Atom) else (term,) for term in atoms))
        yield from (leaf.name for leaf in leaves if isinstance(leaf, Constant))


def _whole_groups(plan: RulePlan, batches: Iterable[Ints32]) -> Iterator[Ints32]:
    """Regroup chunks of sorted rows so that no group is split."""
    first = len(plan.steps) + len(plan.form.lookups)
    outer = [first + plan.variables.index(name) for name in plan.outer]
    pending: list[Ints32] = []
    for rows in batches:
        ends = np.flatnonzero(np.any(np.diff(rows[outer], axis=1) != 0, axis=0)) + 1
        begins_anew = bool(pending) and bool(np.any(pending[-1][outer, -1] != rows[outer, 0]))
        cut = int(ends[-1]) if len(ends) else 0
        if cut or begins_anew:
            yield np.concatenate([*pending, rows[:, :cut]], axis=1)
            pending = []
        pending.append(rows[:, cut:])
    if pending:
        yield np.concatenate(pending, axis=1)
