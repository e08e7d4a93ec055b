"""In-memory execution of PSL's join plans: nested-loop joins over hash indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.logic.ast import Atom, Constant, Term, Variable
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.psl.ground.form_assembly import (
    GroundingFailure,
    Joined,
    Listing,
    TooManyRows,
    missing,
    number_constants,
    spellings,
    too_many,
)
from onlinesrl.psl.ground.join_plan import RulePlan
from onlinesrl.psl.kernels import join as kernel
from onlinesrl.psl.lang.linear_form import Condition

FIRST, ROOM = 1 << 10, 1 << 16
"""The rows of a plan's first chunk, and of the largest; a plan with summations yields one chunk."""

WORLD = ""
"""The name of the relation of worlds, and of the world variable, the first of every atom."""

_Index = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class CompiledPlan:
    """A plan as arrays for the kernel, independent of the data.

    ``indexes`` are its indexes (relation, key columns), ``constants`` the names of its constants,
    ``looked_up`` the predicates of its lookups.
    """

    plan: RulePlan
    code: kernel.Code
    indexes: tuple[_Index, ...]
    constants: tuple[str, ...]
    looked_up: tuple[str, ...]
    slots: int


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


def begin(compiled: CompiledPlan, rows: Ints, status: Bytes) -> kernel.Loops:
    """Return the initial state of a plan's nested loops, over worlds that have so many rows already."""
    steps, worlds = len(compiled.code.step_probe), len(rows)
    return kernel.Loops(
        np.array([0, 1], np.int32),
        np.zeros(steps, np.int64),
        np.zeros(steps, np.int64),
        np.zeros(compiled.slots, np.int32),
        np.full(steps + len(compiled.code.lookup_probe), -1, np.int32),
        rows,
        status,
        np.zeros(worlds, np.int32),
        np.zeros((worlds, compiled.slots), np.int32),
    )


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


class _PlanCompiler:
    """Collects the probes and constants of a plan."""

    def __init__(self, plan: RulePlan, with_worlds: bool):
        self.slot = {WORLD: 0} | {name: 1 + n for n, name in enumerate(plan.variables)}
        self.with_worlds = with_worlds
        self.indexes: dict[_Index, int] = {}
        self.constants: dict[str, int] = {}
        self.probes: list[int] = []
        self.keys: list[list[tuple[int, int]]] = []

    def argument(self, term: Term) -> int:
        if isinstance(term, Variable):
            return self.slot[term.name]
        assert isinstance(term, Constant)
        return -1 - self.constants.setdefault(term.name, len(self.constants))

    def probe(self, atom: Atom, columns: Sequence[int]) -> int:
        """Add a probe of an atom by key columns; return its number."""
        world = [(0, 0)] if self.with_worlds else []
        keys = world + [(c + len(world), self.argument(atom.terms[c])) for c in columns]
        return self.add((atom.predicate, tuple(column for column, _ in keys)), keys)

    def add(self, index: _Index, keys: list[tuple[int, int]]) -> int:
        self.probes.append(self.indexes.setdefault(index, len(self.indexes)))
        self.keys.append(keys)
        return len(self.probes) - 1


WORLDS = Atom(WORLD, (Variable(WORLD),))


def compile_plan(plan: RulePlan, with_worlds: bool, first: Atom = WORLDS) -> CompiledPlan:
    """Compile a plan to arrays. Rows of the relation of worlds bind the variables of ``first``."""
    writer = _PlanCompiler(plan, with_worlds)
    terms = [*enumerate(first.terms)]
    keys = [(n, writer.argument(term)) for n, term in terms if isinstance(term, Constant)]
    bound = [(n, writer.argument(term)) for n, term in terms if isinstance(term, Variable)]
    steps, binds = [writer.add((WORLD, ()), keys)], [bound]
    for step in plan.steps:
        steps.append(writer.probe(step.atom, step.keys))
        binds.append(
            [
                (column + with_worlds, writer.argument(term))
                for column, term in enumerate(step.atom.terms)
                if column not in step.keys
            ]
        )
    checks = [plan.first, *(step.checks for step in plan.steps)]
    choices = [
        [[_condition(condition, writer) for condition in choice] for choice in check]
        for check in chain(*checks)
    ]
    lookups = [writer.probe(item.atom, range(len(item.atom.terms))) for item in plan.form.lookups]
    flat = [*chain(*choices)]
    code = kernel.Code(
        _ints(writer.probes),
        _starts(writer.keys),
        _ints(column for keys in writer.keys for column, _ in keys),
        _ints(argument for keys in writer.keys for _, argument in keys),
        _ints(steps),
        _starts(binds),
        _ints(column for item in binds for column, _ in item),
        _ints(slot for item in binds for _, slot in item),
        _starts(checks),
        _starts(choices),
        _starts(flat),
        np.array([*chain(*flat)], np.int32).reshape(-1, 4),
        _ints(lookups),
        np.zeros(len(lookups), np.uint8),
        plan.clause,
        plan.form.weight is None or bool(plan.form.summations),
    )
    looked_up = tuple(item.atom.predicate for item in plan.form.lookups)
    names = tuple(writer.indexes), tuple(writer.constants), looked_up
    return CompiledPlan(plan, code, *names, 1 + len(plan.variables))


def _condition(condition: Condition, writer: _PlanCompiler) -> tuple[int, int, int, int]:
    if isinstance(condition, Literal):
        probe = writer.probe(condition.atom, range(len(condition.atom.terms)))
        return kernel.LISTED, condition.positive, probe, 0
    assert isinstance(condition, Compared)
    kind = kernel.EQUAL if condition.op == "=" else kernel.BEFORE
    left, right = writer.argument(condition.left), writer.argument(condition.right)
    return kind, condition.positive, left, right


def _ints(numbers: Iterable[int]) -> Ints32:
    return np.array([*numbers], np.int32)


def _starts(lists: Iterable[Sequence[object]]) -> Ints32:
    return _ints([0, *accumulate(map(len, lists))])
