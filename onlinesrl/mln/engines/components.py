"""The connected components of a ground model, each a model of its own."""

from __future__ import annotations

import numpy as np

from onlinesrl.core.arrays import Bools, Ints
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.model import ClauseModel
from onlinesrl.mln.kernels.components import join


def components(model: ClauseModel, live: Bools) -> list[tuple[Ints, Ints]]:
    """Return the connected components as (atoms, live clauses), in order of their first atom.

    Raises Infeasible where a live clause is empty.
    """
    lengths = np.diff(model.start)
    if np.any(lengths[live] == 0):
        raise Infeasible("a hard clause is empty")
    root = np.arange(model.n_atoms)
    clauses = np.flatnonzero(live)
    grouped = np.flatnonzero(model.group >= 0)
    members = grouped[np.argsort(model.group[grouped], kind="stable")]
    groups = np.searchsorted(model.group[members], np.arange(len(model.exactly) + 1))
    join(groups, (members + 1).astype(np.int32), np.arange(len(model.exactly)), root)
    join(model.start, model.literals, clauses, root)
    of = root[np.abs(model.literals[model.start[clauses]]) - 1]
    tops = np.flatnonzero(root == np.arange(model.n_atoms))
    atoms = np.argsort(root, kind="stable")
    order = np.argsort(of, kind="stable")
    return list(
        zip(
            np.split(atoms, np.searchsorted(root[atoms], tops[1:])),
            np.split(clauses[order], np.searchsorted(of[order], tops[1:])),
            strict=True,
        )
        if len(tops)
        else ()
    )


def restrict(model: ClauseModel, atoms: Ints, clauses: Ints) -> ClauseModel:
    """Return the sub-model of some atoms, in order, and clauses, which mention no other atoms."""
    if len(atoms) == model.n_atoms and len(clauses) == model.n_clauses:
        return model
    lengths = np.diff(model.start)[clauses]
    start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    picked = np.repeat(model.start[clauses] - start[:-1], lengths) + np.arange(start[-1])
    literals = model.literals[picked]
    groups, group = np.unique(model.group[atoms], return_inverse=True)
    free = int(len(groups) > 0 and groups[0] < 0)
    number = np.searchsorted(atoms, np.abs(literals) - 1) + 1
    return ClauseModel(
        n_atoms=len(atoms),
        start=start,
        literals=(np.sign(literals) * number).astype(np.int32),
        hard=model.hard[clauses],
        group=(group.reshape(-1) - free).astype(np.int32),
        exactly=model.exactly[groups[free:]],
    )
