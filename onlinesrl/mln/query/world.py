"""The ground network of one world, with names: in memory, or (``world_on_disk``) in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.mln.ground.atom_names import WorldAtoms
from onlinesrl.mln.ground.convert import clause_model, clause_weights
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.kernels.ground_network import Network


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
    whole, place = clause_model(net, folded=False)
    whole, gain = _with_units(whole, clause_weights(whole, place, of_ground), units)
    is_soft = np.flatnonzero(~whole.hard)
    model, place = clause_model(net)
    model, weight = _with_units(model, clause_weights(model, place, of_ground), units)
    return model, weight, Soft(whole.select(is_soft), gain[is_soft])


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
    number, found = np.zeros(n, np.int64), 0
    for each in np.unique(length).tolist():
        rows = np.flatnonzero(length == each)
        of = np.zeros(len(rows), np.int64)
        for place in range(
            each
        ):  # of the clauses with the same literals so far, those with this one
            code = of * (2 * model.n_atoms + 1) + literals[model.start[rows] + place]
            of = np.unique(code, return_inverse=True)[1].reshape(-1)
        number[rows] = found + of
        found += int(of.max(initial=-1)) + 1
    first = np.zeros(found, np.int64)
    first[number[::-1]] = np.arange(n)[::-1]
    order = np.argsort(first)
    total: Floats = np.bincount(number, np.where(model.hard, 0.0, weight), found).astype(np.float64)
    return first[order], total[order], (np.bincount(number, model.hard, found) > 0)[order]
