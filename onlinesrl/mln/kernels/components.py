"""Connected components by union-find; the root of a component is its first member."""

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.jit.decorators import kernel


@kernel
def _root(parent: Ints, a: int) -> int:
    while parent[a] != a:
        parent[a] = parent[parent[a]]
        a = parent[a]
    return a


@kernel
def join(start: Ints, literals: Ints32, run: Ints, parent: Ints) -> None:
    """Join the atoms of each clause of ``run``, whose literals are ``start[c] : start[c + 1]``.

    ``parent``, [atom], is 0, 1, 2 and so on at first, then the roots.
    """
    for c in run:
        first = -1
        for i in range(start[c], start[c + 1]):
            a = _root(parent, abs(literals[i]) - 1)
            if first < 0:
                first = a
            first, other = min(first, a), max(first, a)
            parent[other] = first
    for a in range(len(parent)):
        parent[a] = _root(parent, a)
