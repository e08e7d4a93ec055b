"""The size of a world's weights, and whether sums of doubles are fine enough to certify an answer."""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.ground_network import ATOMS, ROWS, Network

UNIT = 2.0**-52
"""The relative distance of doubles."""
TOLERANCE = 1e-3
"""Sums whose rounding is at most this may certify an answer."""
SAFE = 2.0**20
"""Weights up to this are never refused."""
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
def fine(net: Network, total: float) -> bool:
    """Return whether the rounding of any sum of the network's weights is at most ``TOLERANCE``.

    ``total`` is the sum of their absolute values. A sum of n doubles, in whatever order, has an error of at
    most n ``UNIT`` times that (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, equation 4.4).
    """
    terms = net.clause_start[net.size[ROWS]] + net.size[ATOMS] + 1
    return terms * UNIT * total <= TOLERANCE


@kernel
def largest(net: Network, weight: Floats) -> tuple[int, float]:
    """Return the clause number of the soft clause of the largest weight, and its size; NaN is the largest."""
    clause, most = -1, -1.0
    for r in range(net.size[ROWS]):
        if net.row_weight[r] >= 0:
            for g in range(net.clause_start[r], net.clause_start[r + 1]):
                size = np.inf if np.isnan(weight[g]) else abs(weight[g])
                if size > most:
                    clause, most = net.row_clause[r], size
    return clause, most


@kernel
def beyond(net: Network, weight: Floats, total: float) -> bool:
    """Return whether a network is refused: its sums are not fine, and that is due to a large weight."""
    return not fine(net, total) and largest(net, weight)[1] > SAFE
