"""Exact MPE of a ground network of small induced width, by max-sum variable elimination.

``structure`` finds an elimination order by least degree and lays out the tables; it depends on the
clauses alone, so one structure serves the plain and the loss-augmented problem. ``eliminate`` fills the
tables from the weights, eliminates, and reads the maximising state back. Ties go to the first value
(none, then atoms in their order) of the variable that is decided.
"""

import numpy as np

from onlinesrl.kernels.frames import Frame
from onlinesrl.kernels.jit import kernel
from onlinesrl.kernels.network import (
    ATOMS,
    FALSE,
    ROWS,
    TRUE,
    VARIABLES,
    Bytes,
    Floats,
    Ints,
    Ints32,
    Network,
)

SOLVED, WIDE, TABLES_FULL = 0, 1, 2
MAX_DEGREE = 14
MAX_TABLE = 1 << 16
MAX_CELLS = 1 << 24
UNARY, GENERIC, PAIRS = -1, -2, -3


class Structure(Frame):
    """Scratch memory for an elimination order and its tables."""

    size: Ints  # arcs, clique members, generic clauses, table cells
    row_kind: (
        Ints32  # [row] UNARY, GENERIC, PAIRS (an edge a clause), or the edge of all its clauses
    )
    head: Ints32  # [variable] first arc
    length: Ints32  # [variable] arcs in its list
    degree: Ints32  # [variable] neighbours not yet eliminated
    arc_next: (
        Ints32  # [arc]; arcs 2e and 2e + 1 are edge e, seen from its lower and higher variable
    )
    arc_to: Ints32  # [arc]
    edge_table: Ints  # [edge] first cell; index = value(lower) * values(higher) + value(higher)
    place: Ints32  # [variable] its place in the order
    order: Ints32  # [place]
    clique_start: Ints32  # [place + 1]
    clique: Ints32  # neighbours of the variable when it is eliminated
    message: Ints  # [variable] first cell of its message over its clique
    message_head: Ints32  # [variable] first sender of a message over three or more variables
    message_next: Ints32
    generic_head: Ints32  # [variable] first clause that is decided where this one is eliminated
    generic_next: Ints32  # [generic]
    generic_row: Ints32
    generic_k: Ints32
    queue_head: Ints32  # [degree]
    queue_next: Ints32
    queue_variable: Ints32
    unary: Floats  # [value slot]
    table: Floats  # [cell]
    choice: Ints32  # [cell of a message]
    value: Ints32  # [variable]
    stop: Bytes  # the first is not 0: leave the work, whose result is not used


ARCS, MEMBERS, GENERICS, CELLS = 0, 1, 2, 3


def structure_memory(
    atoms: int, rows: int, arcs: int, cells: int, stop: Bytes | None = None
) -> Structure:
    """Return scratch memory for a world of so many atoms, rows, arcs and table cells.

    ``stop`` is looked at while kernels work with it.
    """
    i32 = np.int32

    def ints(n: int) -> Ints32:
        return np.zeros(n, i32)

    return Structure(
        np.zeros(4, np.int64),
        ints(rows),
        ints(atoms),
        ints(atoms),
        ints(atoms),
        ints(arcs),
        ints(arcs),
        np.zeros(arcs // 2, np.int64),
        ints(atoms),
        ints(atoms),
        ints(atoms + 1),
        ints(atoms * (MAX_DEGREE + 1)),
        np.zeros(atoms, np.int64),
        ints(atoms),
        ints(atoms),
        ints(atoms),
        ints(arcs),
        ints(arcs),
        ints(arcs),
        ints(MAX_DEGREE + 1),
        ints(atoms + 2 * arcs),
        ints(atoms + 2 * arcs),
        np.zeros(2 * atoms),
        np.zeros(cells),
        ints(cells),
        ints(atoms),
        np.zeros(1, np.uint8) if stop is None else stop,
    )


@kernel
def _values(net: Network, v: int) -> int:
    return net.var_start[v + 1] - net.var_start[v] + 1


@kernel
def _find_edge(st: Structure, a: int, b: int) -> int:
    if st.length[a] > st.length[b]:
        a, b = b, a
    arc = st.head[a]
    while arc >= 0:
        if st.arc_to[arc] == b:
            return arc >> 1
        arc = st.arc_next[arc]
    return -1


@kernel
def _edge(net: Network, st: Structure, a: int, b: int) -> int:
    """Return the edge between two variables, made if need be; -WIDE, -TABLES_FULL: there is none."""
    edge = _find_edge(st, a, b)
    if edge >= 0:
        return edge
    arc = st.size[ARCS]
    cells = np.int64(_values(net, a)) * _values(net, b)
    if cells > MAX_TABLE or st.size[CELLS] + cells > MAX_CELLS:
        return -WIDE
    if arc + 2 > len(st.arc_to) or st.size[CELLS] + cells > len(st.table):
        return -TABLES_FULL
    low, high = min(a, b), max(a, b)
    st.arc_to[arc], st.arc_to[arc + 1] = high, low
    st.arc_next[arc], st.arc_next[arc + 1] = st.head[low], st.head[high]
    st.head[low], st.head[high] = arc, arc + 1
    for v in (low, high):
        st.length[v] += 1
        st.degree[v] += 1
    st.edge_table[arc >> 1] = st.size[CELLS]
    st.size[ARCS] += 2
    st.size[CELLS] += cells
    return arc >> 1


@kernel
def _connect(net: Network, st: Structure, row: int, k: int) -> int:
    """Connect all variables of a clause pairwise; SOLVED, WIDE or TABLES_FULL."""
    start, stop = net.lit_start[row], net.lit_start[row + 1]
    for p in range(start, stop):
        a = net.var_of[net.lit_atom[p] + k * net.lit_step[p]]
        for q in range(start, p):
            b = net.var_of[net.lit_atom[q] + k * net.lit_step[q]]
            edge = _edge(net, st, a, b) if a != b else 0
            if edge < 0:
                return -edge
    return SOLVED


@kernel
def _add_generic(st: Structure, row: int, k: int) -> bool:
    g = st.size[GENERICS]
    if g == len(st.generic_row):
        return False
    st.generic_row[g], st.generic_k[g] = row, k
    st.size[GENERICS] += 1
    return True


@kernel
def _classify(net: Network, st: Structure, row: int) -> int:
    """Say how a row enters the tables, and add its edges; SOLVED, WIDE or TABLES_FULL."""
    start = net.lit_start[row]
    literals = net.lit_start[row + 1] - start
    last = net.row_len[row] - 1
    if literals == 0:  # no state makes it true, which other engines tell
        return WIDE
    if literals == 1:
        st.row_kind[row] = UNARY
        return SOLVED
    if literals == 2:
        a = net.var_of[net.lit_atom[start]]
        b = net.var_of[net.lit_atom[start + 1]]
        same = (
            net.var_of[net.lit_atom[start] + last * net.lit_step[start]] == a
            and net.var_of[net.lit_atom[start + 1] + last * net.lit_step[start + 1]] == b
        )
        if same and a != b:
            edge = _edge(net, st, a, b)
            st.row_kind[row] = edge
            return SOLVED if edge >= 0 else -edge
        distinct = True
        for k in range(last + 1):
            distinct &= (
                net.var_of[net.lit_atom[start] + k * net.lit_step[start]]
                != net.var_of[net.lit_atom[start + 1] + k * net.lit_step[start + 1]]
            )
        st.row_kind[row] = PAIRS if distinct else GENERIC
    else:
        st.row_kind[row] = GENERIC
    for k in range(last + 1):
        status = _connect(net, st, row, k)
        if status == SOLVED and st.row_kind[row] == GENERIC and not _add_generic(st, row, k):
            status = TABLES_FULL
        if status != SOLVED:
            return status
    return SOLVED


@kernel
def _enqueue(st: Structure, entries: int, v: int) -> int:
    degree = st.degree[v]
    if degree > MAX_DEGREE:
        return entries
    if entries == len(st.queue_next):
        return -1
    st.queue_variable[entries] = v
    st.queue_next[entries] = st.queue_head[degree]
    st.queue_head[degree] = entries
    return entries + 1


@kernel
def _next_variable(st: Structure) -> int:
    """Pop a variable of least degree; -1: none of at most MAX_DEGREE is left."""
    for degree in range(MAX_DEGREE + 1):
        while st.queue_head[degree] >= 0:
            entry = st.queue_head[degree]
            st.queue_head[degree] = st.queue_next[entry]
            v = st.queue_variable[entry]
            if st.place[v] < 0 and st.degree[v] == degree:
                return v
    return -1


@kernel
def _order(net: Network, st: Structure) -> int:
    """Eliminate by least degree, adding fill edges."""
    n = net.size[VARIABLES]
    st.queue_head[:] = -1
    entries = 0
    for v in range(n - 1, -1, -1):
        entries = _enqueue(st, entries, v)
        if entries < 0:
            return TABLES_FULL
    for place in range(n):
        v = _next_variable(st)
        if v < 0:
            return WIDE
        st.place[v] = place
        st.order[place] = v
        start = st.size[MEMBERS]
        st.clique_start[place] = start
        cells = 1
        arc = st.head[v]
        while arc >= 0:
            u = st.arc_to[arc]
            if st.place[u] < 0:
                st.clique[st.size[MEMBERS]] = u
                st.size[MEMBERS] += 1
                st.degree[u] -= 1
                cells *= _values(net, u)
                if cells * _values(net, v) > MAX_TABLE:
                    return WIDE
            arc = st.arc_next[arc]
        st.message[v] = st.size[CELLS]
        st.size[CELLS] += cells
        if st.size[CELLS] > len(st.table):
            return WIDE if st.size[CELLS] > MAX_CELLS else TABLES_FULL
        stop = st.size[MEMBERS]
        for i in range(start, stop):
            for j in range(start, i):
                edge = _edge(net, st, st.clique[i], st.clique[j])
                if edge < 0:
                    return -edge
        for i in range(start, stop):
            entries = _enqueue(st, entries, st.clique[i])
            if entries < 0:
                return TABLES_FULL
    st.clique_start[n] = st.size[MEMBERS]
    return SOLVED


@kernel
def _attach(net: Network, st: Structure) -> None:
    """Hang messages and generic clauses on the variable where they are next needed."""
    n = net.size[VARIABLES]
    st.message_head[:n] = -1
    st.generic_head[:n] = -1
    for v in range(n):
        start, stop = st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]
        if stop - start > 2:
            first = st.clique[start]
            for i in range(start + 1, stop):
                if st.place[st.clique[i]] < st.place[first]:
                    first = st.clique[i]
            st.message_next[v] = st.message_head[first]
            st.message_head[first] = v
    for g in range(st.size[GENERICS]):
        row, k = st.generic_row[g], st.generic_k[g]
        first = -1
        for p in range(net.lit_start[row], net.lit_start[row + 1]):
            v = net.var_of[net.lit_atom[p] + k * net.lit_step[p]]
            if first < 0 or st.place[v] < st.place[first]:
                first = v
        st.generic_next[g] = st.generic_head[first]
        st.generic_head[first] = g


@kernel
def structure(net: Network, st: Structure) -> int:
    """Find an elimination order and lay out its tables: SOLVED, WIDE or TABLES_FULL (grow, call again)."""
    n = net.size[VARIABLES]
    st.size[:] = 0
    st.head[:n] = -1
    st.length[:n] = 0
    st.degree[:n] = 0
    st.place[:n] = -1
    for r in range(net.size[ROWS]):
        status = _classify(net, st, r)
        if st.stop[0]:
            status = WIDE
        if status != SOLVED:
            return status
    status = _order(net, st)
    if status == SOLVED:
        _attach(net, st)
    return status


@kernel
def _forbid(net: Network, st: Structure) -> None:
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
            for value in range(_values(net, u)):
                if (value == x) != (net.lit_positive[p] == 1):
                    st.unary[net.var_start[u] + u + value] = -np.inf
            continue
        b = net.lit_atom[p + 1] + k * net.lit_step[p + 1]
        v = net.var_of[b]
        y = b - net.var_start[v] + 1
        table = st.edge_table[_find_edge(st, u, v)]
        for i in range(_values(net, u)):
            for j in range(_values(net, v)):
                if (i == x) != (net.lit_positive[p] == 1) and (j == y) != (
                    net.lit_positive[p + 1] == 1
                ):
                    cell = i * _values(net, v) + j if u < v else j * _values(net, u) + i
                    st.table[table + cell] = -np.inf


@kernel
def _fill(net: Network, st: Structure, weights: Floats, cu: float, cv: float) -> None:
    """Add sign * weight * [clause true] of the clauses on one or two variables, up to constants."""
    unary, table = st.unary, st.table
    for r in range(net.size[ROWS]):
        kind = st.row_kind[r]
        if kind == GENERIC:
            continue
        if net.row_weight[r] < 0:
            _hard_row(net, st, r)
            continue
        p = net.lit_start[r]
        i, step, sign = net.row_weight[r], net.row_step[r], net.row_sign[r]
        a, a_step = net.lit_atom[p], net.lit_step[p]
        if kind == UNARY:
            sign = sign if net.lit_positive[p] else -sign
            for _ in range(net.row_len[r]):
                w = weights[i, 0] + cu * weights[i, 1] + cv * weights[i, 2]
                unary[a + net.var_of[a] + 1] += sign * w
                i += step
                a += a_step
            continue
        b, b_step = net.lit_atom[p + 1], net.lit_step[p + 1]
        positive_a, positive_b = net.lit_positive[p], net.lit_positive[p + 1]
        for _ in range(net.row_len[r]):
            w = sign * (weights[i, 0] + cu * weights[i, 1] + cv * weights[i, 2])
            u, v = net.var_of[a], net.var_of[b]
            edge = kind if kind >= 0 else _find_edge(st, u, v)
            x, y = a - net.var_start[u] + 1, b - net.var_start[v] + 1
            cell = x * _values(net, v) + y if u < v else y * _values(net, u) + x
            # 1 - [a false][b false], multiplied out
            if positive_a:
                if positive_b:
                    unary[a + u + 1] += w
                    unary[b + v + 1] += w
                    table[st.edge_table[edge] + cell] -= w
                else:
                    unary[b + v + 1] -= w
                    table[st.edge_table[edge] + cell] += w
            elif positive_b:
                unary[a + u + 1] -= w
                table[st.edge_table[edge] + cell] += w
            else:
                table[st.edge_table[edge] + cell] -= w
            i += step
            a += a_step
            b += b_step


@kernel
def _pass_leaf(net: Network, st: Structure, v: int, u: int) -> None:
    """Eliminate a variable with one neighbour: its message is a unary of the neighbour."""
    nv, nu = _values(net, v), _values(net, u)
    slot_v, slot_u = net.var_start[v] + v, net.var_start[u] + u
    table = st.edge_table[_find_edge(st, u, v)]
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
def _generic(net: Network, st: Structure, v: int, weights: Floats, cu: float, cv: float) -> float:
    """Score the generic clauses decided at v under ``st.value``, up to constants."""
    total = 0.0
    g = st.generic_head[v]
    while g >= 0:
        row, k = st.generic_row[g], st.generic_k[g]
        true = False
        for p in range(net.lit_start[row], net.lit_start[row + 1]):
            a = net.lit_atom[p] + k * net.lit_step[p]
            u = net.var_of[a]
            if (st.value[u] == a - net.var_start[u] + 1) == (net.lit_positive[p] == 1):
                true = True
                break
        if not true:
            i = net.row_weight[row]
            if i < 0:
                return -np.inf
            i += k * net.row_step[row]
            total -= net.row_sign[row] * (weights[i, 0] + cu * weights[i, 1] + cv * weights[i, 2])
        g = st.generic_next[g]
    return total


@kernel
def _message_cell(net: Network, st: Structure, v: int) -> int:
    """Return the cell of v's message for the values of its clique in ``st.value``."""
    cell = 0
    for i in range(st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]):
        cell = cell * _values(net, st.clique[i]) + st.value[st.clique[i]]
    return st.message[v] + cell


@kernel
def _local(net: Network, st: Structure, v: int, weights: Floats, cu: float, cv: float) -> float:
    """Score v and its clique, all with their value in ``st.value``."""
    x = st.value[v]
    s = st.unary[net.var_start[v] + v + x]
    for i in range(st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]):
        u = st.clique[i]
        y = st.value[u]
        cell = x * _values(net, u) + y if v < u else y * _values(net, v) + x
        s += st.table[st.edge_table[_find_edge(st, u, v)] + cell]
    sender = st.message_head[v]
    while sender >= 0:
        s += st.table[_message_cell(net, st, sender)]
        sender = st.message_next[sender]
    return s + _generic(net, st, v, weights, cu, cv)


@kernel
def _pass_clique(
    net: Network, st: Structure, v: int, weights: Floats, cu: float, cv: float
) -> float:
    """Eliminate v over every assignment of its clique; returns the maximum where it is empty."""
    start, stop = st.clique_start[st.place[v]], st.clique_start[st.place[v] + 1]
    cells = 1
    for i in range(start, stop):
        st.value[st.clique[i]] = 0
        cells *= _values(net, st.clique[i])
    best = -np.inf
    for cell in range(cells):
        best, choice = -np.inf, 0
        for x in range(_values(net, v)):
            st.value[v] = x
            s = _local(net, st, v, weights, cu, cv)
            if s > best:
                best, choice = s, x
        st.choice[st.message[v] + cell] = choice
        if stop - start > 2:
            st.table[st.message[v] + cell] = best
        elif stop - start == 2:
            a, b = st.clique[start], st.clique[start + 1]
            x, y = st.value[a], st.value[b]
            at = x * _values(net, b) + y if a < b else y * _values(net, a) + x
            st.table[st.edge_table[_find_edge(st, a, b)] + at] += best
        elif stop - start == 1:
            u = st.clique[start]
            st.unary[net.var_start[u] + u + st.value[u]] += best
        for i in range(stop - 1, start - 1, -1):  # next assignment, last member fastest
            u = st.clique[i]
            st.value[u] += 1
            if st.value[u] < _values(net, u):
                break
            st.value[u] = 0
    return best


@kernel
def eliminate(
    net: Network,
    st: Structure,
    weights: Floats,
    cu: float,
    cv: float,
    bonus: Floats,
    state: Bytes,
) -> float:
    """Write the state of maximal soft score plus ``bonus`` . state; -inf: the hard part is infeasible.

    ``structure`` has run on the same network. ``weights`` is read as in ``network.soft_score``;
    ``bonus`` is [atom]. The value returned is the maximum up to the constants of satisfied clauses.
    """
    n, atoms = net.size[VARIABLES], net.size[ATOMS]
    st.unary[: atoms + n] = 0.0
    st.table[: st.size[CELLS]] = 0.0
    for a in range(atoms):
        st.unary[a + net.var_of[a] + 1] += bonus[a]
    _forbid(net, st)
    _fill(net, st, weights, cu, cv)
    total = 0.0
    for place in range(n):
        if st.stop[0]:
            return total
        v = st.order[place]
        members = st.clique_start[place + 1] - st.clique_start[place]
        if members == 1 and st.generic_head[v] < 0:
            _pass_leaf(net, st, v, st.clique[st.clique_start[place]])
            continue
        best = _pass_clique(net, st, v, weights, cu, cv)
        if members == 0:
            total += best
    state[:atoms] = 0
    for place in range(n - 1, -1, -1):
        v = st.order[place]
        st.value[v] = st.choice[_message_cell(net, st, v)]
        if st.value[v] > 0:
            state[net.var_start[v] + st.value[v] - 1] = 1
    return total
