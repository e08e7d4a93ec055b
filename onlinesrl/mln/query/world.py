"""The ground network of one world, with names: in memory or in files.

A network in files may be larger than memory, its connected components may not. It is ground into files and
read in blocks. Its clauses go to other files, sorted by parts: some connected components that have about
``PART`` literals together. As in tandem inference (Srinivasan 2020, chapter 4), memory holds vectors over
the atoms, and of the ground clauses a block or a part, however many there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints, Ints32, Zeros, gathered
from onlinesrl.mln.ground.atom_names import WorldAtoms
from onlinesrl.mln.ground.convert import (
    blocks,
    clause_model,
    clause_weights,
    clauses,
    fixed_units,
    groups,
)
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.components import join_groups, restrict
from onlinesrl.mln.kernels.components import join
from onlinesrl.mln.kernels.ground_network import ATOMS, ROWS, Network, some_rows


class Part(NamedTuple):
    """Connected components of a world: a model whose atom ``i`` is the world's atom ``atoms[i]``.

    ``weight``, float64[clauses], is 0 for hard clauses.
    """

    atoms: Ints
    model: GroundMRF
    weight: Floats


class Soft(NamedTuple):
    """Soft clauses over all atoms of a world, and their weights, float64[clauses]."""

    model: GroundMRF
    weight: Floats


@dataclass(frozen=True, kw_only=True)
class World(ABC):
    """A ground network with names.

    ``atoms`` are (predicate, arguments), ``shown`` those asked for, ``types`` those of each predicate's
    arguments. Behind them are, up to ``n_atoms``, those that stand for conjunctions an existential
    quantifier asks for. ``fixed`` are the values of atoms that evidence gives. ``assumed`` are the predicates
    that are open only because no database has an atom of them.
    """

    atoms: WorldAtoms
    n_atoms: int
    types: Mapping[str, Sequence[str]]
    fixed: Mapping[int, bool]
    shown: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    assumed: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield parts that have every atom once.

        Atoms that evidence fixes are hard unit clauses, and in no other one.
        """

    @abstractmethod
    def soft(self) -> Iterator[Soft]:
        """Yield all soft clauses, those of fixed atoms too; equal ones together."""


@dataclass(frozen=True, kw_only=True)
class GroundWorld(World):
    """A world in memory, of one part; ``gain`` are the weights of all ``soft`` clauses."""

    model: GroundMRF
    weight: Floats
    all_soft: Soft

    def parts(self) -> Iterator[Part]:
        """See ``World.parts``."""
        yield Part(np.arange(self.n_atoms), self.model, self.weight)

    def soft(self) -> Iterator[Soft]:
        """See ``World.soft``."""
        yield self.all_soft


def in_memory(
    net: Network, of_ground: Floats, units: Sequence[tuple[int, float]]
) -> tuple[GroundMRF, Floats, Soft]:
    """Return the model of a network, its weights and all soft clauses, with soft ones of one literal.

    ``of_ground`` are the weights of the ground clauses.
    """
    full, place = clause_model(net, folded=False)
    full, gain = _with_units(full, clause_weights(full, place, of_ground), units)
    is_soft = np.flatnonzero(~full.hard)
    model, place = clause_model(net)
    model, weight = _with_units(model, clause_weights(model, place, of_ground), units)
    return model, weight, Soft(full.select(is_soft), gain[is_soft])


def _with_units(
    model: GroundMRF, weight: Floats, units: Sequence[tuple[int, float]]
) -> tuple[GroundMRF, Floats]:
    """Add soft clauses of one literal."""
    model = model.with_units(np.array([x for x, _ in units], np.int32), hard=False)
    return model, np.concatenate([weight, [gain for _, gain in units]])


def distinct(model: GroundMRF, weight: Floats) -> tuple[Ints, Floats, Bools]:
    """Return the different clauses of a model, in the order of their first ones.

    Each is the number of its first one, int64[K], with the sum of the weights of the soft ones like it,
    float64[K], and whether one of these is hard, bool[K].
    """
    length, n = np.diff(model.start), model.n_clauses
    clause = np.repeat(np.arange(n), length)
    literals = model.literals[np.lexsort((np.abs(model.literals), clause))]
    number, count = np.zeros(n, np.int64), 0
    for each in np.unique(length).tolist():
        rows = np.flatnonzero(length == each)
        same = np.zeros(len(rows), np.int64)
        for place in range(
            each
        ):  # of the clauses with the same literals so far, those with this one
            code = same * (2 * model.n_atoms + 1) + literals[model.start[rows] + place]
            same = np.unique(code, return_inverse=True)[1].reshape(-1)
        number[rows] = count + same
        count += int(same.max(initial=-1)) + 1
    first = np.zeros(count, np.int64)
    first[number[::-1]] = np.arange(n)[::-1]
    order = np.argsort(first)
    total: Floats = np.bincount(number, np.where(model.hard, 0.0, weight), count).astype(np.float64)
    return first[order], total[order], (np.bincount(number, model.hard, count) > 0)[order]


PART = 1 << 18
"""About how many literals a part has, unless one component has more."""


class Clauses(NamedTuple):
    """Clauses one after another: their lengths and literals, which are hard, and their weights."""

    length: Ints32
    literals: Ints32
    hard: Bools
    weight: Floats

    @property
    def start(self) -> Ints:
        """Where the literals of each clause start, and where they end."""
        start = np.zeros(len(self.length) + 1, np.int64)
        np.cumsum(self.length, out=start[1:])
        return start

    def model(self, n_atoms: int, group: Ints32, exactly: Bools) -> GroundMRF:
        """Return the clauses as a model over so many atoms."""
        return GroundMRF(n_atoms, self.start, self.literals, self.hard, group, exactly)

    def chosen(self, rows: Ints) -> Clauses:
        """Return some of the clauses, in this order."""
        _, picked = gathered(self.start, rows)
        literals, hard = self.literals[picked], self.hard[rows]
        return Clauses(self.length[rows], literals, hard, self.weight[rows])

    def first(self) -> Ints:
        """Return an atom of each clause that has one, its first."""
        literals: Ints32 = np.append(self.literals, np.int32(1))
        return np.abs(literals[self.start[:-1]], dtype=np.int64) - 1

    def hashed(self) -> Ints:
        """Return a number for each clause, the same for those of the same literals."""
        mixed = self.literals.astype(np.int64) * 0x2545F4914F6CDD1D
        mixed = (mixed ^ (mixed >> 29)) * 0x369DEA0F31A53F85
        total = np.concatenate(([0], np.cumsum(mixed)))[self.start]
        return np.diff(total) >> 32


def of_literals(literals: Ints32, weight: Floats, hard: bool) -> Clauses:
    """Return clauses of one literal."""
    one = np.ones(len(literals), np.int32)
    return Clauses(one, literals, np.full(len(literals), hard), weight)


class Sorted:
    """Clauses in files, in blocks, in each of which those of a part follow each other."""

    def __init__(self, n_clauses: int, n_literals: int, n_parts: int, zeros: Zeros) -> None:
        self.n_parts = n_parts
        self._columns = Clauses(
            zeros(n_clauses, np.int32),
            zeros(n_literals, np.int32),
            zeros(n_clauses, np.bool_),
            zeros(n_clauses, np.float64),
        )
        self._ends: list[tuple[Ints, Ints]] = [(np.zeros(1, np.int64), np.zeros(1, np.int64))]

    def add(self, part: Ints, clauses: Clauses) -> None:
        """Add a block; ``part`` is that of each clause."""
        order = np.argsort(part, kind="stable")
        clauses = clauses.chosen(order)
        at, literal = (int(each[-1]) for each in self._ends[-1])
        here = slice(at, at + len(order))
        self._columns.length[here] = clauses.length
        self._columns.literals[literal : literal + len(clauses.literals)] = clauses.literals
        self._columns.hard[here] = clauses.hard
        self._columns.weight[here] = clauses.weight
        stop = np.searchsorted(part[order], np.arange(self.n_parts + 1))
        self._ends.append((at + stop, literal + clauses.start[stop]))

    def of(self, part: int) -> Clauses:
        """Return the clauses of a part, in the order in which they were added."""
        by_clause, by_literal = (
            [slice(*each[part : part + 2].tolist()) for each in ends]
            for ends in zip(*self._ends[1:], strict=True)
        )
        length, literals, hard, weight = self._columns
        return Clauses(
            np.concatenate([length[each] for each in by_clause]),
            np.concatenate([literals[each] for each in by_literal]),
            np.concatenate([hard[each] for each in by_clause]),
            np.concatenate([weight[each] for each in by_clause]),
        )


class Stored(NamedTuple):
    """A network in files: atoms ``order[start[p] : start[p + 1]]`` are those of part ``p``."""

    order: Ints
    start: Ints
    group: Ints32
    exactly: Bools
    clauses: Sorted
    soft: Sorted


@dataclass(frozen=True, kw_only=True)
class WorldOnDisk(World):
    """A world in files; those of ``stored`` have no names, and end with it."""

    stored: Stored

    def parts(self) -> Iterator[Part]:
        """See ``World.parts``."""
        s = self.stored
        for p in range(s.clauses.n_parts):
            atoms = s.order[s.start[p] : s.start[p + 1]]
            clauses = s.clauses.of(p)
            model = clauses.model(self.n_atoms, s.group, s.exactly)
            part = restrict(model, atoms, np.arange(model.n_clauses))
            yield Part(atoms, part, clauses.weight)

    def soft(self) -> Iterator[Soft]:
        """See ``World.soft``."""
        none = np.full(self.n_atoms, -1, np.int32), np.zeros(0, np.bool_)
        for p in range(self.stored.soft.n_parts):
            clauses = self.stored.soft.of(p)
            yield Soft(clauses.model(self.n_atoms, *none), clauses.weight)


def stored(
    net: Network,
    weights: Callable[[Network], Floats],
    units: Sequence[tuple[int, float]],
    zeros: Zeros,
) -> Stored:
    """Store a network, and soft clauses of one literal.

    ``weights`` are those of the ground clauses of a view of it; ``zeros`` makes the arrays of the clauses.
    """
    group, exactly = groups(net)
    part, n_parts, literals = _parts(net, weights, group, exactly)
    fixed = fixed_units(net)
    more = len(units) + len(fixed)
    sizes = int(net.clause_start[net.size[ROWS]]) + more, literals + more
    model = Sorted(*sizes, n_parts, zeros)
    soft = Sorted(*sizes, 1 + literals // PART, zeros)

    def add(folded: Clauses, unfolded: Clauses) -> None:
        unfolded = unfolded.chosen(np.flatnonzero(~unfolded.hard))
        model.add(part[folded.first()], folded)
        soft.add(unfolded.hashed() % soft.n_parts, unfolded)

    for view in _views(net):
        weight = weights(view)
        add(_clauses(view, weight, folded=True), _clauses(view, weight, folded=False))
    literal, gain = np.array(units, np.float64).reshape(-1, 2).T
    more_clauses = of_literals(literal.astype(np.int32), gain, hard=False)
    add(more_clauses, more_clauses)
    more_clauses = of_literals(fixed, np.zeros(len(fixed)), hard=True)
    add(more_clauses, more_clauses)
    order = np.argsort(part, kind="stable")
    start = np.searchsorted(part[order], np.arange(n_parts + 1))
    return Stored(order, start, group, exactly, model, soft)


def _views(net: Network) -> Iterator[Network]:
    return (some_rows(net, first, stop) for first, stop in blocks(net))


def _clauses(view: Network, weight: Floats, folded: bool) -> Clauses:
    """Return the clauses of a view but those that weigh nothing, which connect no atoms."""
    place, length, literals, hard = clauses(view, 0, int(view.size[ROWS]), folded)
    kept_clauses = Clauses(length, literals, hard, np.where(hard, 0.0, weight[place]))
    return kept_clauses.chosen(np.flatnonzero(hard | (kept_clauses.weight != 0)))


def _parts(
    net: Network, weights: Callable[[Network], Floats], group: Ints32, exactly: Bools
) -> tuple[Ints, int, int]:
    """Return the part of each atom, int64[atoms], their number, and about how many literals there are."""
    atoms = int(net.size[ATOMS])
    root, size, literals = np.arange(atoms), np.ones(atoms), 0
    join_groups(group, exactly, root)
    for view in _views(net):
        literals += int(np.diff(view.lit_start).astype(np.int64) @ view.row_len)
        clauses = _clauses(view, weights(view), folded=True)
        run = np.flatnonzero(clauses.length)
        join(clauses.start, clauses.literals, run, root)
        size += np.bincount(clauses.first()[run], clauses.length[run], atoms)
    of_root = np.bincount(root, size, atoms)
    number = ((np.cumsum(of_root) - of_root) // PART)[root]
    parts, part = np.unique(number, return_inverse=True)
    return part.reshape(-1), max(len(parts), 1), literals
