"""Colour refinement of a weighted graph: the coarsest stable colouring, in quasi-linear time.

A colouring is stable if any two nodes of one colour have the same sum of edge weights to the nodes of
every colour. A worklist of colours splits the others by these sums. When a colour is split, its largest
part keeps the number and is not added to the worklist (Paige & Tarjan 1987; Valmari & Franceschinis
2010), so each edge is visited O(log n) times.
"""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame


class Graph(Frame):
    """An undirected graph; every edge is stored at both ends."""

    start: Ints  # [node + 1]
    neighbour: Ints32  # [edge end]
    weight: Floats  # [edge end]


class Partition(Frame):
    """The colours, each a range of ``node``, and working memory."""

    colour: Ints  # [node]
    node: Ints  # [place]
    place: Ints  # [node]
    first: Ints  # [colour] in ``node``
    size: Ints  # [colour]
    moved: Ints  # [colour] the number of its nodes with a non-zero sum
    queue: Ints  # the worklist, a stack
    total: Floats  # [node] of its edges to the splitting colour
    met: Bytes  # [node]
    touched: Ints  # nodes with edges to the splitting colour
    split: Ints  # colours of these nodes


def partition(colour: Ints) -> Partition:
    """Return a partition by the colours 0 .. k - 1, int64[node]."""
    n = len(colour)
    node = np.argsort(colour, kind="stable")
    place = np.empty(n, np.int64)
    place[node] = np.arange(n)
    size = np.bincount(colour, minlength=n).astype(np.int64)
    ints = np.zeros((4, n), np.int64)
    return Partition(
        colour.copy(),
        node,
        place,
        np.cumsum(size) - size,
        size,
        ints[0],
        ints[1],
        np.zeros(n),
        np.zeros(n, np.uint8),
        ints[2],
        ints[3],
    )


@kernel
def _swap(p: Partition, a: int, b: int) -> None:
    """Swap the nodes at two places."""
    u, v = p.node[a], p.node[b]
    p.node[a], p.node[b] = v, u
    p.place[u], p.place[v] = b, a


@kernel
def _sift_down(p: Partition, low: int, root: int, n: int) -> None:
    """Sift a root down in the max-heap by sum of the n nodes from place low."""
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and p.total[p.node[low + child]] < p.total[p.node[low + child + 1]]:
            child += 1
        if p.total[p.node[low + root]] >= p.total[p.node[low + child]]:
            return
        _swap(p, low + root, low + child)
        root = child


@kernel
def _sort(p: Partition, low: int, n: int) -> None:
    """Sort the n nodes from place low by their sums, unless all are equal."""
    equal = True
    for i in range(low + 1, low + n):
        equal = equal and p.total[p.node[i]] == p.total[p.node[low]]
    if equal:
        return
    for root in range(n // 2 - 1, -1, -1):
        _sift_down(p, low, root, n)
    for end in range(n - 1, 0, -1):
        _swap(p, low, low + end)
        _sift_down(p, low, 0, end)


@kernel
def _sum_edges(g: Graph, p: Partition, c: int) -> int:
    """Compute the sums to colour c; return the number of nodes with edges to it."""
    n = 0
    for i in range(p.first[c], p.first[c] + p.size[c]):
        v = p.node[i]
        for e in range(g.start[v], g.start[v + 1]):
            u = g.neighbour[e]
            if p.met[u] == 0:
                p.met[u] = 1
                p.total[u] = 0.0
                p.touched[n] = u
                n += 1
            p.total[u] += g.weight[e]
    return n


@kernel
def _gather(p: Partition, n: int) -> int:
    """Move nodes with a non-zero sum to the front of their colours; return the number of these colours."""
    n_split = 0
    for t in range(n):
        u = p.touched[t]
        p.met[u] = 0
        if p.total[u] == 0.0:
            continue
        c = p.colour[u]
        if p.moved[c] == 0:
            p.split[n_split] = c
            n_split += 1
        _swap(p, p.place[u], p.first[c] + p.moved[c])
        p.moved[c] += 1
    return n_split


@kernel
def _end(p: Partition, low: int, high: int) -> int:
    """Return the end of the run of equal sums that starts at place low."""
    end = low + 1
    while end < high and p.total[p.node[end]] == p.total[p.node[low]]:
        end += 1
    return end


@kernel
def _split(p: Partition, c: int, n_colours: int, n_queue: int) -> tuple[int, int]:
    """Give every run of equal sums except the largest a new colour; return both counts."""
    start, sorted_end, end = p.first[c], p.first[c] + p.moved[c], p.first[c] + p.size[c]
    p.moved[c] = 0
    _sort(p, start, sorted_end - start)
    best, best_size = sorted_end, end - sorted_end  # the nodes whose sum is 0
    low = start
    while low < sorted_end:
        high = _end(p, low, sorted_end)
        if high - low > best_size:
            best, best_size = low, high - low
        low = high
    low = start
    while low < end:
        high = _end(p, low, sorted_end) if low < sorted_end else end
        if low != best:
            p.first[n_colours], p.size[n_colours] = low, high - low
            for i in range(low, high):
                p.colour[p.node[i]] = n_colours
            p.queue[n_queue] = n_colours
            n_queue += 1
            n_colours += 1
        low = high
    p.first[c], p.size[c] = best, best_size
    return n_colours, n_queue


@kernel
def refine(g: Graph, p: Partition, n_colours: int) -> int:
    """Refine the colours until they are stable; return their number."""
    n_queue = n_colours
    for c in range(n_colours):
        p.queue[c] = c
    while n_queue > 0:
        n_queue -= 1
        c = p.queue[n_queue]
        n_split = _gather(p, _sum_edges(g, p, c))
        for s in range(n_split):
            n_colours, n_queue = _split(p, p.split[s], n_colours, n_queue)
    return n_colours
