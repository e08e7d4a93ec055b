"""Hard clauses of two literals, merged to rows that say more where literals are between false and true."""

from __future__ import annotations

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.mln.kernels.clique_merging import merge_cliques


def merged(pairs: Ints32, first: int = 0) -> tuple[Ints, Ints32]:
    """Return sets of literals of which all but one at most are true, as their start and the literals.

    ``pairs``, int32[clauses, 2], are the literals of hard clauses, of two atoms each. The sets cover those
    from ``first`` on; all may make them larger. Each pair that is not covered yet begins a set, which takes
    up what excludes each other with all of it.
    """
    nodes = 2 * int(np.abs(pairs).max(initial=0)) + 2
    edges = 2 * np.abs(pairs).astype(np.int64) + (pairs > 0)
    ends, number = edges.T.ravel(), np.tile(np.arange(len(pairs)), 2)
    order = np.argsort(ends, kind="stable")
    clique_start = np.zeros(len(pairs) - first + 1, np.int64)
    clique = np.zeros(2 * len(pairs), np.int64)
    n = merge_cliques(
        first,
        edges,
        np.searchsorted(ends[order], np.arange(nodes + 1)),
        edges[:, ::-1].T.ravel()[order],
        number[order],
        np.zeros(len(pairs), np.bool_),
        np.zeros(nodes, np.bool_),
        np.zeros(nodes, np.int32),
        clique_start,
        clique,
    )
    clique = clique[: clique_start[n]]
    return clique_start[: n + 1], (np.where(clique % 2 == 1, 1, -1) * (clique // 2)).astype(
        np.int32
    )
