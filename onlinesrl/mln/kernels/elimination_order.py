"""An elimination order of a ground network, by least degree, and the layout of its tables.

Both depend on the clauses alone. So one structure serves all weights, with and without the label loss.
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.ground_network import ROWS, VARIABLES, Network

SOLVED, WIDE, TABLES_FULL, CONTRADICTION = 0, 1, 2, 3
"""The statuses of ``structure``. CONTRADICTION: a hard clause is empty, so no state satisfies it."""
MAX_DEGREE, WIDEST = 14, 20
"""The most neighbours of a variable, by default and where a search has found no proof before."""
MAX_TABLE = 1 << 16
MAX_CELLS = 1 << 24
MODEST_CELLS = 1 << 12
"""Tables with up to so many cells in all are never too large; see ``Structure.growth``."""
UNARY, GENERIC, PAIRS = -1, -2, -3
ARCS, MEMBERS, GENERICS, CELLS = 0, 1, 2, 3


class Structure(Frame):
    """Scratch memory for an elimination order and its tables."""

    size: Annotated[Ints, "4"]  # arcs, clique members, generic clauses, table cells
    # UNARY, GENERIC, PAIRS (an edge per clause), or the edge of all clauses
    row_kind: Annotated[Ints32, "row"]
    head: Annotated[Ints32, "atom"]  # first arc
    length: Annotated[Ints32, "atom"]  # arcs in its list
    degree: Annotated[Ints32, "atom"]  # neighbours not yet eliminated
    # arcs 2e and 2e + 1 are edge e at its lower and its higher variable
    arc_next: Annotated[Ints32, "arc"]
    arc_to: Annotated[Ints32, "arc"]
    # first cell; index = value(lower) * values(higher) + value(higher)
    edge_table: Annotated[Ints, "edge"]
    place: Annotated[Ints32, "atom"]  # its place in the order
    order: Annotated[Ints32, "atom"]
    clique_start: Annotated[Ints32, "atom + 1"]
    clique: Annotated[Ints32, "atom * member"]  # neighbours of the variable when it is eliminated
    clique_edge: Annotated[Ints32, "atom * member"]  # and the edges to them
    message: Annotated[Ints, "atom"]  # first cell of its message over its clique
    # first sender of a message over three or more variables
    message_head: Annotated[Ints32, "atom"]
    message_next: Annotated[Ints32, "atom"]
    # first clause that is decided where this one is eliminated
    generic_head: Annotated[Ints32, "atom"]
    generic_next: Annotated[Ints32, "arc"]
    generic_row: Annotated[Ints32, "arc"]
    generic_k: Annotated[Ints32, "arc"]
    queue_head: Annotated[Ints32, "member"]
    queue_next: Annotated[Ints32, "atom + 2 * arc"]
    queue_variable: Annotated[Ints32, "atom + 2 * arc"]
    unary: Annotated[Floats, "2 * atom"]
    table: Annotated[Floats, "cell"]
    choice: Annotated[Ints32, "cell"]
    value: Annotated[Ints32, "atom"]
    last: Annotated[Bytes, "atom"]  # 1: eliminated after all variables of 0
    growth: int  # more than growth * (cells of the clauses' tables) + MODEST_CELLS cells are WIDE
    width: int  # a variable with more neighbours is WIDE, or with these more than 4 << width states


def structure_memory(
    atoms: int, rows: int, arcs: int, cells: int, growth: int = MAX_CELLS, width: int = MAX_DEGREE
) -> Structure:
    """Return scratch memory for a world of so many atoms, rows, arcs and table cells.

    For ``growth`` and ``width`` see ``Structure``.
    """
    return Structure.zeros(
        {"growth": growth, "width": width},
        atom=atoms,
        row=rows,
        arc=arcs,
        edge=arcs // 2,
        cell=cells,
        member=width + 1,
    )


@kernel
def values(net: Network, v: int) -> int:
    """Return how many values a variable has."""
    return net.var_start[v + 1] - net.var_start[v] + 1


@kernel
def find_edge(st: Structure, a: int, b: int) -> int:
    """Return the edge between two variables, -1: there is none."""
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
    """Return the edge between two variables, a new one if needed; -WIDE or -TABLES_FULL: no room for it."""
    edge = find_edge(st, a, b)
    if edge >= 0:
        return edge
    arc = st.size[ARCS]
    cells = np.int64(values(net, a)) * values(net, b)
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
def _variable(net: Network, p: int, k: int) -> int:
    """Return the variable of literal ``p`` in clause ``k`` of its row."""
    return net.var_of[net.lit_atom[p] + k * net.lit_step[p]]


@kernel
def _classify(net: Network, st: Structure, row: int) -> int:
    """Decide how a row enters the tables, and add its edges; returns a status."""
    start = net.lit_start[row]
    literals = net.lit_start[row + 1] - start
    last = net.row_len[row] - 1
    if literals == 0:
        return CONTRADICTION if net.row_weight[row] < 0 else WIDE
    if literals == 1:
        st.row_kind[row] = UNARY
        return SOLVED
    if literals == 2:
        a, b = _variable(net, start, 0), _variable(net, start + 1, 0)
        same = _variable(net, start, last) == a and _variable(net, start + 1, last) == b
        if same and a != b:
            edge = _edge(net, st, a, b)
            st.row_kind[row] = edge
            return SOLVED if edge >= 0 else -edge
        distinct = True
        for k in range(last + 1):
            distinct &= _variable(net, start, k) != _variable(net, start + 1, k)
        st.row_kind[row] = PAIRS if distinct else GENERIC
    else:
        st.row_kind[row] = GENERIC
    for k in range(last + 1):
        variables = 0
        for p in range(start, net.lit_start[row + 1]):  # connect its variables pairwise
            a, repeated = _variable(net, p, k), False
            for q in range(start, p):
                b = _variable(net, q, k)
                repeated |= a == b
                edge = _edge(net, st, a, b) if a != b else 0
                if edge < 0:
                    return -edge
            variables += not repeated
            if variables > st.width + 1:  # whichever is eliminated first has too many neighbours
                return WIDE
        if st.row_kind[row] == GENERIC:
            g = st.size[GENERICS]
            if g == len(st.generic_row):
                return TABLES_FULL
            st.generic_row[g], st.generic_k[g] = row, k
            st.size[GENERICS] += 1
    return SOLVED


@kernel
def _enqueue(st: Structure, entries: int, v: int, last: int) -> int:
    degree = st.degree[v]
    if degree > st.width or st.last[v] > last:
        return entries
    if entries == len(st.queue_next):
        return -1
    st.queue_variable[entries] = v
    st.queue_next[entries] = st.queue_head[degree]
    st.queue_head[degree] = entries
    return entries + 1


@kernel
def _next_variable(st: Structure) -> int:
    """Pop a variable of least degree; -1: none of at most ``st.width`` is left."""
    for degree in range(st.width + 1):
        while st.queue_head[degree] >= 0:
            entry = st.queue_head[degree]
            st.queue_head[degree] = st.queue_next[entry]
            v = st.queue_variable[entry]
            if st.place[v] < 0 and st.degree[v] == degree:
                return v
    return -1


@kernel
def _order(net: Network, st: Structure) -> int:
    """Eliminate by least degree, the variables that are ``last`` after the others, adding fill edges."""
    n = net.size[VARIABLES]
    most = min(MAX_CELLS, st.growth * st.size[CELLS] + MODEST_CELLS)
    st.queue_head[:] = -1
    entries, last, before = 0, 0, n
    for v in range(n):
        before -= st.last[v]
    for place in range(n):
        if place in (0, before):
            last = int(place == before)
            for u in range(n - 1, -1, -1):
                entries = _enqueue(st, entries, u, last) if st.place[u] < 0 else entries
                if entries < 0:
                    return TABLES_FULL
        v = _next_variable(st)
        if v < 0:
            return WIDE
        st.place[v], st.order[place] = place, v
        start = st.size[MEMBERS]
        st.clique_start[place] = start
        cells, arc = 1, st.head[v]
        while arc >= 0:  # its clique: the neighbours that are not yet eliminated
            u = st.arc_to[arc]
            if st.place[u] < 0:
                member = st.size[MEMBERS]
                st.clique[member], st.clique_edge[member] = u, arc >> 1
                st.size[MEMBERS] += 1
                st.degree[u] -= 1
                cells *= values(net, u)
                if cells * values(net, v) > 4 << st.width:
                    return WIDE
            arc = st.arc_next[arc]
        st.message[v] = st.size[CELLS]
        st.size[CELLS] += cells
        if st.size[CELLS] > min(most, len(st.table)):
            return WIDE if st.size[CELLS] > most else TABLES_FULL
        for i in range(start, st.size[MEMBERS]):
            for j in range(start, i):
                edge = _edge(net, st, st.clique[i], st.clique[j])
                if edge < 0:
                    return -edge
        for i in range(start, st.size[MEMBERS]):
            entries = _enqueue(st, entries, st.clique[i], last)
            if entries < 0:
                return TABLES_FULL
    st.clique_start[n] = st.size[MEMBERS]
    return SOLVED


@kernel
def _attach(net: Network, st: Structure) -> None:
    """List messages and generic clauses at the variable whose elimination needs them next."""
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
            v = _variable(net, p, k)
            if first < 0 or st.place[v] < st.place[first]:
                first = v
        st.generic_next[g] = st.generic_head[first]
        st.generic_head[first] = g


@kernel
def structure(net: Network, st: Structure) -> int:
    """Find an elimination order and lay out its tables; returns a status.

    TABLES_FULL: the caller must try again with more room. WIDE may hide a CONTRADICTION.
    """
    n = net.size[VARIABLES]
    st.size[:] = 0
    st.head[:n] = -1
    st.length[:n] = 0
    st.degree[:n] = 0
    st.place[:n] = -1
    for r in range(net.size[ROWS]):
        status = _classify(net, st, r)
        if status != SOLVED:
            return status
    status = _order(net, st)
    if status == SOLVED:
        _attach(net, st)
    return status
