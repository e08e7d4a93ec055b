"""Connected components of atoms by union-find; the root of a component is its first atom."""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.clauses import Clauses


@kernel
def _root(parent: Ints | Ints32, a: int) -> int:
    while parent[a] != a:
        parent[a] = parent[parent[a]]
        a = parent[a]
    return a


@kernel
def _unite(parent: Ints | Ints32, a: int, b: int) -> None:
    """Merge the components of two atoms."""
    a, b = _root(parent, a), _root(parent, b)
    parent[max(a, b)] = min(a, b)


@kernel
def join(start: Ints, literals: Ints32, run: Ints, parent: Ints) -> None:
    """Join the atoms of each clause of ``run``, whose literals are ``start[c] : start[c + 1]``.

    ``parent``, [atom], is 0, 1, 2 and so on at first, then the roots.
    """
    for c in run:
        for i in range(start[c] + 1, start[c + 1]):
            _unite(parent, abs(literals[i - 1]) - 1, abs(literals[i]) - 1)
    for a in range(len(parent)):
        parent[a] = _root(parent, a)


@kernel
def join_differing(cl: Clauses, differs: Bytes, parent: Ints32) -> None:
    """Write the root of each differing atom to ``parent``.

    Two differing atoms are connected if a clause or a variable has both.
    """
    for atom in range(len(differs)):
        parent[atom] = atom
    for c in range(len(cl.weight)):
        first = -1
        for p in range(cl.start[c], cl.start[c + 1]):
            atom = cl.literal[p] >> 1
            if differs[atom]:
                _unite(parent, atom, first if first >= 0 else atom)
                first = atom
    for v in range(len(cl.exactly)):
        first = -1
        for atom in range(cl.var_start[v], cl.var_start[v + 1]):
            if differs[atom]:
                _unite(parent, atom, first if first >= 0 else atom)
                first = atom
    for atom in range(len(differs)):
        parent[atom] = _root(parent, atom)
