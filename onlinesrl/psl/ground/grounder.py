"""Grounding of PSL programs: rules and data to hinge-loss models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.errors import ModelError
from onlinesrl.logic.cnf import Literal
from onlinesrl.psl.ground.form_assembly import (
    Assembled,
    GroundingFailure,
    Listing,
    RuleError,
    broken,
    listed,
)
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF, Micrographs, united
from onlinesrl.psl.ground.join_plan import RulePlan, plan_program
from onlinesrl.psl.ground.memory_joins import ArrayJoins, CompiledPlan, compile_plan
from onlinesrl.psl.ground.rule_trace import ground_rule_texts
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.data import Database
from onlinesrl.psl.lang.model import Functions

MOST = 50_000_000
"""The default limit on the rows of a world's joins."""


@dataclass(frozen=True, eq=False)
class Grounded:
    """The ground models of worlds, side by side.

    ``skipped`` int64[worlds] counts the ground rules left out because an atom is neither observed nor a
    target. ``failures`` are the worlds that cannot be grounded; ignore their models.
    """

    graphs: Micrographs
    skipped: Ints
    failures: Mapping[int, GroundingFailure]


@dataclass(eq=False)
class Grounder:
    """Grounds one program, with at most ``most`` joined rows per world.

    The weight index of a row is the number of its rule in the program.
    ``advice`` is the hint of the error for more rows. With ``skip``, ground rules with an unlisted atom
    of a predicate with targets are left out; otherwise they are an error.

    Every method raises ModelError at a rule whose coefficient divides by 0 or whose function returns a
    value outside [0, 1].
    """

    program: PslProgram
    functions: Functions = field(default_factory=dict)
    most: int = MOST
    advice: str | None = None
    skip: bool = False

    @cached_property
    def _compiled(self) -> list[CompiledPlan]:
        """The plans for many worlds, made without knowing the sizes of relations."""
        return [compile_plan(plan, with_worlds=True) for plan in plan_program(self.program)]

    def ground(self, database: Database) -> HingeLossMRF:
        """Ground one world; the join order depends on the sizes of its relations.

        Raises ModelError also if an atom is missing, if the observed values break a hard rule, or if
        there are too many ground rules.
        """
        listing = Listing(database)
        inactive, skipped = np.zeros(len(self.program.rules), np.int64), np.zeros(1, np.int64)
        return united(listing.n_variables, [*self.models(listing, inactive, skipped)])

    def models(self, listing: Listing, inactive: Ints, skipped: Ints) -> Iterator[HingeLossMRF]:
        """Ground one world in chunks: models of some rows each, over all variables.

        Adds to ``inactive`` int64[rules] the ground rules left out because their form is never above 0, and
        to ``skipped`` int64[1] those with an atom that is neither observed nor a target. A rule with
        summations is one chunk. Errors as in `ground`.
        """
        plans = plan_program(self.program, listing.sizes())
        compiled = [compile_plan(plan, with_worlds=False) for plan in plans]
        executor = ArrayJoins(compiled, listing, False, self.most, self.skip)
        for plan, piece in self._pieces(plans, executor, listing, skipped):
            for failure in executor.failures.values():
                raise rule_error(self.program, failure, self.advice)
            inactive[plan.form.rule] += piece.inactive.sum()
            yield piece.model
        for failure in executor.failures.values():
            raise rule_error(self.program, failure, self.advice)

    def ground_worlds(
        self, database: Database, worlds: int, opened: Collection[str], together: int | None = None
    ) -> Grounded:
        """Ground many small worlds; the first column of every table is the world, ascending.

        ``opened`` are the predicates that may have targets. The rows of a world and their order do not
        depend on the others. Raises TooManyRows if the joins of several worlds have more than
        ``together`` rows.
        """
        listing = Listing(database, worlds, opened)
        room = together if worlds > 1 else None
        executor = ArrayJoins(self._compiled, listing, True, self.most, self.skip, room)
        skipped, models, of_rows = np.zeros(worlds, np.int64), [], [np.empty(0, np.int32)]
        plans = [compiled.plan for compiled in self._compiled]
        for _, piece in self._pieces(plans, executor, listing, skipped):
            models.append(piece.model)
            of_rows.append(piece.world)
        world = np.concatenate(of_rows)
        model = united(listing.n_variables, models)
        if worlds > 1:  # the rows world by world
            model = model.chosen(np.argsort(world, kind="stable"))
        first = np.concatenate(([0], np.cumsum(np.bincount(world, minlength=worlds))))
        graphs = Micrographs(model, listing.first_variable, first)
        return Grounded(graphs, skipped, executor.failures)

    @property
    def constants(self) -> set[str]:
        """The names of the constants of rules."""
        return {name for compiled in self._compiled for name in compiled.constants}

    @property
    def filters(self) -> set[str]:
        """The predicates whose listed atoms filters ask for."""
        summations = (item for compiled in self._compiled for item in compiled.plan.form.summations)
        conditions = (c for item in summations for choice in item.choices for c in choice)
        return {item.atom.predicate for item in conditions if isinstance(item, Literal)}

    def texts(self, database: Database, opened: Collection[str], variable: int) -> list[str]:
        """Return the ground rules that have a variable, in the order of `ground_worlds` of one world."""
        listing = Listing(database, 1, opened)
        executor = ArrayJoins(self._compiled, listing, True, self.most, self.skip)
        plans = [compiled.plan for compiled in self._compiled]
        rows = (
            (plan, listed(plan, joined, listing.opened) if self.skip else joined)
            for number, plan in enumerate(plans)
            for joined in executor.join(number)
        )
        return [*ground_rule_texts(self.program, rows, listing, self.functions, variable)]

    def _pieces(
        self, plans: Sequence[RulePlan], executor: ArrayJoins, listing: Listing, skipped: Ints
    ) -> Iterator[tuple[RulePlan, Assembled]]:
        """Yield the forms of every plan; record worlds that break a hard rule, and count skipped rows."""
        assembler = listing.assembler(self.functions)
        for number, plan in enumerate(plans):
            for joined in executor.join(number):
                rows = listed(plan, joined, listing.opened) if self.skip else joined
                if rows is not joined:
                    skipped += np.bincount(joined.worlds, minlength=len(skipped))
                    skipped -= np.bincount(rows.worlds, minlength=len(skipped))
                try:
                    piece = assembler.assemble(plan, rows, listing.worlds, plan.form.rule)
                except RuleError as error:
                    raise rule_error(self.program, error.failure, self.advice) from None
                for world in np.flatnonzero(piece.broken).tolist():
                    executor.failures.setdefault(world, broken(plan.form))
                yield plan, piece


def rule_error(
    program: PslProgram, failure: GroundingFailure, advice: str | None = None
) -> ModelError:
    """Return the error for a failure, at its rule; ``advice`` is the hint where there are too many rows."""
    rule = program.rules[failure.rule]
    return ModelError(
        failure.message,
        file=program.file,
        line=rule.position.line,
        column=rule.position.column,
        source_line=rule.text,
        hint=advice if failure.kind == "limit" else failure.hint,
    )
