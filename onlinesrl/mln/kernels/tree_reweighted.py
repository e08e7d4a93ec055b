"""A lower bound of a pairwise cost by sequential tree-reweighted message passing (Kolmogorov 2006).

Messages reparameterise the cost: they move costs from the table of an edge to its variables. The bound is
the sum of the minima of the tables. It is valid for any messages, and sweeps raise it. Only *alive* values
count: the search has pruned the others.
"""

import numpy as np

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.clauses import copy
from onlinesrl.mln.kernels.pairwise_mrf import Pairwise

DESCENTS = 20
"""The most rounds of coordinate descent after rounding."""


class Messages(Frame):
    """Messages, and the tables and states computed from them."""

    value: Ints32  # [slot] each variable's values, the alive ones first
    count: Ints32  # [variable] the number of its alive values
    message: Floats
    unary: Floats  # [slot] the table of the variable plus the messages to it
    excess: Floats  # [slot] the rise of the bound if the variable has this value
    share: Floats  # [variable] the part of its table that each edge to a lower variable gets
    scratch: Floats  # [value] the minimum of each column of a table
    state: Ints32  # [variable] the last rounding


def messages(p: Pairwise) -> Messages:
    """Return zero messages; the values of finite unary cost are alive."""
    slots, n, size = len(p.unary), len(p.start) - 1, np.diff(p.start)
    dead, variable = np.isinf(p.unary), np.repeat(np.arange(n), size)
    return Messages(
        (np.lexsort((dead, variable)) - p.start[variable]).astype(np.int32),
        (size - np.bincount(variable[dead], minlength=n)).astype(np.int32),
        np.zeros(p.message_start[-1]),
        p.unary.copy(),
        np.zeros(slots),
        np.zeros(n),
        np.zeros(int(size.max(initial=1))),
        np.zeros(n, np.int32),
    )


@kernel
def kill(p: Pairwise, t: Messages, v: int, i: int) -> None:
    """Prune the ``i``-th alive value of a variable."""
    last = p.start[v] + t.count[v] - 1
    at = p.start[v] + i
    t.value[at], t.value[last] = t.value[last], t.value[at]
    t.count[v] -= 1


@kernel
def reparameterise(p: Pairwise, t: Messages) -> None:
    """Write the sums of the variables' tables and the messages to them."""
    copy(p.unary, t.unary)
    for e in range(len(p.low)):
        m = p.message_start[e]
        for v in (p.low[e], p.high[e]):
            for slot in range(p.start[v], p.start[v + 1]):
                t.unary[slot] += t.message[m]
                m += 1


@kernel
def _send(p: Pairwise, t: Messages, e: int, upward: bool, share: float) -> None:
    """Update an edge's message to its higher variable, or to its lower one; its minimum is 0."""
    columns = p.start[p.high[e] + 1] - p.start[p.high[e]]
    to_low = p.message_start[e]
    to_high = p.message_start[e + 1] - columns
    if upward:
        sender, receiver, sent, back = p.low[e], p.high[e], to_high, to_low
        step_x, step_y = columns, 1
    else:
        sender, receiver, sent, back = p.high[e], p.low[e], to_low, to_high
        step_x, step_y = 1, columns
    s, r, cell = p.start[sender], p.start[receiver], p.table_start[e]
    least = np.inf
    for j in range(t.count[receiver]):
        y = t.value[r + j]
        best = np.inf
        for i in range(t.count[sender]):
            x = t.value[s + i]
            cost = share * t.unary[s + x] - t.message[back + x]
            best = min(best, cost + p.table[cell + x * step_x + y * step_y])
        t.unary[r + y] += best - t.message[sent + y]
        t.message[sent + y] = best
        least = min(least, best)
    for j in range(t.count[receiver]):
        y = t.value[r + j]
        t.message[sent + y] -= least
        t.unary[r + y] -= least


@kernel
def sweep(p: Pairwise, t: Messages, upward: bool) -> None:
    """Send all messages from lower to higher variables, or the other way."""
    n = len(t.share)
    for i in range(n):
        v = i if upward else n - 1 - i
        edges = p.arc_start[v + 1] - p.arc_start[v]
        ahead = 0
        for k in range(p.arc_start[v], p.arc_start[v + 1]):
            ahead += (p.low[p.arc[k]] == v) == upward
        t.share[v] = 1 / max(ahead, edges - ahead, 1)
        for k in range(p.arc_start[v], p.arc_start[v + 1]):
            if (p.low[p.arc[k]] == v) == upward:
                _send(p, t, p.arc[k], upward, t.share[v])


@kernel
def bound(p: Pairwise, t: Messages) -> float:
    """Return the lower bound after a downward sweep, and write each value's ``excess`` over it.

    Each edge has the share of its higher variable's table from the sweep; the variable has the remainder.
    """
    total = 0.0
    for v in range(len(t.share)):
        remainder = 1.0
        for k in range(p.arc_start[v], p.arc_start[v + 1]):
            if p.high[p.arc[k]] == v:
                remainder -= t.share[v]
        least = np.inf
        for i in range(t.count[v]):
            least = min(least, remainder * t.unary[p.start[v] + t.value[p.start[v] + i]])
        for i in range(t.count[v]):
            slot = p.start[v] + t.value[p.start[v] + i]
            t.excess[slot] = remainder * t.unary[slot] - least
        total += least
    for e in range(len(p.low)):  # the table of the edge with its share of the higher variable's
        low, high = p.low[e], p.high[e]
        a, b = p.start[low], p.start[high]
        rows, columns = p.start[low + 1] - a, p.start[high + 1] - b
        m, share = p.message_start[e], t.share[high]
        for j in range(t.count[high]):
            t.scratch[j] = np.inf
        least = np.inf
        for i in range(t.count[low]):
            x = t.value[a + i]
            cell = p.table_start[e] + x * columns
            best = np.inf
            for j in range(t.count[high]):
                y = t.value[b + j]
                own = share * t.unary[b + y] - t.message[m + rows + y]
                cost = p.table[cell + y] - t.message[m + x] + own
                best = min(best, cost)
                t.scratch[j] = min(t.scratch[j], cost)
            t.excess[a + x] += best
            least = min(least, best)
        for i in range(t.count[low]):
            t.excess[a + t.value[a + i]] -= least
        for j in range(t.count[high]):
            t.excess[b + t.value[b + j]] += t.scratch[j] - least
        total += least
    return total


@kernel
def local(p: Pairwise, t: Messages, v: int, x: int, rounding: bool) -> float:
    """Return the cost of a variable's value, given the others' values.

    When ``rounding``, higher variables have no values yet, and their messages stand for them.
    """
    total = p.unary[p.start[v] + x]
    for k in range(p.arc_start[v], p.arc_start[v + 1]):
        e = p.arc[k]
        b = p.high[e]
        columns = p.start[b + 1] - p.start[b]
        if b == v:
            total += p.table[p.table_start[e] + t.state[p.low[e]] * columns + x]
        elif rounding:
            total += t.message[p.message_start[e] + x]
        else:
            total += p.table[p.table_start[e] + x * columns + t.state[b]]
    return total


@kernel
def _settle(p: Pairwise, t: Messages, v: int, rounding: bool) -> bool:
    """Give a variable its cheapest value that is alive; returns whether it changed."""
    old = t.state[v]
    best, least = old, np.inf if rounding else local(p, t, v, old, False)
    for i in range(t.count[v]):
        x = t.value[p.start[v] + i]
        cost = local(p, t, v, x, rounding)
        if cost < least:
            best, least = x, cost
    t.state[v] = best
    return best != old


@kernel
def round_off(p: Pairwise, t: Messages) -> None:
    """Round the messages to a state, improve it by coordinate descent, and write it to ``t.state``."""
    for v in range(len(t.state)):
        _settle(p, t, v, True)
    for _ in range(DESCENTS):
        changed = False
        for v in range(len(t.state)):
            changed |= _settle(p, t, v, False)
        if not changed:
            return
