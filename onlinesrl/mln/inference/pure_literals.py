"""Exact reduction before a search: atoms that no clause asks to be otherwise are fixed (pure literals)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.components import restrict
from onlinesrl.mln.kernels.pure_literals import OPEN, fix_pure_literals


class Impure(NamedTuple):
    """The model over the atoms ``atoms`` that are not fixed, and ``state``, with the values of the others.

    The clauses ``clauses`` of the whole model are those of ``model``.
    """

    state: State
    atoms: Ints
    clauses: Ints
    model: GroundMRF


def impure(model: GroundMRF, weight: Floats, bonus: Floats) -> Impure:
    """Fix pure literals for weights and a bonus as in ``MapEngine.solve``; some best state has their values.

    An atom is fixed to the value that all its clauses and its bonus ask for: a clause that is hard or has a
    positive weight asks to be true, one with a negative weight to be false. Clauses that become true are
    left out, and with them what they ask for.
    """
    n, length = model.n_atoms, np.diff(model.start)
    live = np.where(model.hard | (weight > 0), 1, np.where(weight < 0, 2, 0)).astype(np.uint8)
    clause = np.repeat(np.arange(model.n_clauses), length)
    atom = np.abs(model.literals.astype(np.int64)) - 1
    asked = (model.literals > 0) == (live[clause] == 1)
    demand = np.bincount((2 * atom + asked)[live[clause] > 0], minlength=2 * n).reshape(n, 2)
    demand[:, 1] += bonus > 0
    demand[:, 0] += bonus < 0
    order = np.argsort(atom, kind="stable")
    occurrence_start = np.searchsorted(atom[order], np.arange(n + 1))
    exactly = np.append(model.exactly, False)[model.group]
    grouped = ((model.group >= 0).astype(np.uint8) + exactly).astype(np.uint8)
    value, queue = np.full(n, OPEN, np.uint8), np.zeros(n, np.int32)
    fix_pure_literals(
        model.start,
        model.literals,
        occurrence_start,
        clause[order],
        live,
        demand.astype(np.int32),
        grouped,
        value,
        queue,
    )
    free, state = value == OPEN, np.where(value == OPEN, 0, value).astype(np.uint8)
    open_literal = free[atom] & (live[clause] > 0)
    count = np.bincount(clause[open_literal], minlength=model.n_clauses)
    clauses = np.flatnonzero(count)
    start = np.concatenate(([0], np.cumsum(count[clauses]))).astype(np.int64)
    rest = replace(
        model, start=start, literals=model.literals[open_literal], hard=model.hard[clauses]
    )
    atoms = np.flatnonzero(free)
    return Impure(state, atoms, clauses, restrict(rest, atoms, np.arange(len(clauses))))
