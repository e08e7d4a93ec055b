"""Exact marginals and the partition function of a ground network of small induced width.

The sum-product twin of ``elimination.eliminate``, over the same structure. Forward, a variable is
eliminated by log-sum-exp, and its message added to the tables of its clique. Backward, the
derivative of log Z is taken through these steps: with respect to a variable's unary table it is the
variable's distribution, with respect to a cell of an edge's table the probability of the two values, and
with respect to a clause's weight the clause's probability (Darwiche 2003, theorem 1).
"""

import math

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.elimination import (
    clause_true_at,
    clear,
    edge_cell,
    fill,
    first_cell,
    local_score,
    member_cell,
    message_cell,
    next_cell,
    pair_cell,
    send,
)
from onlinesrl.mln.kernels.elimination_order import (
    CELLS,
    GENERIC,
    UNARY,
    Structure,
    find_edge,
    values,
)
from onlinesrl.mln.kernels.ground_network import ATOMS, ROWS, VARIABLES, Network


@kernel
def _log_sum(net: Network, st: Structure, v: int, weight: Floats) -> float:
    """Sum v out: log sum exp of its local scores, its clique at the values in ``st.value``."""
    top, total = -np.inf, 0.0
    for x in range(values(net, v)):
        st.value[v] = x
        s = local_score(net, st, v, weight)
        if s > top:
            total = total * math.exp(top - s) + 1.0
            top = s
        elif s > -np.inf:
            total += math.exp(s - top)
    return top + math.log(total) if total > 0 else -np.inf


@kernel
def _derivative(
    net: Network, st: Structure, v: int, cell: int, unary: Floats, table: Floats
) -> float:
    """Return the derivative of log Z with respect to one cell of v's message."""
    start, stop = st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]
    if stop - start > 2:
        return table[st.message[v] + cell]
    if stop - start == 2:
        return table[edge_cell(net, st, st.clique[start], st.clique[start + 1])]
    if stop - start == 1:
        u = st.clique[start]
        return unary[net.var_start[u] + u + st.value[u]]
    return 1.0


@kernel
def _spread(
    net: Network, st: Structure, v: int, share: float, unary: Floats, table: Floats, false: Floats
) -> None:
    """Add a share of the derivative to every cell that v's local score is the sum of.

    Likewise to each generic clause decided at v that is false under ``st.value``.
    """
    unary[net.var_start[v] + v + st.value[v]] += share
    for i in range(st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]):
        table[member_cell(net, st, v, i)] += share
    sender = st.message_head[v]
    while sender >= 0:
        table[message_cell(net, st, sender)] += share
        sender = st.message_next[sender]
    g = st.generic_head[v]
    while g >= 0:
        row, k = st.generic_row[g], st.generic_k[g]
        if not clause_true_at(net, st, row, k):
            false[net.clause_start[row] + k] += share
        g = st.generic_next[g]


@kernel
def _distribute(
    net: Network, st: Structure, weight: Floats, unary: Floats, table: Floats, false: Floats
) -> None:
    """Take the derivative of log Z backward through the elimination."""
    for place in range(net.size[VARIABLES] - 1, -1, -1):
        v = st.order[place]
        for cell in range(first_cell(net, st, v)):
            derivative = _derivative(net, st, v, cell, unary, table)
            if derivative > 0:
                message = _log_sum(net, st, v, weight)
                for x in range(values(net, v)):
                    st.value[v] = x
                    s = local_score(net, st, v, weight)
                    if s > -np.inf:
                        share = derivative * math.exp(s - message)
                        _spread(net, st, v, share, unary, table, false)
            next_cell(net, st, v)


@kernel
def log_partition(net: Network, st: Structure, weight: Floats) -> float:
    """Return log Z, -inf: infeasible; leaves the messages in the tables.

    ``structure`` has run on the network; ``weight`` is [ground clause]. The log Z is that of the score
    without the constants that ``elimination.eliminate`` leaves out.
    """
    clear(net, st)
    fill(net, st, weight, st, weight, False)
    log_z = 0.0
    for place in range(net.size[VARIABLES]):
        v = st.order[place]
        message = 0.0
        for cell in range(first_cell(net, st, v)):
            message = _log_sum(net, st, v, weight)
            send(net, st, v, cell, message)
            next_cell(net, st, v)
        if st.clique_start[place + 1] == st.clique_start[place]:
            log_z += message
    return log_z


@kernel
def sum_product(
    net: Network, st: Structure, weight: Floats, unary: Floats, table: Floats, false: Floats
) -> float:
    """Write every variable's distribution to ``unary`` [value slot]; return ``log_partition``.

    ``table`` is as long as the structure's, and gets the probabilities of each edge's pairs of values;
    ``false`` [ground clause] gets the probability that a generic clause is false.
    """
    log_z = log_partition(net, st, weight)
    unary[: net.size[ATOMS] + net.size[VARIABLES]] = 0.0
    table[: st.size[CELLS]] = 0.0
    false[: net.clause_start[net.size[ROWS]]] = 0.0
    if log_z > -np.inf:
        _distribute(net, st, weight, unary, table, false)
    return log_z


@kernel
def left_out(net: Network, st: Structure, row: int) -> float:
    """Return what ``sum_product`` leaves out of each clause of a row.

    That is the clause's truth where all its atoms are false, and 1 of a generic clause.
    """
    for p in range(net.lit_start[row], net.lit_start[row + 1]):
        if not net.lit_positive[p]:
            return 1.0
    return 1.0 if st.row_kind[row] == GENERIC else 0.0


@kernel
def clause_probability(
    net: Network, st: Structure, row: int, k: int, unary: Floats, table: Floats, false: Floats
) -> float:
    """Return the probability that a ground clause is true, by what ``sum_product`` writes."""
    if st.row_kind[row] == GENERIC:
        return 1.0 - false[net.clause_start[row] + k]
    p = net.lit_start[row]
    a = net.lit_atom[p] + k * net.lit_step[p]
    u = net.var_of[a]
    p_a = unary[a + u + 1]
    if st.row_kind[row] == UNARY:
        return p_a if net.lit_positive[p] else 1.0 - p_a
    b = net.lit_atom[p + 1] + k * net.lit_step[p + 1]
    v, edge = net.var_of[b], st.row_kind[row]
    p_b = unary[b + v + 1]
    cell, _ = pair_cell(net, st, edge if edge >= 0 else find_edge(st, u, v), a, b, 0, 0)
    p_ab = table[cell]
    if net.lit_positive[p]:
        return p_a + p_b - p_ab if net.lit_positive[p + 1] else 1.0 - p_b + p_ab
    return 1.0 - p_a + p_ab if net.lit_positive[p + 1] else 1.0 - p_ab
