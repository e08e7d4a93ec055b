"""Between the two forms of a ground network: kernel scratch (``Network``) and ``ClauseModel``."""

from __future__ import annotations

import numpy as np

from onlinesrl.ground.model import ClauseModel, Indices
from onlinesrl.kernels import network as n


def clause_model(net: n.Network) -> tuple[ClauseModel, Indices]:
    """Return a world's ground network as a ClauseModel, and the weights its indices stand for.

    Runs are written out, duplicate literals dropped, tautologies left out (they are constant); atoms
    that evidence fixes become hard unit clauses.
    """
    literals: list[int] = []
    start, weight, sign = [0], [], []
    for clause, first, sign_ in [*_ground_clauses(net), *_fixed(net)]:
        if any(-x in clause for x in clause):
            continue
        literals += clause
        start.append(len(literals))
        weight.append(first)
        sign.append(sign_)
    used, index = np.unique(np.asarray(weight, np.int64), return_inverse=True)
    hard = int(len(used) > 0 and used[0] < 0)
    group, exactly = _groups(net)
    model = ClauseModel(
        n_atoms=int(net.size[n.ATOMS]),
        start=np.asarray(start, np.int64),
        literals=np.asarray(literals, np.int32),
        weight_index=index.astype(np.int64).reshape(-1) - hard,
        sign=np.asarray(sign, np.float64),
        group=group,
        exactly=exactly,
    )
    return model, used[hard:]


def _ground_clauses(net: n.Network) -> list[tuple[list[int], int, float]]:
    found = []
    for r in range(net.size[n.ROWS]):
        for k in range(net.row_len[r]):
            clause = {
                int(
                    (net.lit_atom[p] + k * net.lit_step[p] + 1) * (1 if net.lit_positive[p] else -1)
                )
                for p in range(net.lit_start[r], net.lit_start[r + 1])
            }
            first = int(net.row_weight[r])
            weight = first + k * int(net.row_step[r]) if first >= 0 else -1
            found.append((sorted(clause, key=abs), weight, float(net.row_sign[r])))
    return found


def _fixed(net: n.Network) -> list[tuple[list[int], int, float]]:
    return [
        ([atom + 1 if net.fixed[atom] == n.TRUE else -atom - 1], -1, 1.0)
        for atom in range(net.size[n.ATOMS])
        if net.fixed[atom] in {n.FALSE, n.TRUE}
    ]


def _groups(net: n.Network) -> tuple[n.Ints32, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    group = np.full(net.size[n.ATOMS], -1, np.int32)
    exactly: list[bool] = []
    for v in range(net.size[n.VARIABLES]):
        first, last = net.var_start[v], net.var_start[v + 1]
        if last - first > 1 or net.exactly[v]:
            group[first:last] = len(exactly)
            exactly.append(bool(net.exactly[v]))
    return group, np.asarray(exactly, np.bool_)


def network_of(model: ClauseModel) -> tuple[n.Network, Indices]:
    """Return a ClauseModel as kernel scratch, and the model's atom that each of its atoms is.

    Atoms are reordered so that groups are contiguous; a clause is a run of one.
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
    net.row_weight[:rows] = model.weight_index
    net.row_sign[:rows] = model.sign
    net.lit_start[: rows + 1] = model.start
    net.lit_atom[: len(model.literals)] = place[np.abs(model.literals) - 1]
    net.lit_positive[: len(model.literals)] = model.literals > 0
    net.size[:] = model.n_atoms, len(first), rows, len(model.literals), rows, model.n_atoms
    return net, order
