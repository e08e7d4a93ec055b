"""Long clauses as chains of short ones, so that elimination may take their atoms one after the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.mln.ground.ground_mrf import GroundMRF

SHORT = 4
"""The most literals of a clause that stays as it is."""


def chained(model: GroundMRF, weight: Floats) -> tuple[GroundMRF, Floats] | None:
    """Return a model without long clauses and its weights, or None where no clause is long.

    A clause ``l1 v ... v lk`` becomes ``a v lk``. Further atoms say whether one of the first literals is
    true: ``a2 <=> l1 v l2``, ``a3 <=> a2 v l3`` and so on, up to a. So the atoms of the model keep their
    probabilities, and the states their scores. The literals are in the order in which the other clauses
    connect their atoms, by reverse Cuthill-McKee (Cuthill & McKee 1969).
    """
    length = np.diff(model.start)
    long = length > SHORT
    if not long.any():
        return None
    rank = _ranks(model, ~long)
    rows = [row.tolist() for row in np.split(model.literals, model.start[1:-1])]
    ends = list[list[int]]()
    atoms = model.n_atoms
    for c in np.flatnonzero(long).tolist():
        first, *rest = sorted(rows[c], key=lambda x: rank[abs(x) - 1])
        for literal in rest[:-1]:
            atoms += 1
            ends += [[-atoms, first, literal], [atoms, -first], [atoms, -literal]]
            first = atoms
        rows[c] = [first, rest[-1]]
    more = atoms - model.n_atoms
    rows += ends
    split = replace(
        model,
        n_atoms=atoms,
        start=np.cumsum([0, *map(len, rows)]),
        literals=np.concatenate(rows).astype(np.int32),
        hard=np.append(model.hard, np.ones(len(ends), np.bool_)),
        group=np.append(model.group, np.full(more, -1, np.int32)),
    )
    return split, np.append(weight, np.zeros(len(ends)))


def _ranks(model: GroundMRF, short: Bools) -> Ints:
    """Return the place of each atom in an order in which clauses that are short join near ones."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    part = model.select(np.flatnonzero(short))
    groups = (np.flatnonzero(model.group == g) for g in range(len(model.exactly)))
    clauses = (np.abs(row) - 1 for row in np.split(part.literals, part.start[1:-1]))
    pairs = [pair for atoms in (*clauses, *groups) for pair in pairwise(atoms.tolist())]
    one, other = np.array(pairs, np.int64).reshape(-1, 2).T
    near = csr_array((np.ones(len(one)), (one, other)), shape=(model.n_atoms, model.n_atoms))
    order = reverse_cuthill_mckee(near + near.T, symmetric_mode=True)
    rank = np.empty(model.n_atoms, np.int64)
    rank[order] = np.arange(model.n_atoms)
    return rank
