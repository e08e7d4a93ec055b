"""Prediction by exact marginals: a world is ground, summed out, and recorded with its probabilities."""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.elimination_order import CELLS
from onlinesrl.mln.kernels.ground_network import (
    OPEN,
    ROWS,
    VARIABLES,
    Network,
    define,
    soft_score,
)
from onlinesrl.mln.kernels.grounding_frames import INFEASIBLE, OK, WEIGHTS_OVERFLOW
from onlinesrl.mln.kernels.predict_and_learn import (
    FINAL,
    GROW_OUTPUT,
    GROW_WEIGHTS,
    STOPPED,
    TOO_WIDE,
    StepFrame,
    fits,
    ground,
    mean,
    order,
)
from onlinesrl.mln.kernels.prediction_counts import record
from onlinesrl.mln.kernels.sum_product import sum_product
from onlinesrl.mln.kernels.weight_lookup import effective, number
from onlinesrl.mln.kernels.weight_magnitude import STEEP, largest


class Probabilities(Frame):
    """The probabilities of the open atoms of each world."""

    inverse: float  # the factor of weights, 1 / temperature
    route: int
    start: Ints  # [world + 1]
    query: Ints32  # open atoms: query predicate
    key: Ints  # and number among its groundings
    probability: Floats  # and probability


@kernel
def likeliest(net: Network, unary: Floats, state: Bytes) -> None:
    """Write the most probable value of each atom, or of each group (perhaps none of its atoms)."""
    for v in range(net.size[VARIABLES]):
        best, total = net.var_start[v], 0.0
        for a in range(net.var_start[v], net.var_start[v + 1]):
            p = unary[a + v + 1]
            total += p
            if p > unary[best + v + 1]:
                best = a
            state[a] = 0
        none = 0.0 if net.exactly[v] else 1.0 - total
        state[best] = net.exactly[v] or unary[best + v + 1] > none
    define(net, state)


@kernel
def _record_open(p: StepFrame, m: Probabilities, w: int) -> bool:
    """Write the probabilities of the open atoms; False: no room."""
    net, at = p.net, m.start[w]
    for q in range(len(p.plans.query_group)):
        for a in range(net.query_base[q], net.query_base[q + 1]):
            if net.fixed[a] != OPEN:
                continue
            if at == len(m.key):
                return False
            m.query[at] = q
            m.key[at] = net.key[a] if p.batch.listed[w] else a - net.query_base[q]
            m.probability[at] = min(max(p.rival.unary[a + net.var_of[a] + 1], 0.0), 1.0)
            at += 1
    m.start[w + 1] = at
    return True


@kernel
def _sum_out(p: StepFrame, m: Probabilities, w: int) -> tuple[int, int]:
    """Predict a ground world by its marginals, and write its results; returns a status and its detail.

    TOO_WIDE: tables are too large, or weights too large for doubles to hold their probabilities.
    """
    net, exact = p.net, p.rival
    if not number(p.plans, net, p.weights, False):
        return GROW_WEIGHTS, -1
    status = order(p)
    if status != OK:
        return status, -1
    if p.structure.size[CELLS] > len(exact.table):
        return TOO_WIDE, -1
    cu, cv = mean(p)
    size = m.inverse * effective(net, p.weights.value, cu, cv, p.weight)
    for g in range(net.clause_start[net.size[ROWS]]):
        p.weight[g] *= m.inverse
    status = fits(p, p.weight, size, False)
    if status != OK:
        return status, largest(net, p.weight) if status == WEIGHTS_OVERFLOW else -1
    for r in range(net.size[ROWS]):
        for g in range(net.clause_start[r], net.clause_start[r + 1]):
            if net.row_weight[r] >= 0 and abs(p.weight[g]) > STEEP:
                return TOO_WIDE, -1
    if sum_product(net, p.structure, p.weight, exact.unary, exact.table, p.more) == -np.inf:
        return INFEASIBLE, -1
    likeliest(net, exact.unary, p.state.predicted)
    effective(net, p.weights.value, cu, cv, p.weight)
    score = soft_score(net, p.state.predicted, p.weight)
    if not record(
        p.plans, p.batch, w, net, p.state, p.by, m.route, score, p.out
    ) or not _record_open(p, m, w):
        return GROW_OUTPUT, -1
    return OK, -1


@kernel
def _step(p: StepFrame, m: Probabilities, w: int) -> int:
    """Predict one world; returns OK, or the reason why it needs more."""
    p.begun[0], p.begun[1] = p.weights.size[0], p.weights.size[1]
    p.out.true_start[w + 1], m.start[w + 1] = p.out.true_start[w], m.start[w]
    status, detail = ground(p, w)
    if status == OK:
        status, detail = _sum_out(p, m, w)
    if p.structure.stop[0]:
        return STOPPED
    if status != OK and status < FINAL:
        return status
    p.out.status[w], p.out.detail[w] = status, detail
    return OK


@threaded
def run(p: StepFrame, m: Probabilities, first: int, stop: int) -> tuple[int, int]:
    """Predict worlds by their marginals, one after the other; see ``predict_and_learn.run``."""
    for w in range(first, stop):
        status = _step(p, m, w)
        if status != OK:
            return w, status
    return stop, OK
