"""Greedy clique merging on the conflict graph (Atamturk, Nemhauser & Savelsbergh 2000).

A node is a literal. An edge is a clause of two literals: not both are false. Of the literals of a clique all
but one at most are true, which says more than its edges where literals may be half true.
"""

from onlinesrl.core.arrays import Bools, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel

WORK = 100_000_000
"""After so many steps to neighbours, some 0.2 s, each edge that is left is a clique of its own."""


@kernel
def _join(
    node: int, start: Ints, end: Ints, number: Ints, inside: Bools, count: Ints32, covered: Bools
) -> None:
    """Add a node to the clique; its edges to the other nodes are covered."""
    for i in range(start[node], start[node + 1]):
        count[end[i]] += 1
        covered[number[i]] |= inside[end[i]]
    inside[node] = True


@kernel
def merge_cliques(
    first: int,
    edges: Ints,
    start: Ints,
    end: Ints,
    number: Ints,
    covered: Bools,
    inside: Bools,
    count: Ints32,
    clique_start: Ints,
    clique: Ints,
) -> int:
    """Write cliques that cover the edges from ``first`` on; returns their number.

    ``edges``, [edge, 2], are distinct; those of a node go to ``end[start[node] : start[node + 1]]`` and have
    the numbers at the same places of ``number``. A node joins a clique where this covers an edge, so that
    ``clique`` needs room for two nodes of each edge. ``covered``, [edge], ``inside`` and ``count``, [node],
    are zero at first.
    """
    cliques, work = 0, 0
    for e in range(first, len(edges)):
        if covered[e]:
            continue
        size, stop = 2, clique_start[cliques] + 2
        clique[stop - 2], clique[stop - 1] = edges[e, 0], edges[e, 1]
        for node in edges[e]:
            _join(node, start, end, number, inside, count, covered)
        for i in range(start[edges[e, 0]], start[edges[e, 0] + 1]):
            node = end[i]
            if count[node] < size or work > WORK:
                continue
            work += start[node + 1] - start[node]
            new = False
            for j in range(start[node], start[node + 1]):
                new |= inside[end[j]] and not covered[number[j]]
            if new:
                clique[stop] = node
                size, stop = size + 1, stop + 1
                _join(node, start, end, number, inside, count, covered)
        for place in range(stop - size, stop):
            node = clique[place]
            inside[node] = False
            for i in range(start[node], start[node + 1]):
                count[end[i]] = 0
        cliques += 1
        clique_start[cliques] = stop
    return cliques
