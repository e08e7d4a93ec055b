"""Elimination of a pairwise cost's variables with at most two edges, before a search.

To *fold* a variable, the cost of its best value for each of its neighbours' values is added to a table. That
is its neighbour's table, or the table of the edge, perhaps a new one, between its two neighbours. The rest
is a cost over fewer variables. Its best state gives the folded variables their values, in reverse order.
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bools, Bytes, Ints, Ints32, gathered
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.pairwise_mrf import Pairwise, pairwise

FOLDS, EDGES = 0, 1


class Folds(Frame):
    """The folds, in order, and the graph of the remaining variables.

    Arc ``2 e`` is the edge ``e`` at its lower variable, ``2 e + 1`` at its higher one.
    """

    size: Ints  # folds, edges with the new ones
    low: Ints32  # [edge]
    high: Ints32  # [edge]
    variable: Annotated[Ints32, "variable"]
    edge: Ints32  # [fold, 3] to its lower neighbour, to its higher one, and between them; -1: none
    folded: Annotated[Bytes, "variable"]
    lost: Annotated[Bytes, "edge + variable"]
    degree: Annotated[Ints32, "variable"]
    head: Ints32  # [variable] its first arc
    following: Annotated[Ints32, "2 * edge + 2 * variable"]
    previous: Annotated[Ints32, "2 * edge + 2 * variable"]
    waiting: Annotated[Ints32, "2 * variable"]  # variables that may have two edges


def folds(size: Ints, low: Ints32, high: Ints32, visible: Bools) -> Folds:
    """Return the folds of a cost of variables with so many values and these edges, none of a visible one."""
    n, edges = len(size), len(low)
    room = np.zeros(n, np.int32)
    fields = {
        "size": np.array([0, edges]),
        "low": np.concatenate((low, room)),
        "high": np.concatenate((high, room)),
        "edge": np.full((n, 3), -1, np.int32),
        "head": np.full(n, -1, np.int32),
    }
    order = Folds.zeros(fields, variable=n, edge=edges)
    _find(order, size, visible)
    return order


@kernel
def _link(f: Folds, v: int, arc: int) -> None:
    first = f.head[v]
    f.following[arc], f.previous[arc], f.head[v] = first, -1, arc
    if first >= 0:
        f.previous[first] = arc
    f.degree[v] += 1


@kernel
def _unlink(f: Folds, v: int, arc: int) -> None:
    before, after = f.previous[arc], f.following[arc]
    if before >= 0:
        f.following[before] = after
    else:
        f.head[v] = after
    if after >= 0:
        f.previous[after] = before
    f.degree[v] -= 1


@kernel
def _end(f: Folds, arc: int) -> int:
    """Return the variable at the other end of an arc."""
    return f.low[arc // 2] if arc % 2 else f.high[arc // 2]


@kernel
def _between(f: Folds, a: int, b: int) -> int:
    """Return the edge between two variables, a < b; a new one where there is none."""
    arc = f.head[a]
    while arc >= 0:
        if _end(f, arc) == b:
            return arc // 2
        arc = f.following[arc]
    e = f.size[EDGES]
    f.size[EDGES] += 1
    f.low[e], f.high[e] = a, b
    _link(f, a, 2 * e)
    _link(f, b, 2 * e + 1)
    return e


@kernel
def _fold_variable(f: Folds, size: Ints, v: int) -> bool:
    """Fold a variable, unless the table of its neighbours would be larger than its own two."""
    first = f.head[v]
    second = f.following[first] if first >= 0 else -1
    if second >= 0:
        if _end(f, first) > _end(f, second):
            first, second = second, first
        a, b = size[_end(f, first)], size[_end(f, second)]
        if a * b > size[v] * (a + b):
            return False
    k = f.size[FOLDS]
    f.size[FOLDS] += 1
    f.variable[k] = v
    f.folded[v] = 1
    for i, arc in ((0, first), (1, second)):
        if arc >= 0:
            _unlink(f, _end(f, arc), arc ^ 1)
            f.lost[arc // 2] = 1
            f.edge[k, i] = arc // 2
    if second >= 0:
        f.edge[k, 2] = _between(f, _end(f, first), _end(f, second))
    return True


@kernel
def _find(f: Folds, size: Ints, visible: Bools) -> None:
    for e in range(f.size[EDGES]):
        _link(f, f.low[e], 2 * e)
        _link(f, f.high[e], 2 * e + 1)
    waiting = len(size)
    for v in range(waiting):
        f.waiting[v] = v
    while waiting > 0:
        waiting -= 1
        v = f.waiting[waiting]
        if visible[v] or f.folded[v] or f.degree[v] > 2 or not _fold_variable(f, size, v):
            continue
        arc = f.head[v]
        while arc >= 0:
            f.waiting[waiting] = _end(f, arc)
            waiting += 1
            arc = f.following[arc]


@kernel
def _cell(p: Pairwise, e: int, v: int, x: int, y: int) -> float:
    """Return an edge's cost of a variable's value and its neighbour's; 0 for no edge."""
    if e < 0:
        return 0.0
    columns = p.start[p.high[e] + 1] - p.start[p.high[e]]
    return p.table[p.table_start[e] + (x * columns + y if p.low[e] == v else y * columns + x)]


@kernel
def _neighbour(p: Pairwise, e: int, v: int) -> int:
    """Return the other variable of an edge; -1 for no edge."""
    if e < 0:
        return -1
    return p.high[e] if p.low[e] == v else p.low[e]


@kernel
def _best(p: Pairwise, f: Folds, k: int, y: int, z: int) -> int:
    """Return the first best value of a folded variable, given the values of its neighbours."""
    v = f.variable[k]
    best, least = 0, np.inf
    for x in range(p.start[v + 1] - p.start[v]):
        cost = p.unary[p.start[v] + x] + _cell(p, f.edge[k, 0], v, x, y)
        cost += _cell(p, f.edge[k, 1], v, x, z)
        if cost < least:
            best, least = x, cost
    return best


@kernel
def fold(p: Pairwise, f: Folds) -> float:
    """Add the costs of the folded variables to the tables of the others.

    Returns the cost of those that have no others. ``p`` has the new edges, and an infinite unary cost where a
    value is impossible.
    """
    alone = 0.0
    for k in range(f.size[FOLDS]):
        v = f.variable[k]
        a, b = _neighbour(p, f.edge[k, 0], v), _neighbour(p, f.edge[k, 1], v)
        if a < 0:
            alone += p.unary[p.start[v] + _best(p, f, k, 0, 0)]
            continue
        for y in range(p.start[a + 1] - p.start[a]):
            for z in range(p.start[b + 1] - p.start[b] if b >= 0 else 1):
                x = _best(p, f, k, y, z)
                cost = p.unary[p.start[v] + x] + _cell(p, f.edge[k, 0], v, x, y)
                if b < 0:
                    p.unary[p.start[a] + y] += cost
                else:
                    columns = p.start[b + 1] - p.start[b]
                    cost += _cell(p, f.edge[k, 1], v, x, z)
                    p.table[p.table_start[f.edge[k, 2]] + y * columns + z] += cost
    return alone


@kernel
def unfold(p: Pairwise, f: Folds, state: Ints32) -> None:
    """Give the folded variables their best values in ``state``, which has the values of the others."""
    for i in range(f.size[FOLDS]):
        k = f.size[FOLDS] - 1 - i
        v = f.variable[k]
        a, b = _neighbour(p, f.edge[k, 0], v), _neighbour(p, f.edge[k, 1], v)
        state[v] = _best(p, f, k, state[a] if a >= 0 else 0, state[b] if b >= 0 else 0)


def core_of(p: Pairwise, f: Folds) -> tuple[Pairwise, Ints]:
    """Return the cost over the variables that are not folded, and their numbers."""
    variables = np.flatnonzero(f.folded == 0)
    edges = np.flatnonzero(f.lost[: f.size[EDGES]] == 0)
    number = np.cumsum(f.folded == 0).astype(np.int32) - 1
    size = np.diff(p.start)
    core = pairwise(size[variables], number[p.low[edges]], number[p.high[edges]])
    core.unary[:] = p.unary[gathered(p.start, variables)[1]]
    core.table[:] = p.table[gathered(p.table_start, edges)[1]]
    return core, variables
