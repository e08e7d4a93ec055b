"""The curvature of the pseudo-likelihood, unit by unit, taken off the covariance of the weights.

A unit is an open atom, or a group of which one is true at most. Beside the true values of all others, its
label is one of two outcomes: the truth, or some other value. With x = f(truth) - E[f | another value] and
m = log P(truth) / P(another value), it has the loss log(1 + exp(-m)) of logistic regression, and its
information is h x x'. The steps of the example are implicit, so h is the mean of P (1 - P) on the way from m
to the score z after the unit. Units are taken one after the other: those before it have moved the weights by
b, so that z is the root of z - m - x'b = v (1 - sigmoid(z)), v = x'S x, and it moves them by S x (1 -
sigmoid(z)). Where each has its h beside the weights before the example, many that are alike are believed to
tell too much, and the step is too short. The mean on the way is what the step needs. It is larger than
h at the end of the way, so that after a long step the variance of the weight is too small.
"""

import math
from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.averaging import add, clear_gap
from onlinesrl.core.kernels.covariance import (
    SLOTS,
    Covariance,
    implicit_root,
    move,
    multiply,
    reduce,
    settle,
    sigmoid,
)
from onlinesrl.mln.kernels.elimination_order import values
from onlinesrl.mln.kernels.ground_network import DEFINED, OPEN, ROWS, VARIABLES, Network
from onlinesrl.mln.kernels.weight_lookup import Weights


class UnitRows(Frame):
    """The rows of ground clauses of each variable, those with its atoms or with atoms defined by them."""

    start: Annotated[Ints32, "atom + 2"]  # [variable + 1] the first place in ``row``
    row: Annotated[Ints32, "entry"]


UNITS = 64
"""Of more units of an example every n-th stands for all, with n times its information."""
NEAR = 1e-6
"""On a way shorter than this the mean of P (1 - P) is that at its end."""
LEAST = 1e-12
"""The least information of a unit, so that what is certain is not forgotten to be so by rounding."""


@kernel
def _note(net: Network, rows: UnitRows, v: int, r: int, fills: bool) -> None:
    """Count row r among those of v, or write it there, unless it was the last one already."""
    if net.differ[v] != r:
        net.differ[v] = r
        if fills:
            rows.row[rows.start[v + 1]] = r
            rows.start[v + 1] += 1
        else:
            rows.start[v + 2] += 1


@kernel
def list_rows(net: Network, rows: UnitRows) -> bool:
    """Write the rows of each variable, by counting and then writing them; False: there is no room."""
    variables = net.size[VARIABLES]
    rows.start[: variables + 2] = 0
    for fills in range(2):
        net.differ[:variables] = -1  # the last row of each variable
        for r in range(net.size[ROWS]):
            for p in range(net.lit_start[r], net.lit_start[r + 1]):
                for k in range(net.row_len[r]):
                    a = net.lit_atom[p] + k * net.lit_step[p]
                    if net.fixed[a] == DEFINED:
                        for q in range(
                            net.lit_start[net.key[a]] + 1, net.lit_start[net.key[a] + 1]
                        ):
                            _note(net, rows, net.var_of[net.lit_atom[q]], r, fills > 0)
                    else:
                        _note(net, rows, net.var_of[a], r, fills > 0)
        if fills == 0:
            for v in range(variables):
                rows.start[v + 2] += rows.start[v + 1]
            if rows.start[variables + 1] > len(rows.row):
                return False
    return True


@kernel
def _value(net: Network, v: int, truth: Bytes) -> int:
    """Return the value of a variable."""
    first, value = net.var_start[v], 0
    for a in range(first, net.var_start[v + 1]):
        if truth[a]:
            value = a - first + 1
    return value


@kernel
def labels(net: Network, truth: Bytes) -> tuple[int, int]:
    """Return how many units have labels, and the value slot of the last one's truth.

    That of a group of which some atoms are unlabelled is -1.
    """
    count, slot = 0, -1
    for v in range(net.size[VARIABLES]):
        first, labelled, latent = net.var_start[v], 0, 0
        for a in range(first, net.var_start[v + 1]):
            if net.fixed[a] == OPEN:
                labelled += 1 - int(net.latent[a])
                latent += int(net.latent[a])
        if labelled > 0:
            count += 1
            slot = first + v + _value(net, v, truth) if latent == 0 else -1
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
def _possible(net: Network, v: int, value: int, true: int) -> bool:
    """Tell whether a variable may have another value than its ``true`` one by evidence and its group."""
    last = net.var_start[v] - 1  # the atom of a value is this plus the value
    return (
        value != true
        and (value > 0 or not net.exactly[v])
        and (value == 0 or net.fixed[last + value] == OPEN)
        and (true == 0 or net.fixed[last + true] == OPEN)
    )


@kernel
def _decided(net: Network, v: int, r: int, k: int, truth: Bytes) -> bool:
    """Tell whether clause k of row r holds by an atom that does not depend on v."""
    for p in range(net.lit_start[r], net.lit_start[r + 1]):
        a = net.lit_atom[p] + k * net.lit_step[p]
        if truth[a] == net.lit_positive[p] and net.var_of[a] != v and net.fixed[a] != DEFINED:
            return True
    return False


@kernel
def _true(net: Network, v: int, value: int, a: int, truth: Bytes) -> bool:
    """Return whether an atom that is not defined is true where v has a value."""
    return a == net.var_start[v] + value - 1 if net.var_of[a] == v else truth[a] > 0


@kernel
def _holds(net: Network, v: int, value: int, r: int, k: int, truth: Bytes) -> bool:
    """Tell whether clause k of row r holds where v has a value and all others have their true ones."""
    for p in range(net.lit_start[r], net.lit_start[r + 1]):
        a = net.lit_atom[p] + k * net.lit_step[p]
        if net.fixed[a] != DEFINED:
            true = _true(net, v, value, a, truth)
        else:
            true, row = True, net.key[a]
            for q in range(net.lit_start[row] + 1, net.lit_start[row + 1]):
                true &= _true(net, v, value, net.lit_atom[q], truth) != (net.lit_positive[q] > 0)
        if true == (net.lit_positive[p] > 0):
            return True
    return False


@kernel
def _against_others(
    net: Network, w: Weights, rows: UnitRows, v: int, truth: Bytes, score: Floats
) -> tuple[int, float]:
    """Set the gap to f(truth) - E[f | another value of v]; return its weights, and m.

    ``score`` [value slot] is working memory. m is infinite where there is no other value.
    """
    first, count, label = net.var_start[v] + v, values(net, v), _value(net, v, truth)
    for value in range(count):
        score[first + value] = 0.0 if _possible(net, v, value, label) else -np.inf
    for place in range(rows.start[v], rows.start[v + 1]):
        r = rows.row[place]
        for k in range(net.row_len[r]):
            if _decided(net, v, r, k, truth):
                continue
            holds, i = _holds(net, v, label, r, k, truth), net.row_weight[r] + k * net.row_step[r]
            more = -np.inf if holds else 0.0  # of a hard clause
            if net.row_weight[r] >= 0:
                more = net.row_factor[r] * (w.value[i, 0] + w.value[i, 1])
                more = -more if holds else more
            for value in range(count):
                if score[first + value] > -np.inf and _holds(net, v, value, r, k, truth) != holds:
                    score[first + value] += more
    top, total, n = -np.inf, 0.0, 0
    for value in range(count):
        top = max(top, score[first + value])
    if top == -np.inf:
        return 0, np.inf
    for value in range(count):
        total += math.exp(score[first + value] - top)
    for value in range(count):
        score[first + value] = math.exp(score[first + value] - top) / total
    for place in range(rows.start[v], rows.start[v + 1]):
        r = rows.row[place]
        for k in range(net.row_len[r] if net.row_weight[r] >= 0 else 0):
            if _decided(net, v, r, k, truth):
                continue
            holds, share = _holds(net, v, label, r, k, truth), 0.0
            for value in range(count):
                if score[first + value] > 0.0 and _holds(net, v, value, r, k, truth) != holds:
                    share += score[first + value]
            if share > 0.0:
                x = net.row_factor[r] * (share if holds else -share)
                n = add(w, n, net.row_weight[r] + k * net.row_step[r], x)
    return n, -(top + math.log(total))


@kernel
def _stay(net: Network, c: Covariance, moved: Floats) -> None:
    """Set ``moved`` to 0."""
    for s in range(c.size[SLOTS]):
        moved[c.weight[s]] = 0.0
    for row in range(net.size[ROWS]):
        first = net.row_weight[row]
        for k in range(net.row_len[row] if first >= 0 else 0):
            moved[first + k * net.row_step[row]] = 0.0


@kernel
def reduce_by_units(
    net: Network,
    w: Weights,
    c: Covariance,
    rows: UnitRows,
    truth: Bytes,
    score: Floats,
    moved: Floats,
    units: int,
) -> None:
    """Take the information of an example of so many labelled ``units`` off the covariance.

    ``score`` [value slot] is working memory, as is ``moved`` [weight], how far the units before have moved
    the weights. That and the gap are 0 before and after.
    """
    every, unit = (units + UNITS - 1) // UNITS, 0
    for u in range(net.size[VARIABLES]):
        if not _labelled(net, u):
            continue
        unit += 1
        if unit % every != 0:
            continue
        n, m = _against_others(net, w, rows, u, truth, score)
        if n > 0 and m < np.inf:
            v, ahead = multiply(c, w.touched, w.delta, n), m
            for j in range(n):
                ahead += w.delta[j] * moved[w.touched[j]]
            z = -implicit_root(-ahead, every * v)
            h = sigmoid(z) * sigmoid(-z)
            if abs(z - m) > NEAR:
                h = (sigmoid(-m) - sigmoid(-z)) / (z - m)
            move(c, w.touched, w.delta, n, every * sigmoid(-z), moved)
            reduce(c, w.touched, w.delta, n, v, every * max(h, LEAST))
        clear_gap(w, n)
    _stay(net, c, moved)
    settle(c)
