"""The changes of counts by flips of single atoms, compiled to steps for `mln.kernels.flip_counts`.

A term of a change is a conjunctive query over the true tuples (`mln.counting.flip_effects`) in which the
atom that flips is known. What is known is looked up first, so that a visit meets only matches around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.errors import UsageError
from onlinesrl.logic.ast import Atom, Constant, Leaf, Variable, replace_terms
from onlinesrl.mln.counting.disjoint_conjunctions import SAME, Monomial, Part, free_variables
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.flip_effects import flips
from onlinesrl.mln.counting.program_counts import Counters, strides_of
from onlinesrl.mln.counting.world import World
from onlinesrl.mln.kernels import flip_counts as kernel
from onlinesrl.mln.kernels.flip_counts import BOUND, CHECK, DOMAIN, EQUAL, LOOP, SET, SIZE

_DRAWN = "drawn "
INDEXED = 1 << 62
"""The keys of an index are numbers below this."""


@dataclass(frozen=True)
class Step:
    """What is done with which predicate, and the variables of its columns with their modes."""

    kind: int
    predicate: str
    variables: tuple[str, ...]
    modes: tuple[int, ...]

    @property
    def index(self) -> tuple[str, tuple[int, ...]]:
        """The predicate, and the columns that are bound before the step."""
        return self.predicate, tuple(k for k, mode in enumerate(self.modes) if mode == BOUND)


@dataclass(frozen=True)
class PlannedTerm:
    """A term of a change: its parts, and where its weight is.

    The number of the weight is ``weight`` plus, for each variable, its constant's number times its stride.
    """

    odd: bool
    scale: float
    parts: tuple[tuple[Step, ...], ...]
    weight: int
    strides: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PlannedWay:
    """A way in which a formula is true or false (``truth``): its parts, and steps that match the true ones.

    A part has its predicate (None: an equation), its variables, and whether it is true. ``types`` are
    those of the variables. The weight is as in ``PlannedTerm``.
    """

    truth: bool
    parts: tuple[tuple[str | None, tuple[str, ...], bool], ...]
    steps: tuple[Step, ...]
    types: Mapping[str, str]
    weight: int
    strides: tuple[tuple[str, int], ...]


class Planner:
    """Plans the terms of the changes of a world's counts."""

    def __init__(
        self, counters: Counters, world: World, estimated: Collection[tuple[int, str]]
    ) -> None:
        self.counters = counters
        self.estimated = estimated
        self.world = world
        self.places, self.weights = counters.places(world)
        self.constants: dict[str, int] = {}

    def terms(self, predicate: str, hard: bool) -> Iterator[PlannedTerm]:
        """Yield the terms of a predicate's flips, in soft or in hard rules.

        Raises ModelError for a rule whose changes cannot be counted.
        """
        types, world = self.counters.program.predicates[predicate].types, self.world
        triples = zip(self.counters.clauses, self.counters.compiled, self.places, strict=True)
        for number, (clause, counter, place) in enumerate(triples):
            if clause.hard != hard or (number, predicate) in self.estimated:
                continue
            assert isinstance(counter, Counter)
            with self.counters.located(clause):
                counter.prepare(world)
                compiled = flips(counter, predicate, types)
            strides = strides_of(place.sizes)
            flipped = compiled.odd.keep[: len(types)]
            keep = {v: counter.types[v] for v in counter.keep}
            for odd, part in ((True, compiled.odd), (False, compiled.even)):
                for term in part.terms:
                    parts = self._parts(term.monomial, flipped, keep)
                    scale = term.times(world) / (1 if hard else place.share)
                    if parts is not None and scale:
                        first = self.weights if hard else place.first
                        template_strides = (
                            () if hard else (*zip(counter.keep, strides, strict=True),)
                        )
                        yield PlannedTerm(odd, scale, parts, first, template_strides)

    def ways(self) -> Iterator[PlannedWay]:
        """Yield the ways in which soft formulas are true or false, those without unknown constants."""
        triples = zip(self.counters.clauses, self.counters.compiled, self.places, strict=True)
        for clause, counter, place in triples:
            assert isinstance(counter, Counter)
            types = {_DRAWN + v: type_ for v, type_ in counter.types.items()}
            strides = strides_of(place.sizes)
            template_strides = (*zip((_DRAWN + v for v in counter.keep), strides, strict=True),)
            for way in () if clause.hard else counter.ways.conjunctions:
                parts = [(_drawn(part), true) for part, true in way]
                atoms = [part for part, true in parts if true and isinstance(part, Atom)]
                named = [(*self._named(part, types), true) for part, true in parts]
                if all(map(self._number, (p for p, _ in parts if isinstance(p, Atom)))):
                    steps = (*self._steps(atoms, (), types),)
                    truth = counter.ways.truth
                    yield PlannedWay(truth, (*named,), steps, types, place.first, template_strides)

    def _named(self, part: Part, types: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
        """Return the predicate of an atom, None of an equation, and the names of its terms."""
        if isinstance(part, Atom):
            argument_types = self.world.table(part.predicate).types
            return part.predicate, (*map(_name, part.terms, argument_types),)
        sides = part.left, part.right
        type_ = next(types[side.name] for side in sides if isinstance(side, Variable))
        for side in sides:
            if isinstance(side, Constant):
                number = self.world.numbers.get(type_, {}).get(side.name, self.world.base)
                self.constants[_name(side, type_)] = number
        return None, (*(_name(side, type_) for side in sides),)

    def _parts(
        self, monomial: Monomial, pinned: Sequence[str], keep: Mapping[str, str]
    ) -> tuple[tuple[Step, ...], ...] | None:
        """Return the steps of the parts that share no variable; None if a constant is unknown.

        The last part has the variables to ``keep`` (with their types).
        """
        apart: list[tuple[set[str], list[Atom]]] = [({*keep}, [])]
        for atom in monomial.atoms:
            if not self._number(atom):
                return None
            names = {*free_variables(atom)} - {*pinned}
            touched = [part for part in apart if part[0] & names]
            united = names.union(*(names_of_part for names_of_part, _ in touched))
            atoms = [*chain.from_iterable(atoms for _, atoms in touched), atom]
            apart = [*(part for part in apart if part not in touched), (united, atoms)]
        apart.sort(key=lambda part: bool(part[0] & {*keep}))
        parts = [self._steps(atoms, pinned, keep) for _, atoms in apart if atoms]
        if not any(atoms and names & {*keep} for names, atoms in apart):
            parts.append(self._steps([], pinned, keep))
        bound = {v for atom in apart[-1][1] for v in free_variables(atom)}
        parts[-1] += [
            Step(DOMAIN, SAME + type_, (v,), (SET,)) for v, type_ in keep.items() if v not in bound
        ]
        return (*map(tuple, parts),)

    def _number(self, atom: Atom) -> bool:
        """Note the numbers of an atom's constants; return whether all are known."""
        types = self.world.table(atom.predicate).types
        for type_, term in zip(types, atom.terms, strict=True):
            if isinstance(term, Constant):
                number = self.world.numbers.get(type_, {}).get(term.name)
                if number is None:
                    return False
                self.constants[_name(term, type_)] = number
        return True

    def _steps(
        self, atoms: Sequence[Atom], pinned: Iterable[str], keep: Collection[str]
    ) -> list[Step]:
        """Return the steps that match some atoms; what is known is looked up first.

        An atom whose other variables stand nowhere else is only counted, by the size of its group.
        """
        remaining, bound, steps = [*atoms], {*pinned}, list[Step]()

        def cost(atom: Atom) -> tuple[bool, int, int]:
            names = {*free_variables(atom)}
            free = names - bound
            apart = len(free) == len({*atom.terms})
            return apart, len(free), len(self.world.table(atom.predicate).rows)

        while remaining:
            atom = min(remaining, key=cost)
            remaining.remove(atom)
            types = self.world.table(atom.predicate).types
            names = [*map(_name, atom.terms, types)]
            new = {*free_variables(atom)} - bound
            later = {*keep, *chain.from_iterable(map(free_variables, remaining))}
            if atom.predicate.startswith(SAME):
                names.sort(key=new.__contains__)
                if {*names} == new:
                    steps.append(Step(DOMAIN, atom.predicate, (names[0],), (SET,)))
                steps.append(Step(EQUAL, atom.predicate, (*names,), (BOUND, SET if new else BOUND)))
            else:
                modes = tuple(
                    BOUND if name not in new else CHECK if name in names[:k] else SET
                    for k, name in enumerate(names)
                )
                kind = LOOP if CHECK in modes or new & later else SIZE
                steps.append(Step(kind, atom.predicate, (*names,), modes))
            bound |= new
        return steps


def _drawn(part: Part) -> Part:
    """Return a part whose variables have places of their own."""

    def new(leaf: Leaf) -> Leaf:
        return Variable(_DRAWN + leaf.name) if isinstance(leaf, Variable) else leaf

    drawn = replace_terms(part, new)
    assert isinstance(drawn, Part)
    return drawn


def _name(term: object, type_: str) -> str:
    """Return the name of a variable; of a constant one that no variable has."""
    assert isinstance(term, Variable | Constant)
    return term.name if isinstance(term, Variable) else f"{type_}'{term.name}"


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
        planner, declared = Planner(counters, world, estimated), counters.program.predicates
        self.world = world
        self.weights = planner.weights
        self.query = [name for name in declared if name in query]
        soft, hard = (
            {name: [*planner.terms(name, hard)] for name in self.query} for hard in (False, True)
        )
        terms = [*chain.from_iterable([*soft.values(), *hard.values()])]
        ways = [*planner.ways()]
        of_terms = [step for term in terms for part in term.parts for step in part]
        steps = [*of_terms, *(step for way in ways for step in way.steps)]
        tables = [step for step in steps if step.kind in (LOOP, SIZE)]
        self.names = [
            *dict.fromkeys(
                [
                    *self.query,
                    *(step.predicate for step in tables),
                    *(name for way in ways for name, _, _ in way.parts if name is not None),
                ]
            )
        ]
        self.types = {name: world.table(name).types for name in self.names}
        width = max(2, *(len(types) for types in self.types.values()))
        sizes = np.ones((len(self.names), width), np.int64)
        for row, types in zip(sizes, self.types.values(), strict=True):
            row[: len(types)] = [*map(world.size, types)]
        indexes = [
            (name, columns)
            for name, types in self.types.items()
            for columns in dict.fromkeys(
                [(*range(len(types)),), *(s.index[1] for s in tables if s.predicate == name)]
            )
        ]
        self.indexes = [
            [columns for predicate, columns in indexes if predicate == name] for name in self.names
        ]
        number = {index: k for k, index in enumerate(indexes)}
        self.stride = np.zeros((len(indexes), width), np.int64)
        for k, (name, columns) in enumerate(indexes):
            factor = 1
            for column in reversed(columns):
                self.stride[k, column] = factor
                factor *= max(1, world.size(self.types[name][column]))
            if factor >= INDEXED:
                raise UsageError(
                    f"{name} has {factor:.3g} atoms, too many to number them: give its arguments types of "
                    "fewer constants"
                )
        variables = [v for step in steps for v in step.variables]
        variables += [v for way in ways for _, names, _ in way.parts for v in names]
        variables += [v for way in ways for v in way.types]
        variables += [f"{name}.{k}" for name in self.query for k in range(len(self.types[name]))]
        place = {v: width + k for k, v in enumerate(dict.fromkeys(variables))}
        for name in self.query:
            place |= {f"{name}.{k}": k for k in range(len(self.types[name]))}
        by_name = [len(part.get(name, ())) for part in (soft, hard) for name in self.names]
        parts = [part for term in terms for part in term.parts]
        plan = kernel.Plan(
            _starts(by_name),
            np.array([term.odd for term in terms], np.uint8),
            np.array([term.scale for term in terms], np.float64),
            _starts(len(term.parts) for term in terms),
            _starts(map(len, parts)),
            np.array([step.kind for step in steps], np.uint8),
            np.array(
                [self.names.index(s.predicate) if s.kind in (LOOP, SIZE) else 0 for s in steps],
                np.int32,
            ),
            np.array(
                [
                    world.size(s.predicate.removeprefix(SAME))
                    if s.kind == DOMAIN
                    else number.get(s.index, 0)
                    for s in steps
                ],
                np.int32,
            ),
            _starts(len(step.variables) for step in steps),
            np.array([place[v] for step in steps for v in step.variables], np.int32),
            np.array([mode for step in steps for mode in step.modes], np.uint8),
            np.array([term.weight for term in terms], np.int64),
            _starts(len(term.strides) for term in terms),
            np.array([place[v] for term in terms for v, _ in term.strides], np.int32),
            np.array([stride for term in terms for _, stride in term.strides], np.int64),
            sizes,
            np.array([len(types) for types in self.types.values()], np.int32),
            np.array([self.names.index(name) for name in self.query], np.int32),
        )
        value = np.zeros(width + len(place), np.int32)
        for name, constant in planner.constants.items():
            if name in place:
                value[place[name]] = constant
        n = len(steps)
        most = max([1, *(len(way.parts) for way in ways)])
        scratch = kernel.Scratch(
            value,
            np.zeros(n, np.int32),
            np.zeros(n + 1),
            np.zeros(most, np.int64),
            np.zeros(most),
        )
        draws = self._draws(ways, place, len(of_terms))
        tuples = self._tuples({name: world.table(name).rows for name in self.names})
        self.frame = kernel.Counting(plan, draws, tuples, scratch)

    def _draws(
        self, ways: Sequence[PlannedWay], place: Mapping[str, int], first: int
    ) -> kernel.Draws:
        """Return how groundings of ways are drawn; their steps stand in the plan from ``first`` on."""
        drawn = [part for way in ways for part in way.parts]
        cells = np.zeros((len(drawn), self.stride.shape[1]), np.int32)
        for cell, (_, names, _) in zip(cells, drawn, strict=True):
            cell[: len(names)] = [place[v] for v in names]
        return kernel.Draws(
            np.array([way.truth for way in ways], np.uint8),
            _starts(len(way.parts) for way in ways),
            np.array(
                [kernel.NONE if name is None else self.names.index(name) for name, _, _ in drawn],
                np.int32,
            ),
            np.array([true for _, _, true in drawn], np.uint8),
            cells,
            np.int32(first) + _starts(len(way.steps) for way in ways),
            _starts(len(way.types) for way in ways),
            np.array([place[v] for way in ways for v in way.types], np.int32),
            np.array([self.world.size(t) for way in ways for t in way.types.values()], np.int32),
            np.array([way.weight for way in ways], np.int64),
            _starts(len(way.strides) for way in ways),
            np.array([place[v] for way in ways for v, _ in way.strides], np.int32),
            np.array([stride for way in ways for _, stride in way.strides], np.int64),
        )

    def _tuples(self, rows: Mapping[str, Ints]) -> kernel.Tuples:
        """Return indexed tuples, with room for twice as many of the query."""
        width, links = self.stride.shape[1], max(map(len, self.indexes))
        open_ = sum(len(rows[name]) for name in self.query)
        slots = sum(map(len, rows.values())) + open_ + 64
        cells = sum(
            len(rows[name]) * len(indexes_of_name) * (2 if name in self.query else 1)
            for name, indexes_of_name in zip(self.names, self.indexes, strict=True)
        )
        cells = 1 << (2 * (cells + 64 * links)).bit_length()
        t = kernel.Tuples(
            np.zeros((slots, width), np.int32),
            np.zeros((slots, links), np.int32),
            np.zeros((slots, links), np.int32),
            np.full(slots, kernel.NONE, np.int32),
            np.zeros(slots, np.int32),
            np.full(cells, kernel.NONE, np.int32),
            np.zeros(cells, np.int64),
            np.zeros(cells, np.int32),
            np.zeros(cells, np.int32),
            np.zeros(3, np.int64),
            _starts(map(len, self.indexes)),
            self.stride,
        )
        for k, name in enumerate(self.names):
            padded = np.zeros((len(rows[name]), width), np.int32)
            padded[:, : rows[name].shape[1]] = rows[name]
            kernel.fill(t, k, padded)
        return t

    def atom(self, number: int) -> tuple[str, list[int]]:
        """Return the predicate and the constants of the query's atom with this number."""
        predicate = kernel.put_number(self.frame.plan, self.frame.scratch, number)
        name = self.names[predicate]
        return name, self.frame.scratch.value[: len(self.types[name])].tolist()

    def rows(self, name: str) -> Ints:
        """Return the true atoms of a predicate, int64[atoms, arguments], in any order."""
        t = self.frame.tuples
        out = np.zeros(t.value.shape, np.int32)
        n = kernel.read(t, self.names.index(name), out)
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
        true = kernel.slot_of(c.tuples, predicate, c.scratch.value) != kernel.NONE
        total = np.zeros(self.weights + 1)
        for terms in (predicate, predicate + len(self.names)):
            kernel.change(c, terms, true, np.zeros(len(total)), 1.0, total)
        return total


def _starts(lengths: Iterable[int]) -> Ints32:
    return np.array([*accumulate(lengths, initial=0)], np.int32)
