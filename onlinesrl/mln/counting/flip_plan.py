"""The changes of counts by flips of single atoms, planned as steps for `mln.counting.flip_counts`.

A term of a change is a conjunctive query over the true tuples (`mln.counting.flip_effects`) in which the
atom that flips is known. What is known is looked up first, so that a visit meets only matches around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from onlinesrl.logic.ast import Atom, Constant, Leaf, Variable, free_variables, replace_terms
from onlinesrl.mln.counting.disjoint_conjunctions import SAME, Monomial, Part
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.flip_effects import flips
from onlinesrl.mln.counting.program_counts import Counters, strides_of
from onlinesrl.mln.counting.world import World
from onlinesrl.mln.kernels.flip_counts import BOUND, CHECK, DOMAIN, EQUAL, LOOP, SET, SIZE

_DRAWN = "drawn "


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
