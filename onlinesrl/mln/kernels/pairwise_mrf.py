"""A cost over multi-valued variables, to be minimised: one table per variable and per edge.

``add_clauses`` writes weighted clauses as such tables, up to constants. A clause over one or two variables
is a cost of the values that make it false. A clause over more gets a variable of its own, whose value says
which member makes it true, or that none does. With a positive weight the value "none" costs; with a negative
weight all other values do.
"""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame


class Pairwise(Frame):
    """The tables. Edge ``e`` joins the variables ``low[e] < high[e]``."""

    start: Ints  # [variable + 1] its first value, a slot
    unary: Floats  # [slot]
    low: Ints32  # [edge]
    high: Ints32  # [edge]
    table_start: Ints  # [edge + 1]
    table: Floats  # [cell] the higher variable's value changes fastest
    arc_start: Ints  # [variable + 1]
    arc: Ints32  # the edges of each variable
    message_start: Ints  # [edge + 1] first message to its lower variable, then those to its higher


class Members(Frame):
    """The variables of clauses, and the values that make the clauses true."""

    clause_start: Ints  # [clause + 1] its first member, in order of the variables
    variable: Ints32  # [member]
    true_start: Ints  # [member + 1]
    true: Bytes  # [value of a member] 1: the clause is true
    edge: Ints  # [clause] its edge, or the first edge of its own variable; -1: it is over one variable
    own: Ints32  # [clause] its own variable, -1: none


def pairwise(size: Ints, low: Ints32, high: Ints32) -> Pairwise:
    """Return tables of zeros for variables with so many values, and these edges."""
    n, edges = len(size), len(low)
    ends = np.concatenate((low, high))
    order = np.argsort(ends, kind="stable")

    def starts(lengths: Ints) -> Ints:
        return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

    start, table_start = starts(size), starts(size[low] * size[high])
    return Pairwise(
        start=start,
        unary=np.zeros(start[-1]),
        low=low,
        high=high,
        table_start=table_start,
        table=np.zeros(table_start[-1]),
        arc_start=starts(np.bincount(ends, minlength=n)),
        arc=(order % max(edges, 1)).astype(np.int32),
        message_start=starts(size[low] + size[high]),
    )


@kernel
def _add_pair(p: Pairwise, m: Members, c: int, weight: float) -> None:
    """Add the cost of a false clause over two variables."""
    i = m.clause_start[c]
    a, b = m.true_start[i], m.true_start[i + 1]
    columns = m.true_start[i + 2] - b
    for x in range(b - a):
        if not m.true[a + x]:
            cell = p.table_start[m.edge[c]] + x * columns
            for y in range(columns):
                if not m.true[b + y]:
                    p.table[cell + y] += weight


@kernel
def _add_long(p: Pairwise, m: Members, c: int, weight: float, never: float) -> None:
    """Write a clause over three or more variables by means of its own variable."""
    first, members = m.clause_start[c], m.clause_start[c + 1] - m.clause_start[c]
    first_state = p.start[m.own[c]]
    if weight < 0:
        p.unary[first_state] -= weight
    else:
        p.unary[first_state + members] += weight
    for i in range(members):
        e = m.edge[c] + i
        true = m.true_start[first + i]
        columns = 2 if weight < 0 else members + 1
        y = 1 if weight < 0 else i  # none is true; this one is
        for x in range(m.true_start[first + i + 1] - true):
            if m.true[true + x] == (y == 1 if weight < 0 else 0):
                p.table[p.table_start[e] + x * columns + y] += never


@kernel
def add_clauses(p: Pairwise, m: Members, weight: Floats, never: float) -> None:
    """Add the costs of clauses by these weights, [clause]; hard clauses have the weight ``never``.

    ``never`` exceeds the difference of any two states that satisfy the hard clauses.
    """
    for c in range(len(weight)):
        first = m.clause_start[c]
        members = m.clause_start[c + 1] - first
        if members == 1:
            slot = p.start[m.variable[first]] - m.true_start[first]
            for x in range(m.true_start[first], m.true_start[first + 1]):
                if not m.true[x]:
                    p.unary[slot + x] += weight[c]
        elif members == 2:
            _add_pair(p, m, c, weight[c])
        elif members > 2:
            _add_long(p, m, c, weight[c], never)


@kernel
def cost(p: Pairwise, state: Ints32) -> float:
    """Return the cost of a state, [variable]."""
    total = 0.0
    for v in range(len(state)):
        total += p.unary[p.start[v] + state[v]]
    for e in range(len(p.low)):
        a, b = p.low[e], p.high[e]
        columns = p.start[b + 1] - p.start[b]
        total += p.table[p.table_start[e] + state[a] * columns + state[b]]
    return total
