"""Exact MPE of a ground network of small induced width, by max-sum variable elimination.

``eliminate`` fills the tables of a ``structure`` from the weights of the ground clauses, eliminates, and
reads the maximising state back. Ties go to the first value (none, then atoms in their order) of the
variable that is decided. ``complete`` reads back other states, the best that begin in a given way.
"""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.elimination_order import (
    CELLS,
    GENERIC,
    UNARY,
    Structure,
    find_edge,
    values,
)
from onlinesrl.mln.kernels.ground_network import ATOMS, FALSE, OPEN, ROWS, TRUE, VARIABLES, Network


@kernel
def forbid(net: Network, st: Structure) -> None:
    """Give the values that groups and evidence exclude a score of minus infinity."""
    for v in range(net.size[VARIABLES]):
        if net.exactly[v]:
            st.unary[net.var_start[v] + v] = -np.inf
        for a in range(net.var_start[v], net.var_start[v + 1]):
            if net.fixed[a] == FALSE:
                st.unary[a + v + 1] = -np.inf
            elif net.fixed[a] == TRUE:
                for slot in range(net.var_start[v] + v, net.var_start[v + 1] + v + 1):
                    if slot != a + v + 1:
                        st.unary[slot] = -np.inf


@kernel
def _hard_row(net: Network, st: Structure, row: int) -> None:
    """Forbid what falsifies the hard clauses of a unary row, or of a row on one edge."""
    p = net.lit_start[row]
    for k in range(net.row_len[row]):
        a = net.lit_atom[p] + k * net.lit_step[p]
        u = net.var_of[a]
        x = a - net.var_start[u] + 1
        if st.row_kind[row] == UNARY:
            for value in range(values(net, u)):
                if (value == x) != (net.lit_positive[p] == 1):
                    st.unary[net.var_start[u] + u + value] = -np.inf
            continue
        b = net.lit_atom[p + 1] + k * net.lit_step[p + 1]
        v = net.var_of[b]
        y = b - net.var_start[v] + 1
        table = st.edge_table[find_edge(st, u, v)]
        for i in range(values(net, u)):
            for j in range(values(net, v)):
                if (i == x) != (net.lit_positive[p] == 1) and (j == y) != (
                    net.lit_positive[p + 1] == 1
                ):
                    cell = i * values(net, v) + j if u < v else j * values(net, u) + i
                    st.table[table + cell] = -np.inf


@kernel
def pair_cell(
    net: Network, st: Structure, edge: int, a: int, b: int, step_a: int, step_b: int
) -> tuple[int, int]:
    """Return an edge's cell for two atoms, and how far on it is for those a step further."""
    u, v = net.var_of[a], net.var_of[b]
    x, y = a - net.var_start[u] + 1, b - net.var_start[v] + 1
    cell = st.edge_table[edge]
    if u < v:
        n = values(net, v)
        return cell + x * n + y, step_a * n + step_b
    n = values(net, u)
    return cell + y * n + x, step_b * n + step_a


@kernel
def _fill_pairs(
    net: Network,
    st: Structure,
    row: int,
    weight: Floats,
    other: Structure,
    more: Floats,
    with_other: bool,
) -> None:
    """Add the clauses of a row on two variables, 1 - [a false][b false] multiplied out."""
    p, first, edge = net.lit_start[row], net.clause_start[row], st.row_kind[row]
    a, b = net.lit_atom[p], net.lit_atom[p + 1]
    step_a, step_b = net.lit_step[p], net.lit_step[p + 1]
    positive_a, positive_b = net.lit_positive[p], net.lit_positive[p + 1]
    u, v, stop = net.var_of[a], net.var_of[b], first + net.row_len[row]
    cell, step = pair_cell(
        net, st, edge if edge >= 0 else find_edge(st, u, v), a, b, step_a, step_b
    )
    if edge >= 0 and not positive_a and not positive_b:  # most rows, without a look at the rest
        for g in range(first, stop):
            st.table[cell] -= weight[g]
            if with_other:
                other.table[cell] -= more[g]
            cell += step
        return
    for g in range(first, stop):
        if g > first and edge < 0:
            u, v = net.var_of[a], net.var_of[b]
            cell, step = pair_cell(net, st, find_edge(st, u, v), a, b, step_a, step_b)
        _add_pair(st, a + u + 1, b + v + 1, cell, positive_a, positive_b, weight[g])
        if with_other:
            _add_pair(other, a + u + 1, b + v + 1, cell, positive_a, positive_b, more[g])
        a += step_a
        b += step_b
        cell += step


@kernel
def _add_pair(
    st: Structure, a: int, b: int, cell: int, positive_a: int, positive_b: int, w: float
) -> None:
    """Add a clause's weight to the value slots of its atoms and their cell."""
    if positive_a:
        if positive_b:
            st.unary[a] += w
            st.unary[b] += w
            st.table[cell] -= w
        else:
            st.unary[b] -= w
            st.table[cell] += w
    elif positive_b:
        st.unary[a] -= w
        st.table[cell] += w
    else:
        st.table[cell] -= w


@kernel
def fill(
    net: Network, st: Structure, weight: Floats, other: Structure, more: Floats, with_other: bool
) -> None:
    """Add weight * [clause true] of the clauses on one or two variables, up to constants.

    With ``with_other`` also ``more`` * [clause true] to the tables of ``other``, a copy of the structure.
    """
    for r in range(net.size[ROWS]):
        kind = st.row_kind[r]
        if kind == GENERIC:
            continue
        if net.row_weight[r] < 0:
            _hard_row(net, st, r)
            if with_other:
                _hard_row(net, other, r)
        elif kind == UNARY:
            p, first = net.lit_start[r], net.clause_start[r]
            a, step, positive = net.lit_atom[p], net.lit_step[p], net.lit_positive[p]
            for g in range(first, first + net.row_len[r]):
                slot = a + net.var_of[a] + 1
                st.unary[slot] += weight[g] if positive else -weight[g]
                if with_other:
                    other.unary[slot] += more[g] if positive else -more[g]
                a += step
        else:
            _fill_pairs(net, st, r, weight, other, more, with_other)


@kernel
def _pass_leaf(net: Network, st: Structure, v: int, member: int) -> None:
    """Eliminate a variable with one neighbour: its message is a unary of the neighbour."""
    u = st.clique[member]
    nv, nu = values(net, v), values(net, u)
    slot_v, slot_u = net.var_start[v] + v, net.var_start[u] + u
    table = st.edge_table[st.clique_edge[member]]
    step_v, step_u = (1, nv) if u < v else (nu, 1)
    for y in range(nu):
        best, choice = st.unary[slot_v] + st.table[table + y * step_u], 0
        for x in range(1, nv):
            s = st.unary[slot_v + x] + st.table[table + x * step_v + y * step_u]
            if s > best:
                best, choice = s, x
        st.choice[st.message[v] + y] = choice
        st.unary[slot_u + y] += best


@kernel
def clause_true_at(net: Network, st: Structure, row: int, k: int) -> bool:
    """Tell whether a ground clause is true under ``st.value``."""
    for p in range(net.lit_start[row], net.lit_start[row + 1]):
        a = net.lit_atom[p] + k * net.lit_step[p]
        u = net.var_of[a]
        if (st.value[u] == a - net.var_start[u] + 1) == (net.lit_positive[p] == 1):
            return True
    return False


@kernel
def message_cell(net: Network, st: Structure, v: int) -> int:
    """Return the cell of v's message for the values of its clique in ``st.value``."""
    cell = 0
    for i in range(st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]):
        cell = cell * values(net, st.clique[i]) + st.value[st.clique[i]]
    return st.message[v] + cell


@kernel
def member_cell(net: Network, st: Structure, v: int, i: int) -> int:
    """Return the table cell of v's edge to the clique member at place ``i``, for their values."""
    u, x = st.clique[i], st.value[v]
    y = st.value[u]
    cell = x * values(net, u) + y if v < u else y * values(net, v) + x
    return st.edge_table[st.clique_edge[i]] + cell


@kernel
def local_score(net: Network, st: Structure, v: int, weight: Floats) -> float:
    """Score v and its clique, all with their value in ``st.value``."""
    s = st.unary[net.var_start[v] + v + st.value[v]]
    for i in range(st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]):
        s += st.table[member_cell(net, st, v, i)]
    sender = st.message_head[v]
    while sender >= 0:
        s += st.table[message_cell(net, st, sender)]
        sender = st.message_next[sender]
    clauses, g = 0.0, st.generic_head[v]  # the generic clauses decided at v, up to constants
    while g >= 0:
        row, k = st.generic_row[g], st.generic_k[g]
        if not clause_true_at(net, st, row, k):
            if net.row_weight[row] < 0:
                return -np.inf
            clauses -= weight[net.clause_start[row] + k]
        g = st.generic_next[g]
    return s + clauses


@kernel
def first_cell(net: Network, st: Structure, v: int) -> int:
    """Give every member of v's clique its first value; returns the number of assignments."""
    cells = 1
    for i in range(st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]):
        st.value[st.clique[i]] = 0
        cells *= values(net, st.clique[i])
    return cells


@kernel
def next_cell(net: Network, st: Structure, v: int) -> None:
    """Give the members of v's clique their next values, the last member fastest."""
    start = st.clique_start[st.place[v]]
    for i in range(st.clique_start[st.place[v] + 1] - 1, start - 1, -1):
        u = st.clique[i]
        st.value[u] += 1
        if st.value[u] < values(net, u):
            return
        st.value[u] = 0


@kernel
def edge_cell(net: Network, st: Structure, a: int, b: int) -> int:
    """Return the table cell of an edge for the values of its variables."""
    low, high = min(a, b), max(a, b)
    cell = st.value[low] * values(net, high) + st.value[high]
    return st.edge_table[find_edge(st, a, b)] + cell


@kernel
def send(net: Network, st: Structure, v: int, cell: int, message: float) -> None:
    """Add one cell of v's message to the table, edge or variable that receives it."""
    start, stop = st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]
    if stop - start > 2:
        st.table[st.message[v] + cell] = message
    elif stop - start == 2:
        st.table[edge_cell(net, st, st.clique[start], st.clique[start + 1])] += message
    elif stop - start == 1:
        u = st.clique[start]
        st.unary[net.var_start[u] + u + st.value[u]] += message


@kernel
def _pass_clique(net: Network, st: Structure, v: int, weight: Floats) -> float:
    """Eliminate v over every assignment of its clique; returns the maximum where it is empty."""
    best = -np.inf
    for cell in range(first_cell(net, st, v)):
        best, choice = -np.inf, 0
        for x in range(values(net, v)):
            st.value[v] = x
            s = local_score(net, st, v, weight)
            if s > best:
                best, choice = s, x
        st.choice[st.message[v] + cell] = choice
        send(net, st, v, cell, best)
        next_cell(net, st, v)
    return best


@kernel
def clear(net: Network, st: Structure) -> None:
    """Set tables that have nothing but what groups and evidence forbid."""
    st.unary[: net.size[ATOMS] + net.size[VARIABLES]] = 0.0
    st.table[: st.size[CELLS]] = 0.0
    forbid(net, st)


@kernel
def clear_as(net: Network, st: Structure, other: Structure) -> None:
    """Set the tables of ``other``, a copy of the structure, to those of ``clear``."""
    for slot in range(net.size[ATOMS] + net.size[VARIABLES]):
        other.unary[slot] = st.unary[slot]
    other.table[: st.size[CELLS]] = 0.0


@kernel
def add_bonus(net: Network, st: Structure, bonus: Floats) -> None:
    """Add ``bonus`` [atom] to the values of atoms."""
    for a in range(net.size[ATOMS]):
        st.unary[a + net.var_of[a] + 1] += bonus[a]


@kernel
def sweep(net: Network, st: Structure, weight: Floats, state: Bytes) -> float:
    """Eliminate all variables of tables that are filled; see ``eliminate``."""
    n, total = net.size[VARIABLES], 0.0
    for place in range(n):
        v = st.order[place]
        members = st.clique_start[place + 1] - st.clique_start[place]
        if members == 1 and st.generic_head[v] < 0:
            _pass_leaf(net, st, v, st.clique_start[place])
            continue
        best = _pass_clique(net, st, v, weight)
        if members == 0:
            total += best
    state[: net.size[ATOMS]] = 0
    for place in range(n - 1, -1, -1):
        v = st.order[place]
        st.value[v] = st.choice[message_cell(net, st, v)]
        if st.value[v] > 0:
            state[net.var_start[v] + st.value[v] - 1] = 1
    return total


@kernel
def eliminate(net: Network, st: Structure, weight: Floats, bonus: Floats, state: Bytes) -> float:
    """Write the state of maximal soft score plus ``bonus`` . state; -inf: the hard part is infeasible.

    ``structure`` has run on the same network. ``weight`` is [ground clause], ``bonus`` [atom]. The value
    returned is the maximum up to the constants of satisfied clauses.
    """
    clear(net, st)
    add_bonus(net, st, bonus)
    fill(net, st, weight, st, weight, False)
    return sweep(net, st, weight, state)


@kernel
def complete(net: Network, st: Structure, weight: Floats, stop: int, loss: Floats) -> None:
    """Decide the variables at the places below ``stop`` in the order; the others are in ``st.value``.

    ``loss`` [value of a variable] becomes how much less than this state the best one scores that differs from
    it at first in this variable, in the order from the last place down, and has this value there. It is
    infinite at places from ``stop`` on, and of variables that are not ``last``.
    """
    loss[: net.size[ATOMS] + net.size[VARIABLES]] = np.inf
    for place in range(stop - 1, -1, -1):
        v = st.order[place]
        best = st.choice[message_cell(net, st, v)]
        if st.last[v]:
            slot = net.var_start[v] + v
            st.value[v] = best
            most = local_score(net, st, v, weight)
            for x in range(values(net, v)):
                if x != best:
                    st.value[v] = x
                    loss[slot + x] = most - local_score(net, st, v, weight)
        st.value[v] = best


@kernel
def set_bonus(net: Network, truth: Bytes, augmented: bool, cost: Floats, bonus: Floats) -> None:
    """Write each atom's bonus: the label loss up to its constant if ``augmented``, else 0."""
    for a in range(net.size[ATOMS]):
        bonus[a] = 0.0
        if augmented and net.fixed[a] == OPEN and not net.latent[a]:
            bonus[a] = -cost[a] if truth[a] else cost[a]
