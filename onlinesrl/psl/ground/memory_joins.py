"""In-memory execution of PSL's join plans: nested-loop joins over hash indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from onlinesrl.core.arrays import Ints32
from onlinesrl.logic import compiled_joins
from onlinesrl.logic.ast import Atom
from onlinesrl.logic.compiled_joins import (
    WORLD,
    WORLDS,
    Join,
    Joins,
    begin,
    compile_joins,
    spellings,
)
from onlinesrl.logic.kernels import join as kernel
from onlinesrl.psl.ground.form_assembly import (
    GroundingFailure,
    Joined,
    Listing,
    TooManyRows,
    missing,
    number_constants,
    too_many,
)
from onlinesrl.psl.ground.join_plan import RulePlan

FIRST, ROOM = 1 << 10, 1 << 16
"""The rows of a plan's first chunk, and of the largest; a plan with summations yields one chunk."""

CompiledPlan: TypeAlias = compiled_joins.CompiledPlan[RulePlan]


class ArrayJoins:
    """Runs plans over one listing; rows come world by world.

    A world that fails is in ``failures`` and gets no more rows; ignore those it already has. With
    ``skip``, an unlisted atom of a predicate with targets is -1, not a failure. Raises TooManyRows if
    all worlds together have more than ``together`` rows.
    """

    def __init__(
        self,
        plans: Sequence[CompiledPlan],
        listing: Listing,
        with_worlds: bool,
        most: int,
        skip: bool = False,
        together: int | None = None,
    ):
        self._together = together
        self._plans = plans
        self._skip = skip
        self._listing = listing
        self._most = most
        self._with_worlds = with_worlds
        self._index_of = {
            index: number
            for number, index in enumerate(dict.fromkeys(i for plan in plans for i in plan.indexes))
        }
        named = dict.fromkeys(name for plan in plans for name in plan.constants)
        self._names, self._constant_of = number_constants(listing.constants, named)
        self._relations = self._build()
        self._rows = np.zeros(listing.worlds, np.int64)
        self._status = np.zeros(listing.worlds, np.uint8)
        self.failures: dict[int, GroundingFailure] = {}

    def _build(self) -> kernel.Relations:
        listing, worlds = self._listing, np.arange(self._listing.worlds, dtype=np.int32)
        columns = {WORLD: worlds[None], **listing.columns}
        names = list(columns)
        sizes = [columns[name].shape[1] for name in names]
        cells = [columns[name].size for name in names]
        base = [0 if name == WORLD else listing.base[name] for name in names]
        data = np.concatenate([column.reshape(-1) for column in columns.values()])
        offset = dict(zip(names, [0, *accumulate(cells)], strict=False))
        buckets, rows, masks, relations = [], [], [], []
        for name, keys in self._index_of:
            n = columns[name].shape[1]
            mask = (1 << max(n - 1, 0).bit_length()) - 1 if keys else 0
            bucket, row = np.zeros(mask + 2, np.int32), np.empty(n, np.int32)
            kernel.build(data, offset[name], n, np.array(keys, np.int32), bucket, row)
            buckets.append(bucket)
            rows.append(row)
            masks.append(mask)
            relations.append(names.index(name))
        bucket = np.concatenate([np.empty(0, np.int32), *buckets])
        ordered = any(np.any(p.code.condition[:, 0] == kernel.BEFORE) for p in self._plans)
        spelled = spellings(self._names if ordered else ())
        return kernel.Relations(
            data,
            np.array([offset[name] for name in names]),
            np.array(sizes),
            np.array(base),
            listing.value,
            listing.variable,
            np.array(relations, np.int64),
            np.array([0, *accumulate(map(len, buckets))][:-1], np.int64),
            np.array(masks, np.int64),
            np.array([0, *accumulate(map(len, rows))][:-1], np.int64),
            bucket,
            np.append(bucket[1:], np.int32(0)),
            np.concatenate([np.empty(0, np.int32), *rows]),
            *spelled,
        )

    def join(self, number: int) -> Iterator[Joined]:
        """Yield the rows of the plan of this number."""
        compiled = self._plans[number]
        plan = compiled.plan
        index = np.array([self._index_of[key] for key in compiled.indexes], np.int32)
        opened = np.array([name in self._listing.opened for name in compiled.looked_up], np.uint8)
        code = replace(  # bound to this listing
            compiled.code,
            probe_index=index[compiled.code.probe_index],
            lookup_open=np.zeros_like(opened) if self._skip else opened,
            without_targets=compiled.code.without_targets or (self._skip and bool(opened.any())),
        )
        loops = begin(compiled, self._rows, self._status)
        constant = np.array([self._constant_of[name] for name in compiled.constants], np.int32)
        before = self._status.copy()
        slots = compiled.slots if plan.needs_bindings else int(self._with_worlds)
        chunks, capacity = [], FIRST
        while loops.depth[0] >= 0:
            atoms = np.empty((len(loops.atom) - 1, capacity), np.int32)
            bindings = np.empty((slots, capacity), np.int32)
            n = kernel.rows(self._relations, code, loops, constant, self._most, atoms, bindings)
            capacity = min(2 * capacity, ROOM)
            if self._together is not None and self._rows.sum() > self._together:
                raise TooManyRows
            if n:
                chunk = joined_rows(plan, atoms[:, :n], bindings[:, :n])
                if plan.form.summations:
                    chunks.append(chunk)
                else:
                    yield chunk
        if chunks:
            yield Joined(
                np.concatenate([item.atoms for item in chunks], axis=1),
                np.concatenate([item.bindings for item in chunks], axis=1),
                np.concatenate([item.worlds for item in chunks]),
            )
        for world in np.flatnonzero(self._status != before).tolist():
            self.failures[world] = failure_of(plan, loops, world, self._names, self._most)


def joined_rows(plan: RulePlan, atoms: Ints32, bindings: Ints32) -> Joined:
    """Return rows with their terms in the order of the form."""
    terms = [step.term for step in plan.steps]
    order = [terms.index(n) for n in range(len(terms))]
    order += range(len(terms), len(atoms))
    n = atoms.shape[1]
    worlds = bindings[0] if len(bindings) else np.zeros(n, np.int32)
    return Joined(atoms[order], bindings[1:], worlds)


def failure_of(
    plan: RulePlan, loops: kernel.Loops, world: int, names: Sequence[str], most: int
) -> GroundingFailure:
    """Return why a world cannot be grounded, where its status says so."""
    if loops.problem[world] == kernel.TOO_MANY:
        return too_many(plan.form, most)
    constants = [names[n] for n in loops.missing[world, 1:].tolist()]
    bound = dict(zip(plan.variables, constants, strict=True))
    return missing(plan.form, plan.form.lookups[loops.lookup[world]].atom, bound)


def compile_plan(plan: RulePlan, with_worlds: bool, first: Atom = WORLDS) -> CompiledPlan:
    """Compile a plan to arrays, see ``compile_joins``."""
    form = plan.form
    joins = Joins(
        plan.variables,
        plan.first,
        [Join(step.atom, step.keys, step.checks) for step in plan.steps],
        [item.atom for item in form.lookups],
        plan.clause,
        form.weight is None or bool(form.summations),
    )
    return compile_joins(plan, joins, with_worlds, first)
