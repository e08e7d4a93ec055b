"""Conversion between the forms of a ground network: ``Network`` (runs) and ``GroundMRF`` (clauses)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints, Ints32
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.kernels import ground_network as n

LITERALS = 1 << 18
"""The approximate number of literals converted at once; each takes about a hundred bytes."""
ROWS = LITERALS
"""The largest number of rows converted at once."""


def clause_model(net: n.Network, folded: bool = True) -> tuple[GroundMRF, Ints]:
    """Return a world's network as a ``GroundMRF``, and the number in the network of each of its clauses.

    Runs are expanded; duplicate literals and tautologies are dropped. Hard unit clauses at the end, with
    number -1, state the atoms that evidence fixes. ``folded`` simplifies the other clauses by these atoms:
    it drops false literals, true clauses, and false soft clauses.
    """
    atoms = int(net.size[n.ATOMS])
    parts = [clauses(net, *block, folded) for block in blocks(net)]
    units = fixed_units(net)
    unit_rows = (np.ones(len(units), np.int32), units, np.ones(len(units), np.bool_))
    places, length, literals, hard = zip(*parts, (np.full(len(units), -1), *unit_rows), strict=True)
    group, exactly = groups(net)
    model = GroundMRF(
        n_atoms=atoms,
        start=np.cumsum(np.concatenate([[0], *length]), dtype=np.int64),
        literals=np.concatenate(literals),
        hard=np.concatenate(hard),
        group=group,
        exactly=exactly,
    )
    return model, np.concatenate(places)


def fixed_units(net: n.Network) -> Ints32:
    """Return the true literals of the atoms that evidence fixes."""
    fixed = net.fixed[: net.size[n.ATOMS]]
    units = np.flatnonzero((fixed == n.TRUE) | (fixed == n.FALSE))
    return _signed(units, fixed[units] == n.TRUE)


def blocks(net: n.Network) -> Iterator[tuple[int, int]]:
    """Yield blocks of rows, each with about ``LITERALS`` literals, as first row and end."""
    rows = int(net.size[n.ROWS])
    for first in range(0, rows, ROWS):
        stop = min(first + ROWS, rows)
        length = np.diff(net.lit_start[first : stop + 1]).astype(np.int64) * net.row_len[first:stop]
        cuts = np.flatnonzero(np.diff(np.cumsum(length) // LITERALS)) + 1
        yield from pairwise([first, *(first + cuts).tolist(), stop])


def clauses(
    net: n.Network, first: int, stop: int, folded: bool
) -> tuple[Ints, Ints32, Ints32, Bools]:
    """Return the remaining clauses of a range of rows: their numbers, lengths, literals and hardness.

    For ``folded`` see ``clause_model``. Literals are in the order of their atoms.
    """
    atoms, before = int(net.size[n.ATOMS]), int(net.clause_start[first])
    clause, code = _literals(net, first, stop)
    order = np.sort(clause * (2 * atoms) + code, kind="stable")  # quick: they are nearly in order
    order = order[np.diff(order, prepend=-1) != 0]
    clause, code = order // (2 * atoms or 1), order % (2 * atoms or 1)
    same = (clause[1:] == clause[:-1]) & (code[1:] >> 1 == code[:-1] >> 1)
    true = np.zeros(int(net.clause_start[stop]) - before, np.bool_)
    true[clause[1:][same]] = True
    hard = np.repeat(net.row_weight[first:stop] < 0, net.row_len[first:stop])
    if folded:
        fixed = net.fixed[code >> 1]
        value = np.where(code & 1, n.TRUE, n.FALSE)
        true[clause[fixed == value]] = True
        open_ = (fixed != n.TRUE) & (fixed != n.FALSE)
        clause, code = clause[open_], code[open_]
        true |= ~hard & (np.bincount(clause, minlength=len(true)) == 0)
    remaining = np.flatnonzero(~true)
    length = np.bincount(clause, minlength=len(true))[remaining].astype(np.int32)
    code = code[~true[clause]]
    return before + remaining, length, _signed(code >> 1, code & 1), hard[remaining]


def _signed(atom: Ints, positive: Any) -> Ints32:
    """Return literals: the atom plus 1, negated unless ``positive``."""
    return ((atom + 1) * np.where(positive, 1, -1)).astype(np.int32)


def clause_weights(model: GroundMRF, place: Ints, weight: Floats) -> Floats:
    """Return the weights of a model's clauses from the weights of all ground clauses; hard ones have 0."""
    return np.where(model.hard, 0.0, weight[np.maximum(place, 0)] if len(weight) else 0.0)


def _literals(net: n.Network, first: int, stop: int) -> tuple[Ints, Ints]:
    """Return the clause of every literal of a range of rows, and its code 2 * atom + positive.

    Clauses are numbered from the first clause of the range.
    """
    length = np.diff(net.lit_start[first : stop + 1]).astype(np.int64)
    row = np.repeat(np.arange(first, stop), net.row_len[first:stop])
    k = np.arange(len(row)) - (net.clause_start[row] - net.clause_start[first])
    count = length[row - first]
    clause = np.repeat(np.arange(len(row)), count)
    within = np.arange(len(clause)) - np.repeat(np.cumsum(count) - count, count)
    p = net.lit_start[row[clause]] + within
    atom = net.lit_atom[p] + k[clause] * net.lit_step[p]
    return clause, 2 * atom + net.lit_positive[p]


def groups(net: n.Network) -> tuple[Ints32, Bools]:
    """Return the group of each atom (-1: none), and the groups with exactly one true atom."""
    variables = int(net.size[n.VARIABLES])
    size = np.diff(net.var_start[: variables + 1])
    grouped = (size > 1) | (net.exactly[:variables] != 0)
    number = np.where(grouped, np.cumsum(grouped) - 1, -1)
    return np.repeat(number, size).astype(np.int32), net.exactly[:variables][grouped] != 0


def network_of(model: GroundMRF) -> tuple[n.Network, Ints]:
    """Return a ``GroundMRF`` as a ``Network``, and the model's atom of each atom of the network.

    Atoms are reordered so that groups are contiguous; each clause is a run of length 1.
    """
    key = np.where(model.group >= 0, model.group.astype(np.int64), -1)
    order = np.argsort(key, kind="stable")
    place = np.empty(model.n_atoms, np.int64)
    place[order] = np.arange(model.n_atoms)
    net = n.network(model.n_atoms + 1, model.n_clauses + 1, len(model.literals) + 1)
    grouped = key[order]
    new = np.ones(model.n_atoms, bool)
    new[1:] = (grouped[1:] < 0) | (grouped[1:] != grouped[:-1])
    first = np.flatnonzero(new)
    net.var_of[: model.n_atoms] = np.cumsum(new) - 1
    net.var_start[: len(first)] = first
    net.var_start[len(first)] = model.n_atoms
    net.exactly[: len(first)] = [g >= 0 and bool(model.exactly[g]) for g in grouped[first]]
    rows = model.n_clauses
    net.row_len[:rows] = 1
    net.row_weight[:rows] = np.where(model.hard, -1, 0)
    net.clause_start[: rows + 1] = np.arange(rows + 1)
    net.lit_start[: rows + 1] = model.start
    net.lit_atom[: len(model.literals)] = place[np.abs(model.literals) - 1]
    net.lit_positive[: len(model.literals)] = model.literals > 0
    net.size[:] = model.n_atoms, len(first), rows, len(model.literals), rows, model.n_atoms
    return net, order
