"""Join plans as arrays for ``kernels.join``, independent of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.logic.ast import Atom, Constant, Term, Variable
from onlinesrl.logic.cnf import Compared, Literal
from onlinesrl.logic.kernels import join as kernel
from onlinesrl.logic.whole_numbers import whole_number

P = TypeVar("P")
WORLD = ""
"""The name of the relation of worlds, and of the world variable, the first of every atom."""
WORLDS = Atom(WORLD, (Variable(WORLD),))
_Index = tuple[str, tuple[int, ...]]


Condition: TypeAlias = Literal | Compared
Check: TypeAlias = Sequence[Sequence[Condition]]
"""Alternatives, of which one must hold."""


class Join(NamedTuple):
    """The join of an atom: the columns bound before it, and the checks behind it."""

    atom: Atom
    keys: Sequence[int]
    checks: Sequence[Check]


@dataclass(frozen=True, eq=False)
class Joins:
    """Joins and lookups in their order.

    ``variables`` are all in the order of slots, ``first`` are the checks before the joins. For ``clause`` and
    ``without_targets`` see ``kernels.join.Code``.
    """

    variables: Sequence[str]
    first: Sequence[Check]
    steps: Sequence[Join]
    lookups: Sequence[Atom]
    clause: bool
    without_targets: bool


@dataclass(frozen=True, eq=False)
class CompiledPlan(Generic[P]):
    """A plan as arrays for the kernel, independent of the data.

    ``indexes`` are its indexes (relation, key columns), ``constants`` the names of its constants,
    ``looked_up`` the predicates of its lookups.
    """

    plan: P
    code: kernel.Code
    indexes: tuple[_Index, ...]
    constants: tuple[str, ...]
    looked_up: tuple[str, ...]
    slots: int


def begin(compiled: CompiledPlan[P], rows: Ints, status: Bytes) -> kernel.Loops:
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


def spellings(constants: Sequence[str]) -> tuple[Bytes, Ints, Ints, Ints]:
    """Return the letters of constants, where those of each begin and end, and the constants as numbers.

    Letters are in UTF-8, so that constants in their order are in that of text.
    """
    texts = [name.encode("utf-8", "surrogatepass") for name in constants]
    stop = np.cumsum([0, *map(len, texts)])
    letter = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    return letter, stop[:-1], stop[1:], np.array([*map(whole_number, constants)], np.int64)


class _Writer:
    """Collects the probes and constants of a plan."""

    def __init__(self, joins: Joins, with_worlds: bool):
        self.slot = {WORLD: 0} | {name: 1 + n for n, name in enumerate(joins.variables)}
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


def compile_joins(
    plan: P, joins: Joins, with_worlds: bool = False, first: Atom = WORLDS
) -> CompiledPlan[P]:
    """Compile the joins of a plan. Rows of the relation of worlds bind the variables of ``first``."""
    writer = _Writer(joins, with_worlds)
    terms = [*enumerate(first.terms)]
    keys = [(n, writer.argument(term)) for n, term in terms if isinstance(term, Constant)]
    bound = [(n, writer.argument(term)) for n, term in terms if isinstance(term, Variable)]
    steps, binds = [writer.add((WORLD, ()), keys)], [bound]
    for step in joins.steps:
        steps.append(writer.probe(step.atom, step.keys))
        binds.append(
            [
                (column + with_worlds, writer.argument(term))
                for column, term in enumerate(step.atom.terms)
                if column not in step.keys
            ]
        )
    checks = [joins.first, *(step.checks for step in joins.steps)]
    choices = [
        [[_condition(condition, writer) for condition in choice] for choice in check]
        for check in chain(*checks)
    ]
    lookups = [writer.probe(atom, range(len(atom.terms))) for atom in joins.lookups]
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
        joins.clause,
        joins.without_targets,
    )
    looked_up = tuple(atom.predicate for atom in joins.lookups)
    names = tuple(writer.indexes), tuple(writer.constants), looked_up
    return CompiledPlan(plan, code, *names, len(writer.slot))


def _condition(condition: Condition, writer: _Writer) -> tuple[int, int, int, int]:
    if isinstance(condition, Literal):
        probe = writer.probe(condition.atom, range(len(condition.atom.terms)))
        return kernel.LISTED, condition.positive, probe, 0
    left, right = writer.argument(condition.left), writer.argument(condition.right)
    kind = kernel.EQUAL if condition.op == "=" else kernel.BEFORE
    return kind, condition.positive, left, right


def _ints(numbers: Iterable[int]) -> Ints32:
    return np.array([*numbers], np.int32)


def _starts(lists: Iterable[Sequence[object]]) -> Ints32:
    return _ints([0, *accumulate(map(len, lists))])
