"""A world that is narrow enough for elimination: ground, predicted and recorded, and its gap."""

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.kernels.frames import Frame
from onlinesrl.core.kernels import averaged, steps
from onlinesrl.core.kernels.averaged import T, S
from onlinesrl.core.kernels.jit import kernel, threaded
from onlinesrl.mln.kernels.elimination import eliminate, set_bonus
from onlinesrl.mln.kernels.network import ROWS, Network, soft_score
from onlinesrl.mln.kernels.outcome import By, Output, State, record
from onlinesrl.mln.kernels.plans import INFEASIBLE, OK, TOO_MANY_ATOMS, Batch, Plans, Scratch
from onlinesrl.mln.kernels.structure import (
    CONTRADICTION,
    SOLVED,
    TABLES_FULL,
    Structure,
    structure,
)
from onlinesrl.mln.kernels.truth import ground_labelled
from onlinesrl.mln.kernels.weights import Weights, effective, gap, number

GROW_WEIGHTS, GROW_TABLES, GROW_OUTPUT, GROW_CLAUSES = 4, 5, 6, 8
TOO_WIDE, STOPPED = 9, 10
ELIMINATION = 0
OVERFLOW = 24
"""The status of a world whose update is beyond the range of numbers."""
PREDICT, LEARN = 1, 2
"""What ``run`` does with a world."""
FINAL = TOO_MANY_ATOMS
"""From this status on a world is bad, and done with."""


class Pass(Frame):
    """What the worlds of a batch are read from, and the memory that each is written to."""

    plans: Plans
    batch: Batch
    net: Network
    scratch: Scratch
    structure: Structure
    weights: Weights
    how: steps.How
    scalar: Floats  # kernels.averaged.T .. LOSS
    begun: Ints  # the weights and blocks before the world at hand
    weight: Floats  # [ground clause]
    state: State
    by: By
    out: Output
    max_atoms: int
    max_groundings: int
    augmented: bool  # the rival is the best state with its label loss


@kernel
def solve(p: Pass, cu: float, cv: float) -> tuple[int, float]:
    """Write the best state of a network by the weights base + cu u + cv v; a status, and its score.

    Their values for ground clauses are written to ``weight``.
    """
    net, state = p.net, p.state
    if net.clause_start[net.size[ROWS]] > len(p.weight):
        return GROW_CLAUSES, 0.0
    found = structure(net, p.structure)
    if found == CONTRADICTION:
        return INFEASIBLE, 0.0
    if found != SOLVED:
        return GROW_TABLES if found == TABLES_FULL else TOO_WIDE, 0.0
    set_bonus(net, state.truth, False, state.cost, state.bonus)
    effective(net, p.weights.value, cu, cv, p.weight)
    if eliminate(net, p.structure, p.weight, state.bonus, state.predicted) == -np.inf:
        return INFEASIBLE, 0.0
    return OK, soft_score(net, state.predicted, p.weight)


@kernel
def predict(p: Pass, w: int, cu: float, cv: float, learning: bool) -> tuple[int, int]:
    """Ground a world, predict it by the weights base + cu u + cv v, and write its results.

    Returns a status and its detail: GROW_*, more room is needed; TOO_WIDE, the world is ground, its
    weights have their numbers, and another engine is to predict it.
    """
    net, state = p.net, p.state
    status, detail = ground_labelled(
        p.plans, p.batch, w, net, p.scratch, state.truth, p.max_atoms, p.max_groundings
    )
    if status != OK:
        return status, detail
    if not number(p.plans, net, p.weights, learning and p.batch.labelled[w] == 1):
        return GROW_WEIGHTS, -1
    status, score = solve(p, cu, cv)
    if status != OK:
        return status, -1
    if not record(p.plans, p.batch, w, net, state, p.by, ELIMINATION, score, p.out):
        return GROW_OUTPUT, -1
    return OK, -1


@kernel
def find_gap(p: Pass, cu: float, augmented: bool) -> tuple[int, float]:
    """Find the rival of the world just predicted, by base + cu u and the label loss if ``augmented``.

    Returns what ``weights.gap`` does.
    """
    net, state = p.net, p.state
    set_bonus(net, state.truth, augmented, state.cost, state.bonus)
    effective(net, p.weights.value, cu, 0.0, p.weight)
    eliminate(net, p.structure, p.weight, state.bonus, state.rival)
    return gap(net, p.weights, state.truth, state.rival, state.cost)


@kernel
def learn(p: Pass, w: int) -> int:
    """Learn from the world just predicted; returns OK, or STOPPED, with nothing learned."""
    t = int(p.scalar[T]) + 1
    n, rho = find_gap(p, steps.scale(p.how.shrinks, t), p.augmented)
    if p.structure.stop[0]:
        averaged.move(p.weights, n, 0.0, 0.0)  # forgets the gap
        return STOPPED
    loss = averaged.learn(p.weights, p.how, p.scalar, n, rho)
    p.out.loss[w] = loss
    p.out.status[w] = OVERFLOW if np.isnan(loss) else OK
    return OK


@threaded
def run(p: Pass, first: int, stop: int, what: int, learning: bool) -> tuple[int, int, int]:
    """Predict worlds, record them, and learn from those with a truth, one after the other.

    ``what`` is PREDICT, LEARN (a world that has just been predicted) or both; ``learning``: new keys get
    weights. Returns ``stop``, or the first world that needs more than is done here, with its status and
    detail: see ``predict``; STOPPED, a signal asked to stop, and nothing was learned from the world.
    """
    for w in range(first, stop):
        p.begun[0], p.begun[1] = p.weights.size[0], p.weights.size[1]
        if what & PREDICT:
            p.out.true_start[w + 1] = p.out.true_start[w]
            t, sum_s = p.scalar[T], p.scalar[S]
            cu, cv = (sum_s / t, -1.0 / t) if t != 0.0 else (0.0, 0.0)
            status, detail = predict(p, w, cu, cv, learning)
            if p.structure.stop[0]:
                return w, STOPPED, -1
            if status != OK and status < FINAL:
                return w, status, detail
            p.out.status[w], p.out.detail[w] = status, detail
            if status != OK:
                continue
        if what & LEARN and p.batch.labelled[w] and learn(p, w) == STOPPED:
            return w, STOPPED, -1
    return stop, OK, -1
