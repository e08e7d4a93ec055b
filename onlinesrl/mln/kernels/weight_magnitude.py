"""The size of a world's weights, and whether sums of doubles keep the smallest one."""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.ground_network import ATOMS, ROWS, Network

UNIT = 2.0**-52
"""The relative distance of doubles."""
LARGE = 2.0**22
"""Sums of absolute weights up to this are exact to a billionth."""
FAINT = 1e-4
"""A rounding error below this hides no weight."""
STEEP = 2.0**12
"""Weights up to this are compared in doubles for probabilities."""
HIGHEST = 1e300
"""Sums of absolute weights from here on may leave the range of doubles."""


@kernel
def total(net: Network, weight: Floats) -> float:
    """Return the sum of the absolute weights, [ground clause], of the soft clauses."""
    total_weight = 0.0
    for r in range(net.size[ROWS]):
        if net.row_weight[r] >= 0:
            for g in range(net.clause_start[r], net.clause_start[r + 1]):
                total_weight += abs(weight[g])
    return total_weight


@kernel
def lost(net: Network, weight: Floats, total: float, cost: Floats, augmented: bool) -> bool:
    """Return whether the smallest weight but 0 may be lost in sums; ``total`` is the sum of their sizes.

    If ``augmented``, the label losses, ``cost`` [atom], count as weights, too.
    """
    if total <= LARGE:
        return False
    if augmented:
        for a in range(net.size[ATOMS]):
            total += cost[a]
    terms = net.clause_start[net.size[ROWS]] + net.size[ATOMS] + 1
    hidden = terms * UNIT * total
    if hidden < FAINT:
        return False
    least = np.inf
    for r in range(net.size[ROWS]):
        if net.row_weight[r] >= 0:
            for g in range(net.clause_start[r], net.clause_start[r + 1]):
                if weight[g] != 0.0:
                    least = min(least, abs(weight[g]))
    if augmented:
        for a in range(net.size[ATOMS]):
            if cost[a] > 0.0:
                least = min(least, cost[a])
    return hidden >= least / 2


@kernel
def largest(net: Network, weight: Floats) -> int:
    """Return the clause number of the soft clause of the largest weight; NaN counts as the largest."""
    clause, most = -1, -1.0
    for r in range(net.size[ROWS]):
        if net.row_weight[r] >= 0:
            for g in range(net.clause_start[r], net.clause_start[r + 1]):
                size = np.inf if np.isnan(weight[g]) else abs(weight[g])
                if size > most:
                    clause, most = net.row_clause[r], size
    return clause
