"""The true tuples of a world, and how its counts change where one of its atoms flips."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.errors import UsageError
from onlinesrl.mln.counting.disjoint_conjunctions import SAME
from onlinesrl.mln.counting.flip_plan import PlannedTerm, PlannedWay, Planner, Step
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import World
from onlinesrl.mln.kernels.flip_counts import (
    DOMAIN,
    LOOP,
    SIZE,
    Counting,
    Draws,
    Plan,
    Scratch,
    change,
    put_number,
)
from onlinesrl.mln.kernels.tuple_index import NONE, Tuples, fill, read, slot_of

INDEXED = 1 << 62
"""The keys of an index are numbers below this."""


class FlipCounts:
    """The true tuples of a world, whose atoms of the ``query`` flip, with the changes of the counts.

    Memory grows with the true tuples, not with the groundings or the atoms. The changes of ``estimated``
    clauses (their numbers) by flips of a predicate are left out. The constructor raises ModelError for a
    rule whose changes cannot be counted, and UsageError for a predicate of more atoms than 64 bits number.
    """

    def __init__(
        self,
        counters: Counters,
        world: World,
        query: Collection[str],
        estimated: Collection[tuple[int, str]] = (),
    ) -> None:
        planner = Planner(counters, world, estimated)
        self.world = world
        self.weights = planner.weights
        self.query = [name for name in counters.program.predicates if name in query]
        soft, hard = (
            {name: [*planner.terms(name, hard)] for name in self.query} for hard in (False, True)
        )
        terms, ways = [*chain(*soft.values(), *hard.values())], [*planner.ways()]
        steps = [step for term in terms for part in term.parts for step in part]
        first_draw = len(steps)
        steps += [step for way in ways for step in way.steps]
        tables = [step for step in steps if step.kind in (LOOP, SIZE)]
        drawn = [name for way in ways for name, _, _ in way.parts if name is not None]
        self.names = [*dict.fromkeys([*self.query, *(step.predicate for step in tables), *drawn])]
        self.types = {name: world.table(name).types for name in self.names}
        self.indexes = {
            name: [
                *dict.fromkeys(
                    [(*range(len(types)),), *(s.index[1] for s in tables if s.predicate == name)]
                )
            ]
            for name, types in self.types.items()
        }
        self.stride = self._strides()
        width = self.stride.shape[1]
        variables = [v for step in steps for v in step.variables]
        variables += [v for way in ways for _, names, _ in way.parts for v in names]
        variables += [v for way in ways for v in way.types]
        flipped = {f"{name}.{k}": k for name in self.query for k in range(len(self.types[name]))}
        others = [v for v in dict.fromkeys(variables) if v not in flipped]
        place = flipped | {v: width + k for k, v in enumerate(others)}
        value = np.zeros(width + len(place), np.int32)
        for name, constant in planner.constants.items():
            if name in place:
                value[place[name]] = constant
        most = max([1, *(len(way.parts) for way in ways)])
        by_name = [len(part.get(name, ())) for part in (soft, hard) for name in self.names]
        self.frame = Counting(
            self._plan(terms, steps, by_name, place),
            self._draws(ways, place, first_draw),
            self._tuples({name: world.table(name).rows for name in self.names}),
            Scratch(
                value=value,
                cursor=np.zeros(len(steps), np.int32),
                amount=np.zeros(len(steps) + 1),
                atom=np.zeros(most, np.int64),
                extra=np.zeros(most),
            ),
        )

    def _strides(self) -> Ints:
        """Return what a constant adds to the key of an index, int64[index, column]."""
        rows = []
        width = max(2, *map(len, self.types.values()))
        for name, indexes in self.indexes.items():
            for columns in indexes:
                row, factor = [0] * width, 1
                for column in reversed(columns):
                    row[column] = factor
                    factor *= max(1, self.world.size(self.types[name][column]))
                if factor >= INDEXED:
                    raise UsageError(
                        f"{name} has {factor:.3g} atoms, too many to number them: give its arguments "
                        "types of fewer constants"
                    )
                rows.append(row)
        return np.array(rows, np.int64).reshape(-1, width)

    def _plan(
        self,
        terms: Sequence[PlannedTerm],
        steps: Sequence[Step],
        by_name: Sequence[int],
        place: Mapping[str, int],
    ) -> Plan:
        """Return the terms, of which ``by_name`` has the numbers by predicate, soft ones first."""
        number = {
            index: k
            for k, index in enumerate(
                (n, columns) for n, of in self.indexes.items() for columns in of
            )
        }

        def index(step: Step) -> int:
            if step.kind == DOMAIN:
                return self.world.size(step.predicate.removeprefix(SAME))
            return number.get(step.index, 0)

        def predicate(step: Step) -> int:
            return self.names.index(step.predicate) if step.kind in (LOOP, SIZE) else 0

        parts = [part for term in terms for part in term.parts]
        keys = [key for term in terms for key in term.strides]
        sizes = np.ones((len(self.names), self.stride.shape[1]), np.int64)
        for row, types in zip(sizes, self.types.values(), strict=True):
            row[: len(types)] = [*map(self.world.size, types)]
        return Plan(
            term_start=_starts(by_name),
            odd=np.array([term.odd for term in terms], np.uint8),
            scale=np.array([term.scale for term in terms], np.float64),
            part_start=_starts(len(term.parts) for term in terms),
            step_start=_starts(map(len, parts)),
            kind=np.array([step.kind for step in steps], np.uint8),
            predicate=_ints32(map(predicate, steps)),
            index=_ints32(map(index, steps)),
            column_start=_starts(len(step.variables) for step in steps),
            variable=_ints32(place[v] for step in steps for v in step.variables),
            mode=np.array([mode for step in steps for mode in step.modes], np.uint8),
            weight_first=np.array([term.weight for term in terms], np.int64),
            key_start=_starts(len(term.strides) for term in terms),
            key_variable=_ints32(place[v] for v, _ in keys),
            key_stride=np.array([stride for _, stride in keys], np.int64),
            sizes=sizes,
            arity=_ints32(map(len, self.types.values())),
            query=_ints32(map(self.names.index, self.query)),
        )

    def _draws(self, ways: Sequence[PlannedWay], place: Mapping[str, int], first: int) -> Draws:
        """Return how groundings of ways are drawn; their steps stand in the plan from ``first`` on."""
        parts = [part for way in ways for part in way.parts]
        domains = [domain for way in ways for domain in way.types.items()]
        keys = [key for way in ways for key in way.strides]
        columns = np.zeros((len(parts), self.stride.shape[1]), np.int32)
        for row, (_, names, _) in zip(columns, parts, strict=True):
            row[: len(names)] = [place[v] for v in names]
        return Draws(
            truth=np.array([way.truth for way in ways], np.uint8),
            part_start=_starts(len(way.parts) for way in ways),
            predicate=_ints32(NONE if n is None else self.names.index(n) for n, _, _ in parts),
            true=np.array([true for _, _, true in parts], np.uint8),
            columns=columns,
            step_start=np.int32(first) + _starts(len(way.steps) for way in ways),
            variable_start=_starts(len(way.types) for way in ways),
            variable=_ints32(place[v] for v, _ in domains),
            domain=_ints32(self.world.size(type_) for _, type_ in domains),
            weight_first=np.array([way.weight for way in ways], np.int64),
            key_start=_starts(len(way.strides) for way in ways),
            key_variable=_ints32(place[v] for v, _ in keys),
            key_stride=np.array([stride for _, stride in keys], np.int64),
        )

    def _tuples(self, rows: Mapping[str, Ints]) -> Tuples:
        """Return indexed tuples, with room for twice as many of the query."""
        width, links = self.stride.shape[1], max(map(len, self.indexes.values()))
        times = {name: 2 if name in self.query else 1 for name in self.names}
        slots = sum(times[name] * len(rows[name]) for name in self.names) + 64
        cells = sum(
            times[name] * len(rows[name]) * len(indexes) for name, indexes in self.indexes.items()
        )
        cells = 1 << (2 * (cells + 64 * links)).bit_length()
        t = Tuples(
            value=np.zeros((slots, width), np.int32),
            after=np.zeros((slots, links), np.int32),
            before=np.zeros((slots, links), np.int32),
            owner=np.full(slots, NONE, np.int32),
            spare=np.zeros(slots, np.int32),
            cell_index=np.full(cells, NONE, np.int32),
            cell_key=np.zeros(cells, np.int64),
            head=np.zeros(cells, np.int32),
            number=np.zeros(cells, np.int32),
            size=np.zeros(3, np.int64),
            index_start=_starts(map(len, self.indexes.values())),
            stride=self.stride,
        )
        for k, name in enumerate(self.names):
            padded = np.zeros((len(rows[name]), width), np.int32)
            padded[:, : rows[name].shape[1]] = rows[name]
            fill(t, k, padded)
        return t

    def atom(self, number: int) -> tuple[str, list[int]]:
        """Return the predicate and the constants of the query's atom with this number."""
        predicate = put_number(self.frame.plan, self.frame.scratch, number)
        name = self.names[predicate]
        return name, self.frame.scratch.value[: len(self.types[name])].tolist()

    def rows(self, name: str) -> Ints:
        """Return the true atoms of a predicate, int64[atoms, arguments], in any order."""
        t = self.frame.tuples
        out = np.zeros(t.value.shape, np.int32)
        n = read(t, self.names.index(name), out)
        return out[:n, : len(self.types[name])].astype(np.int64)

    def set(self, rows: Mapping[str, Ints]) -> None:
        """Make other atoms of the query true; nothing else changes."""
        all_rows = {name: self.rows(name) for name in self.names} | dict(rows)
        self.frame = replace(self.frame, tuples=self._tuples(all_rows))

    def grow(self) -> None:
        """Make room for more true tuples."""
        self.set({})

    @property
    def memory(self) -> int:
        """The bytes of all arrays."""
        f = self.frame
        arrays = [v for x in (f.plan, f.draws, f.tuples, f.scratch) for v in vars(x).values()]
        return sum(v.nbytes for v in arrays if isinstance(v, np.ndarray))

    def change(self, name: str, row: Sequence[int]) -> Floats:
        """Return the changes of the features by the flip of an atom; the last of hard rules' counts."""
        c, predicate = self.frame, self.names.index(name)
        c.scratch.value[: len(row)] = row
        true = slot_of(c.tuples, predicate, c.scratch.value) != NONE
        total = np.zeros(self.weights + 1)
        for terms in (predicate, predicate + len(self.names)):
            change(c, terms, true, np.zeros(len(total)), 1.0, total)
        return total


def _starts(lengths: Iterable[int]) -> Ints32:
    return np.array([*accumulate(lengths, initial=0)], np.int32)


def _ints32(values: Iterable[int]) -> Ints32:
    return np.array([*values], np.int32)
