"""The ground network of one world, with the names of atoms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.mln.ground.atom_names import WorldAtoms
from onlinesrl.mln.ground.convert import clause_model, clause_weights
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.kernels.ground_network import Network


class Soft(NamedTuple):
    """Soft clauses over all atoms of a world, and their weights, float64[clauses]."""

    model: GroundMRF
    weight: Floats


@dataclass(frozen=True, kw_only=True)
class World:
    """A ground network with the names of its atoms.

    ``atoms`` are (predicate, arguments); ``shown`` are the numbers of the queried atoms. Further atoms of
    ``model`` stand for conjunctions under existential quantifiers. ``weight``, float64[clauses], is 0 for
    hard clauses. ``soft`` has all soft clauses, also those with atoms that evidence fixes; in ``model`` such
    an atom occurs only in one hard unit clause. ``types`` has the argument types of each predicate, ``fixed``
    the values of atoms that evidence fixes. ``assumed`` are the predicates that are open only because no
    database has an atom of them, ``empty`` queried ones without an atom.
    """

    atoms: WorldAtoms
    model: GroundMRF
    weight: Floats
    soft: Soft
    types: Mapping[str, Sequence[str]]
    fixed: Mapping[int, bool]
    shown: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    assumed: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


def clause_models(
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
