"""Exact minimisation of a pairwise cost: depth-first branch and bound with message passing at each node.

A node of the search tree restricts the values of variables. Any messages give a valid bound, so sweeps
start from the messages of the previous node. A node whose bound reaches the cost of the best state is
pruned. So is a value whose reduced cost reaches it, in the node and below. A node branches on the variable
with the most edges per value: first on its best value, then on all others. A search goes on where it stood.
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.clauses import copy
from onlinesrl.mln.kernels.pairwise_mrf import Pairwise, cost
from onlinesrl.mln.kernels.tree_reweighted import (
    Messages,
    bound,
    kill,
    reparameterise,
    round_off,
    sweep,
)

PROVEN, LIMIT = 0, 1
ROOT_SWEEPS, SWEEPS = 100, 3
"""The most pairs of sweeps in the root, and in other nodes."""
LEAST_GAIN = 0.1
"""Sweeps end when the bound rises by less than this part of the gap."""
TOLERANCE = 1e-9
"""Nodes are pruned that may improve the best cost by less than this, relative to that cost."""
FOUND, ROOT = 0, 1
DEPTH, DEATHS, WORK, SWEPT = 0, 1, 2, 3


class Tree(Frame):
    """Scratch memory: the path from the root, and the best state so far."""

    killed: Annotated[Ints32, "value"]  # the variables of the values pruned on the path, in order
    deaths: Annotated[Ints, "variable + 1"]  # the number of pruned values before the branch
    branch: Annotated[Ints32, "variable + 1, 2"]  # the variable and its first value
    # depth, deaths, the table cells read so far, 1: the root's sweeps have ended
    size: Annotated[Ints, "4"]
    best: Annotated[Ints32, "variable"]
    value: Floats  # the cost of the best state, the bound at the root


def tree(p: Pairwise) -> Tree:
    """Return scratch memory for a search."""
    bounds = {"value": np.array([np.inf, -np.inf])}
    return Tree.zeros(bounds, value=len(p.unary), variable=len(p.start) - 1)


@kernel
def _kill(p: Pairwise, t: Messages, s: Tree, v: int, i: int) -> None:
    """Prune the ``i``-th value of a variable, and note it on the path."""
    kill(p, t, v, i)
    s.killed[s.size[DEATHS]] = v
    s.size[DEATHS] += 1


@kernel
def _filter(p: Pairwise, t: Messages, s: Tree, most: float) -> int:
    """Prune the values with an excess of ``most`` or more; returns how many, -1: all of some variable."""
    before = s.size[DEATHS]
    for v in range(len(t.count)):
        for i in range(t.count[v] - 1, -1, -1):
            if t.excess[p.start[v] + t.value[p.start[v] + i]] >= most:
                _kill(p, t, s, v, i)
        if t.count[v] == 0:
            return -1
    return s.size[DEATHS] - before


@kernel
def _round(p: Pairwise, t: Messages, s: Tree) -> None:
    """Round the messages to a state, and remember it where it is the best so far."""
    round_off(p, t)
    value = cost(p, t.state)
    if value < s.value[FOUND]:
        s.value[FOUND] = value
        copy(t.state, s.best)


@kernel
def _open(p: Pairwise, t: Messages, s: Tree, most_work: int) -> bool:
    """Bound a node by its remaining values; returns whether it must branch, or the root be swept again."""
    root = not s.size[SWEPT]
    reparameterise(p, t)
    last = -np.inf
    for i in range(ROOT_SWEEPS if root else SWEEPS):
        if root and s.size[WORK] > most_work:
            return True
        sweep(p, t, True)
        sweep(p, t, False)
        s.size[WORK] += len(p.table) + len(p.unary)
        lowest = bound(p, t)
        if root or i == 0:
            _round(p, t, s)
        if root:
            s.value[ROOT] = max(s.value[ROOT], min(lowest, s.value[FOUND]))
        gap = s.value[FOUND] - TOLERANCE * max(1.0, abs(s.value[FOUND])) - lowest
        killed = _filter(p, t, s, gap)
        if gap <= 0 or killed < 0:
            s.size[SWEPT] = 1
            return False
        if killed == 0 and i > 0 and lowest - last < LEAST_GAIN * gap:
            break
        last = lowest
    s.size[SWEPT] = 1
    return True


@kernel
def _choose(p: Pairwise, t: Messages) -> int:
    """Return the variable with the most edges per value; -1: each has a single value."""
    variable, most = -1, -1.0
    for v in range(len(t.count)):
        edges = p.arc_start[v + 1] - p.arc_start[v]
        if t.count[v] > 1 and edges / t.count[v] > most:
            variable, most = v, edges / t.count[v]
    return variable


@kernel
def _descend(p: Pairwise, t: Messages, s: Tree, v: int) -> None:
    """Branch on a variable: keep only its value of least excess."""
    first, best = p.start[v], 0
    for i in range(t.count[v]):
        if t.excess[first + t.value[first + i]] < t.excess[first + t.value[first + best]]:
            best = i
    depth = s.size[DEPTH]
    s.deaths[depth] = s.size[DEATHS]
    s.branch[depth, 0], s.branch[depth, 1] = v, t.value[first + best]
    s.size[DEPTH] += 1
    for i in range(t.count[v] - 1, -1, -1):
        if t.value[first + i] != s.branch[depth, 1]:
            _kill(p, t, s, v, i)


@kernel
def _backtrack(p: Pairwise, t: Messages, s: Tree) -> None:
    """Go back to the last branch, and prune the value that it kept."""
    s.size[DEPTH] -= 1
    depth = s.size[DEPTH]
    while s.size[DEATHS] > s.deaths[depth]:
        s.size[DEATHS] -= 1
        t.count[s.killed[s.size[DEATHS]]] += 1
    v = s.branch[depth, 0]
    for i in range(t.count[v] - 1, -1, -1):
        if t.value[p.start[v] + i] == s.branch[depth, 1]:
            _kill(p, t, s, v, i)


@kernel
def search(p: Pairwise, t: Messages, s: Tree, most_work: int) -> int:
    """Write the state of least cost to ``s.best`` and ``s.value``; returns PROVEN or LIMIT.

    LIMIT: the search has read ``most_work`` table cells since it began; the best state so far is written.
    Called again with more work, it goes on from there. ``s.value[FOUND]`` may be lowered before, to the cost
    of a state that is known otherwise: the search then looks for a better one.
    """
    while s.size[WORK] <= most_work:
        branches = _open(p, t, s, most_work)
        if not s.size[SWEPT]:
            continue
        v = _choose(p, t) if branches else -1
        if branches and v < 0:  # sweeps left a single state, which may not have been rounded to
            _round(p, t, s)
        if v >= 0:
            _descend(p, t, s, v)
        elif s.size[DEPTH] > 0:
            _backtrack(p, t, s)
        else:
            return PROVEN
    return LIMIT
