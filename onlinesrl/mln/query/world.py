"""The ground network of one world, with the names of atoms: in memory or in files.

A network in files may be larger than memory, but each connected component must fit in memory. Grounding
writes to files, which are read in blocks. The clauses go to other files, sorted by parts. A part is a set
of connected components with about ``PART`` literals together. As in tandem inference (Srinivasan 2020,
chapter 4), memory holds vectors over the atoms, and one block or part of the ground clauses.
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
    """A ground network with the names of its atoms.

    ``atoms`` are (predicate, arguments); ``shown`` are the numbers of the queried atoms. Further atoms, up
    to ``n_atoms``, stand for conjunctions under existential quantifiers. ``types`` has the argument types
    of each predicate. ``fixed`` has the values of atoms that evidence fixes. ``assumed`` are the predicates
    that are open only because no database has an atom of them, ``empty`` queried ones without an atom.
    """

    atoms: WorldAtoms
    n_atoms: int
    types: Mapping[str, Sequence[str]]
    fixed: Mapping[int, bool]
    shown: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    assumed: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield parts that have every atom exactly once.

        An atom that evidence fixes occurs only in one hard unit clause.
        """

    @abstractmethod
    def soft(self) -> Iterator[Soft]:
        """Yield all soft clauses, also those with fixed atoms; equal clauses are in the same ``Soft``."""


@dataclass(frozen=True, kw_only=True)
class GroundWorld(World):
    """A world in memory, which is one part."""

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
    """Return the model of a network, the weights of its clauses, and all soft clauses.

    ``of_ground`` has the weights of the ground clauses. ``units`` are further soft clauses of one literal.
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
    """Return the model and the weights with soft unit clauses appended."""
    model = model.with_units(np.array([x for x, _ in units], np.int32), hard=False)
    return model, np.concatenate([weight, [gain for _, gain in units]])


def distinct(model: GroundMRF, weight: Floats) -> tuple[Ints, Floats, Bools]:
    """Return the K distinct clauses of a model, in the order of first occurrence.

    The result has the number of the first occurrence, int64[K], the sum of the weights of equal soft clauses,
    float64[K], and whether an equal clause is hard, bool[K].
    """
    length, n = np.diff(model.start), model.n_clauses
    clause = np.repeat(np.arange(n), length)
    literals = model.literals[np.lexsort((np.abs(model.literals), clause))]
    number, count = np.zeros(n, np.int64), 0
    for size in np.unique(length).tolist():
        rows = np.flatnonzero(length == size)
        same = np.zeros(len(rows), np.int64)
        # refine classes of clauses with equal first literals by the next literal
        for place in range(size):
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
"""The approximate number of literals of a part, unless one component has more."""


class Clauses(NamedTuple):
    """A sequence of clauses: lengths, concatenated literals, hardness and weights."""

    length: Ints32
    literals: Ints32
    hard: Bools
    weight: Floats

    @property
    def start(self) -> Ints:
        """The offsets of the clauses' literals, int64[clauses + 1]."""
        start = np.zeros(len(self.length) + 1, np.int64)
        np.cumsum(self.length, out=start[1:])
        return start

    def model(self, n_atoms: int, group: Ints32, exactly: Bools) -> GroundMRF:
        """Return the clauses as a model over ``n_atoms`` atoms."""
        return GroundMRF(n_atoms, self.start, self.literals, self.hard, group, exactly)

    def chosen(self, rows: Ints) -> Clauses:
        """Return the selected clauses, in the given order."""
        _, picked = gathered(self.start, rows)
        literals, hard = self.literals[picked], self.hard[rows]
        return Clauses(self.length[rows], literals, hard, self.weight[rows])

    def first(self) -> Ints:
        """Return the first atom of each clause; any atom for an empty clause."""
        literals: Ints32 = np.append(self.literals, np.int32(1))
        return np.abs(literals[self.start[:-1]], dtype=np.int64) - 1

    def hashed(self) -> Ints:
        """Return a hash of each clause, equal for clauses with equal literals."""
        mixed = self.literals.astype(np.int64) * 0x2545F4914F6CDD1D
        mixed = (mixed ^ (mixed >> 29)) * 0x369DEA0F31A53F85
        total = np.concatenate(([0], np.cumsum(mixed)))[self.start]
        return np.diff(total) >> 32


def of_literals(literals: Ints32, weight: Floats, hard: bool) -> Clauses:
    """Return unit clauses."""
    ones = np.ones(len(literals), np.int32)
    return Clauses(ones, literals, np.full(len(literals), hard), weight)


class Sorted:
    """Clauses in files, in blocks; within a block, the clauses of a part are contiguous."""

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
        """Add a block of clauses; ``part`` has the part of each clause."""
        order = np.argsort(part, kind="stable")
        clauses = clauses.chosen(order)
        at, literal = (int(column[-1]) for column in self._ends[-1])
        block = slice(at, at + len(order))
        self._columns.length[block] = clauses.length
        self._columns.literals[literal : literal + len(clauses.literals)] = clauses.literals
        self._columns.hard[block] = clauses.hard
        self._columns.weight[block] = clauses.weight
        stop = np.searchsorted(part[order], np.arange(self.n_parts + 1))
        self._ends.append((at + stop, literal + clauses.start[stop]))

    def of(self, part: int) -> Clauses:
        """Return the clauses of a part, in the order in which they were added."""
        by_clause, by_literal = (
            [slice(*span[part : part + 2].tolist()) for span in ends]
            for ends in zip(*self._ends[1:], strict=True)
        )
        length, literals, hard, weight = self._columns
        return Clauses(
            np.concatenate([length[span] for span in by_clause]),
            np.concatenate([literals[span] for span in by_literal]),
            np.concatenate([hard[span] for span in by_clause]),
            np.concatenate([weight[span] for span in by_clause]),
        )


class Stored(NamedTuple):
    """A network in files; part ``p`` has the atoms ``order[start[p] : start[p + 1]]``."""

    order: Ints
    start: Ints
    group: Ints32
    exactly: Bools
    clauses: Sorted
    soft: Sorted


@dataclass(frozen=True, kw_only=True)
class WorldOnDisk(World):
    """A world in unnamed files, which are deleted together with ``stored``."""

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
    """Store a network, and the soft unit clauses ``units``.

    ``weights`` returns the weights of the ground clauses of a view of the network; ``zeros`` allocates the
    arrays of clauses.
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
    """Return the clauses of a view, without soft clauses of weight 0, which connect no atoms."""
    place, length, literals, hard = clauses(view, 0, int(view.size[ROWS]), folded)
    kept_clauses = Clauses(length, literals, hard, np.where(hard, 0.0, weight[place]))
    return kept_clauses.chosen(np.flatnonzero(hard | (kept_clauses.weight != 0)))


def _parts(
    net: Network, weights: Callable[[Network], Floats], group: Ints32, exactly: Bools
) -> tuple[Ints, int, int]:
    """Return the part of each atom, int64[atoms], the number of parts, and a bound on the literals."""
    atoms = int(net.size[ATOMS])
    root, size, literals = np.arange(atoms), np.ones(atoms), 0
    join_groups(group, exactly, root)
    for view in _views(net):
        literals += int(np.diff(view.lit_start).astype(np.int64) @ view.row_len)
        clauses = _clauses(view, weights(view), folded=True)
        run = np.flatnonzero(clauses.length)
        join(clauses.start, clauses.literals, run, root)
        size += np.bincount(clauses.first()[run], clauses.length[run], atoms)
    size_of_root = np.bincount(root, size, atoms)
    number = ((np.cumsum(size_of_root) - size_of_root) // PART)[root]
    parts, part = np.unique(number, return_inverse=True)
    return part.reshape(-1), max(len(parts), 1), literals
