"""The states of least pairwise cost: depth-first branch and bound with message passing at each node.

A node of the search tree restricts the values of variables. Any messages give a valid bound, so sweeps
start from the messages of the previous node. A node whose bound reaches the cost of the last of the n best
states is pruned. So is a value whose reduced cost reaches it, in the node and below. A node branches on the
variable with the most edges per value: first on its best value, then on all others. A search goes on where it
stood.

No two of the n best states agree on all *visible* values. So a node branches first on the variables with such
values. Below them, a node must exceed the state that has the same visible values. One search for all of them
is depth-first branch and bound for m best solutions (Dechter, Flerova & Marinescu 2012).
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.clauses import copy
from onlinesrl.mln.kernels.pairwise_mrf import Pairwise, cost
from onlinesrl.mln.kernels.tree_reweighted import (
    Messages,
    bound,
    kill,
    local,
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
"""Nodes are pruned that may improve a cost by less than this, relative to that cost."""
FOUND, ROOT = 0, 1
DEPTH, DEATHS, WORK, SWEPT = 0, 1, 2, 3


class Tree(Frame):
    """Scratch memory: the path from the root, and the best states so far."""

    killed: Annotated[Ints32, "value"]  # the variables of the values pruned on the path, in order
    deaths: Annotated[Ints, "variable + 1"]  # the number of pruned values before the branch
    branch: Annotated[Ints32, "variable + 1, 2"]  # the variable and its first value
    # depth, deaths, the table cells read so far, 1: the root's sweeps have ended
    size: Annotated[Ints, "4"]
    visible: Bytes  # [slot]
    best: Ints32  # [state, variable]
    cost: Floats  # [state] rising; inf: no such state so far
    value: Floats  # the cost that states must be below, the bound at the root


def tree(p: Pairwise, n: int, visible: Bytes) -> Tree:
    """Return scratch memory for a search of the ``n`` best states; ``visible`` is uint8[slot]."""
    fields = {
        "visible": visible,
        "best": np.zeros((n, len(p.start) - 1), np.int32),
        "cost": np.full(n, np.inf),
        "value": np.array([np.inf, -np.inf]),
    }
    return Tree.zeros(fields, value=len(p.unary), variable=len(p.start) - 1)


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
def _place(p: Pairwise, t: Messages, s: Tree) -> int:
    """Return the place of a best state with the visible values of ``t.state``, else a free or the last."""
    for i in range(len(s.cost) - 1):
        if s.cost[i] == np.inf:
            return i
        same = True
        for v in range(len(t.state)):
            x, y = t.state[v], s.best[i, v]
            if x != y and (s.visible[p.start[v] + x] or s.visible[p.start[v] + y]):
                same = False
                break
        if same:
            return i
    return len(s.cost) - 1


@kernel
def _keep(p: Pairwise, t: Messages, s: Tree) -> None:
    """Remember the state ``t.state`` where it is one of the best so far."""
    value = cost(p, t.state)
    if value >= s.value[FOUND]:
        return
    i = _place(p, t, s)
    s.size[WORK] += i * len(t.state)
    if value >= s.cost[i]:
        return
    while i > 0 and s.cost[i - 1] > value:
        s.cost[i] = s.cost[i - 1]
        copy(s.best[i - 1], s.best[i])
        i -= 1
    s.cost[i] = value
    copy(t.state, s.best[i])
    s.value[FOUND] = min(s.value[FOUND], s.cost[len(s.cost) - 1])


@kernel
def _visible(p: Pairwise, t: Messages, s: Tree, v: int) -> bool:
    """Return whether the alive values of a variable can be told apart."""
    for i in range(t.count[v] if t.count[v] > 1 else 0):
        if s.visible[p.start[v] + t.value[p.start[v] + i]]:
            return True
    return False


@kernel
def _round(p: Pairwise, t: Messages, s: Tree) -> None:
    """Round the messages to a state; remember it, and those that differ in one visible value."""
    round_off(p, t)
    _keep(p, t, s)
    if len(s.cost) == 1:
        return
    value = cost(p, t.state)
    for v in range(len(t.count)):
        if not _visible(p, t, s, v):
            continue
        x = t.state[v]
        rest = value - local(p, t, v, x, False)
        for i in range(t.count[v]):
            y = t.value[p.start[v] + i]
            if y != x and rest + local(p, t, v, y, False) < s.value[FOUND]:
                t.state[v] = y
                _keep(p, t, s)
                t.state[v] = x


@kernel
def _choose(p: Pairwise, t: Messages, s: Tree) -> int:
    """Return the variable with the most edges per value, a visible one if any; -1: none has two values."""
    variable, most, seen = -1, -1.0, False
    for v in range(len(t.count)):
        if t.count[v] > 1:
            visible, edges = _visible(p, t, s, v), p.arc_start[v + 1] - p.arc_start[v]
            if visible > seen or (visible == seen and edges / t.count[v] > most):
                variable, most, seen = v, edges / t.count[v], visible
    return variable


@kernel
def _most(p: Pairwise, t: Messages, s: Tree) -> float:
    """Return the cost that the states of a node must be below."""
    v = _choose(p, t, s)
    if v >= 0 and _visible(p, t, s, v):
        return s.value[FOUND]
    for v in range(len(t.count)):
        t.state[v] = t.value[p.start[v]]
    return min(s.value[FOUND], s.cost[_place(p, t, s)])


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
            s.value[ROOT] = max(s.value[ROOT], min(lowest, s.value[FOUND], s.cost[0]))
        most = _most(p, t, s)
        gap = most - TOLERANCE * max(1.0, abs(most)) - lowest
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
    """Write the states of least cost to ``s.best`` and ``s.cost``; returns PROVEN or LIMIT.

    LIMIT: the search has read ``most_work`` table cells since it began; the best states so far are written.
    Called again with more work, it goes on from there. ``s.value[FOUND]`` may be lowered before, to the cost
    of a state that is known otherwise: the search then looks for a better one.
    """
    while s.size[WORK] <= most_work:
        branches = _open(p, t, s, most_work)
        if not s.size[SWEPT]:
            continue
        v = _choose(p, t, s) if branches else -1
        if branches and v < 0:  # sweeps left a single state, which may not have been rounded to
            _round(p, t, s)
        if v >= 0:
            _descend(p, t, s, v)
        elif s.size[DEPTH] > 0:
            _backtrack(p, t, s)
        else:
            return PROVEN
    return LIMIT
