"""The curvature of the pseudo-likelihood, unit by unit, taken off the covariance of the weights.

A unit is an open atom, or a group of which one is true at most. Beside the true values of all others, its
label is one of two outcomes: the truth, or some other value. With x = f(truth) - E[f | another value] and
m = log P(truth) / P(another value), it has the loss log(1 + exp(-m)) of logistic regression, and its
information is h x x'. The steps of the example are implicit, so h is the mean of P (1 - P) on the way from m
to the root z of z - m = v (1 - sigmoid(z)), v = x'S x.
"""

import math

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.kernels.averaging import clear_gap
from onlinesrl.core.kernels.covariance import (
    Covariance,
    implicit_root,
    multiply,
    reduce,
    sigmoid,
)
from onlinesrl.mln.kernels.elimination_order import values
from onlinesrl.mln.kernels.ground_network import (
    ATOMS,
    OPEN,
    ROWS,
    VARIABLES,
    Network,
    clause_true,
    define,
)
from onlinesrl.mln.kernels.weight_lookup import Weights, add_gap, may_change

UNITS = 64
"""Of more units of an example every n-th stands for all, with n times its information."""
NEAR = 1e-6
"""On a way shorter than this the mean of P (1 - P) is that at its end."""
LEAST = 1e-12
"""The least information of a unit, so that what is certain is not forgotten to be so by rounding."""


@kernel
def labels(net: Network, truth: Bytes) -> tuple[int, int]:
    """Return how many units have labels, and the value slot of the last one's truth.

    That of a group of which some atoms are unlabelled is -1.
    """
    count, slot = 0, -1
    for v in range(net.size[VARIABLES]):
        first, labelled, latent, value = net.var_start[v], 0, 0, 0
        for a in range(first, net.var_start[v + 1]):
            if net.fixed[a] == OPEN:
                labelled += 1 - int(net.latent[a])
                latent += int(net.latent[a])
            if truth[a]:
                value = a - first + 1
        if labelled > 0:
            count += 1
            slot = first + v + value if latent == 0 else -1
    return count, slot


@kernel
def probability_of_others(net: Network, slot: int, unary: Floats) -> float:
    """Return the probability that a unit has another value than that of a slot; ``unary`` has marginals."""
    total = 0.0
    for v in range(net.size[VARIABLES]):
        first, stop = net.var_start[v] + v, net.var_start[v + 1] + v + 1
        if first <= slot < stop:
            for other in range(first, stop):
                if other != slot:
                    total += unary[other]
    return total


@kernel
def _labelled(net: Network, v: int) -> bool:
    """Tell whether a variable has a labelled open atom."""
    for a in range(net.var_start[v], net.var_start[v + 1]):
        if net.fixed[a] == OPEN and not net.latent[a]:
            return True
    return False


@kernel
def _set(net: Network, v: int, value: int, state: Bytes) -> bool:
    """Give a variable a value, and defined atoms theirs; False: evidence or its group excludes the value."""
    first, possible = net.var_start[v], value > 0 or not net.exactly[v]
    for a in range(first, net.var_start[v + 1]):
        true = a - first + 1 == value
        if state[a] != true and net.fixed[a] != OPEN:
            possible = False
        state[a] = true
    define(net, state)
    return possible


@kernel
def _breaks(net: Network, state: Bytes) -> bool:
    """Tell whether a state breaks a hard clause of an atom that differs in the last ``add_gap``."""
    for r in range(net.size[ROWS]):
        if net.row_weight[r] < 0 and may_change(net, r):
            for k in range(net.row_len[r]):
                if not clause_true(net, r, k, state):
                    return True
    return False


@kernel
def _ahead(w: Weights, n: int) -> float:
    """Return the product of the present weights and the gap."""
    total = 0.0
    for j in range(n):
        i = w.touched[j]
        total += (w.value[i, 0] + w.value[i, 1]) * w.delta[j]
    return total


@kernel
def _rival(
    net: Network, w: Weights, v: int, value: int, truth: Bytes, rival: Bytes, n: int, share: float
) -> tuple[int, bool]:
    """Add ``share`` (f(truth) - f(rival)) to the gap, where v has another value; returns its weights.

    ``rival`` is equal to ``truth``, and will be again. False: hard clauses or evidence exclude the value.
    """
    current = 0
    for a in range(net.var_start[v], net.var_start[v + 1]):
        if truth[a]:
            current = a - net.var_start[v] + 1
    possible = value != current and _set(net, v, value, rival)
    if possible:
        n, _, _ = add_gap(net, w, truth, rival, n, share)
        possible = not _breaks(net, rival)
    _set(net, v, current, rival)
    return n, possible


@kernel
def _against_others(
    net: Network, w: Weights, v: int, truth: Bytes, rival: Bytes, score: Floats
) -> tuple[int, float]:
    """Set the gap to f(truth) - E[f | another value of v]; return its weights, and m.

    ``score`` [value slot] is working memory. m is infinite where there is no other value.
    """
    first, top, total = net.var_start[v] + v, -np.inf, 0.0
    for value in range(values(net, v)):
        n, possible = _rival(net, w, v, value, truth, rival, 0, 1.0)
        score[first + value] = -_ahead(w, n) if possible else -np.inf
        clear_gap(w, n)
        top = max(top, score[first + value])
    if top == -np.inf:
        return 0, np.inf
    for value in range(values(net, v)):
        total += math.exp(score[first + value] - top)
    n = 0
    for value in range(values(net, v)):
        share = math.exp(score[first + value] - top) / total
        if share > 0.0:
            n, _ = _rival(net, w, v, value, truth, rival, n, share)
    return n, -(top + math.log(total))


@kernel
def reduce_by_units(
    net: Network,
    w: Weights,
    c: Covariance,
    truth: Bytes,
    rival: Bytes,
    score: Floats,
    units: int,
) -> None:
    """Take the information of an example of so many labelled ``units`` off the covariance.

    ``rival`` [atom] and ``score`` [value slot] are working memory; the gap is empty before and after.
    """
    for a in range(net.size[ATOMS]):
        rival[a] = truth[a]
    every, unit = (units + UNITS - 1) // UNITS, 0
    for u in range(net.size[VARIABLES]):
        if not _labelled(net, u):
            continue
        unit += 1
        if unit % every != 0:
            continue
        n, m = _against_others(net, w, u, truth, rival, score)
        if n > 0 and m < np.inf:
            v = multiply(c, w.touched, w.delta, n)
            z = -implicit_root(-m, v)
            h = sigmoid(z) * sigmoid(-z)
            if z - m > NEAR:
                h = (sigmoid(-m) - sigmoid(-z)) / (z - m)
            reduce(c, w.touched, w.delta, n, v, every * max(h, LEAST))
        clear_gap(w, n)
