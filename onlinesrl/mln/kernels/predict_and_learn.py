"""A world that is narrow enough for elimination: ground, predicted and recorded, and its gap."""

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel, kernel_of, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels import averaging
from onlinesrl.core.kernels.averaging import S, T
from onlinesrl.core.online import averaged_weights
from onlinesrl.core.online.update_rules.rule import UpdateParams, scale
from onlinesrl.mln.kernels.elimination import (
    add_bonus,
    clear,
    clear_as,
    eliminate,
    fill,
    set_bonus,
    sweep,
)
from onlinesrl.mln.kernels.elimination_order import (
    CELLS,
    CONTRADICTION,
    SOLVED,
    TABLES_FULL,
    Structure,
    structure,
)
from onlinesrl.mln.kernels.ground import ground_labelled
from onlinesrl.mln.kernels.ground_network import ROWS, Network, soft_score
from onlinesrl.mln.kernels.grounding_frames import (
    INFEASIBLE,
    OK,
    TOO_MANY_ATOMS,
    WEIGHTS_OVERFLOW,
    Batch,
    Plans,
    Scratch,
)
from onlinesrl.mln.kernels.prediction_counts import By, Output, State, record
from onlinesrl.mln.kernels.sum_product import sum_product
from onlinesrl.mln.kernels.weight_lookup import (
    Weights,
    by_true_atoms,
    effective,
    effective_both,
    gap,
    log_loss_gap,
    number,
)
from onlinesrl.mln.kernels.weight_magnitude import HIGHEST, largest, lost

GROW_WEIGHTS, GROW_TABLES, GROW_OUTPUT, GROW_CLAUSES = 4, 5, 6, 8
TOO_WIDE, STOPPED = 9, 10
ELIMINATION = 0
OVERFLOW = 24
"""The status of a world whose update is beyond the range of numbers."""
PREDICT, LEARN = 1, 2
"""What ``run`` does with a world."""
FINAL = TOO_MANY_ATOMS
"""From this status on a world is bad, and done with."""


class StepFrame(Frame):
    """What the worlds of a batch are read from, and the memory that each is written to."""

    plans: Plans
    batch: Batch
    net: Network
    scratch: Scratch
    structure: Structure
    weights: Weights
    how: UpdateParams
    scalar: Floats  # averaging.T .. averaging.LOSS
    begun: Ints  # the weights and blocks before the world at hand
    weight: Floats  # [ground clause]
    rival: Structure  # ``structure`` with tables of its own, or of less room, and
    more: Floats  # [ground clause] their weights
    state: State
    by: By
    out: Output
    max_atoms: int
    max_groundings: int
    augmented: bool  # the rival is the best state with its label loss
    f1: bool  # the label loss is 1 - F1
    current: bool  # predictions are by the next update's weights


@kernel
def both(p: StepFrame, rival: bool) -> bool:
    """Tell whether tables are filled for a prediction and for its ``rival`` together."""
    return rival and p.structure.size[CELLS] <= len(p.rival.table)


@kernel
def next_scale(p: StepFrame) -> float:
    """Return s_t of the next update: its weights are base + s_t u."""
    return scale(p.how.shrinks, int(p.scalar[T]) + 1)


@kernel
def fits(p: StepFrame, weight: Floats, of_all: float, augmented: bool) -> int:
    """Return OK; TOO_WIDE, the smallest weight may be lost in sums; WEIGHTS_OVERFLOW, they have none.

    ``of_all`` is the sum of the absolute weights.
    """
    if not of_all <= HIGHEST:
        return WEIGHTS_OVERFLOW
    return TOO_WIDE if lost(p.net, weight, of_all, p.state.cost, augmented) else OK


@kernel
def _weigh(p: StepFrame, cu: float, cv: float, rival: bool) -> int:
    """Write the weights that ``solve`` needs; returns what ``fits`` does, also of those of the rival."""
    net, value = p.net, p.weights.value
    if both(p, rival):
        size, more = effective_both(net, value, cu, cv, next_scale(p), p.weight, p.more)
        return max(fits(p, p.weight, size, False), fits(p, p.more, more, p.augmented))
    status = OK
    if rival:
        size = effective(net, value, next_scale(p), 0.0, p.weight)
        status = fits(p, p.weight, size, p.augmented)
    size = effective(net, value, cu, cv, p.weight)
    return max(status, fits(p, p.weight, size, False))


@kernel
def solve(p: StepFrame, cu: float, cv: float, rival: bool) -> tuple[int, float]:
    """Write the best state of the network by the weights base + cu u + cv v; a status, and its score.

    Their values for ground clauses are written to ``weight``. ``rival``: if there is room, the tables are
    filled for ``find_gap`` as well.
    """
    net, state = p.net, p.state
    if net.clause_start[net.size[ROWS]] > len(p.weight):
        return GROW_CLAUSES, 0.0
    found = structure(net, p.structure)
    if found == CONTRADICTION:
        return INFEASIBLE, 0.0
    if found != SOLVED:
        return GROW_TABLES if found == TABLES_FULL else TOO_WIDE, 0.0
    clear(net, p.structure)
    status = _weigh(p, cu, cv, rival)
    if status != OK:
        return status, 0.0
    if both(p, rival):
        clear_as(net, p.structure, p.rival)
        if p.augmented:
            set_bonus(net, state.truth, True, state.cost, state.bonus)
            add_bonus(net, p.rival, state.bonus)
    else:
        set_bonus(net, state.truth, False, state.cost, state.bonus)
    fill(net, p.structure, p.weight, p.rival, p.more, both(p, rival))
    if sweep(net, p.structure, p.weight, state.predicted) == -np.inf:
        return INFEASIBLE, 0.0
    return OK, soft_score(net, state.predicted, p.weight)


@kernel
def ground(p: StepFrame, w: int) -> tuple[int, int]:
    """Ground a world, with its truth; see ``ground.ground_labelled``."""
    return ground_labelled(
        p.plans, p.batch, w, p.net, p.scratch, p.state.truth, p.max_atoms, p.max_groundings
    )


@kernel
def mean(p: StepFrame) -> tuple[float, float]:
    """Return (cu, cv): the weight that predicts, averaged or current, is base + cu u + cv v."""
    if p.current:
        return next_scale(p), 0.0
    t, sum_s = p.scalar[T], p.scalar[S]
    return (sum_s / t, -1.0 / t) if t != 0.0 else (0.0, 0.0)


@kernel
def predict(p: StepFrame, w: int, learning: bool, rival: bool) -> tuple[int, int]:
    """Predict a ground world by the averaged or current weights, and write its results; see ``solve``.

    Returns a status and its detail: GROW_*, more room is needed; TOO_WIDE, its weights have their numbers,
    and another engine is to predict it.
    """
    if not number(p.plans, p.net, p.weights, learning and p.batch.labelled[w] == 1):
        return GROW_WEIGHTS, -1
    cu, cv = mean(p)
    status, score = solve(p, cu, cv, rival)
    if status != OK:
        return status, largest(p.net, p.weight) if status == WEIGHTS_OVERFLOW else -1
    if not record(p.plans, p.batch, w, p.net, p.state, p.by, ELIMINATION, score, p.out):
        return GROW_OUTPUT, -1
    return OK, -1


@kernel_of("expects", (-1, 0.0))
def expect_gap(p: StepFrame) -> tuple[int, float]:
    """Find the gap of the log-loss, by the next update's weights; see ``weight_lookup.log_loss_gap``.

    Returns -1 and 0 where tables are too large, or sums do not hold the weights.
    """
    net, st, exact = p.net, p.structure, p.rival
    if st.size[CELLS] > len(exact.table):
        return -1, 0.0
    size = effective(net, p.weights.value, next_scale(p), 0.0, p.weight)
    if fits(p, p.weight, size, False) != OK:
        return -1, 0.0
    log_z = sum_product(net, st, p.weight, exact.unary, exact.table, p.more)
    return log_loss_gap(
        net, st, p.weights, p.weight, p.state.truth, log_z, exact.unary, exact.table, p.more
    )


@kernel
def find_gap(p: StepFrame, filled: bool) -> tuple[int, float]:
    """Find the rival of the world just predicted: the best state by the next update's weights.

    If augmented, with the label loss. ``filled``: ``solve`` was asked for it. Returns what
    ``weight_lookup.gap`` does; -1 and 0 where sums do not hold the weights.
    """
    net, state = p.net, p.state
    if p.how.expects:
        return expect_gap(p)
    if both(p, filled):
        sweep(net, p.rival, p.more, state.rival)
    else:
        set_bonus(net, state.truth, p.augmented, state.cost, state.bonus)
        size = effective(net, p.weights.value, next_scale(p), 0.0, p.weight)
        if fits(p, p.weight, size, p.augmented) != OK:
            return -1, 0.0
        eliminate(net, p.structure, p.weight, state.bonus, state.rival)
    n, rho = gap(net, p.weights, state.truth, state.rival, state.cost)
    return n, by_true_atoms(net, state.truth, state.rival, rho) if p.f1 else rho


@kernel
def learn(p: StepFrame, w: int, filled: bool) -> int:
    """Learn from the world just predicted; returns OK, or with nothing learned STOPPED or TOO_WIDE."""
    n, rho = find_gap(p, filled)
    if n < 0:
        return TOO_WIDE
    if p.structure.stop[0]:
        averaging.move(p.weights, n, 0.0, 0.0)  # forgets the gap
        return STOPPED
    loss = averaged_weights.learn(p.weights, p.how, p.scalar, n, rho)
    p.out.loss[w] = loss
    p.out.status[w] = OVERFLOW if np.isnan(loss) else OK
    return OK


@kernel
def take(p: StepFrame, w: int, tasks: int, learning: bool) -> int:
    """Do with a world what ``run`` is asked to; returns OK, or why it needs more."""
    learns = tasks & LEARN != 0 and p.batch.labelled[w] == 1
    if tasks & PREDICT:
        p.begun[0], p.begun[1] = p.weights.size[0], p.weights.size[1]
        p.out.true_start[w + 1] = p.out.true_start[w]
        status, detail = ground(p, w)
        if status == OK:
            status, detail = predict(p, w, learning, learns and not p.how.expects)
        if p.structure.stop[0]:
            return STOPPED
        if status != OK and status < FINAL:
            return status
        p.out.status[w], p.out.detail[w] = status, detail
        if status != OK:
            return OK
    return learn(p, w, tasks & PREDICT != 0) if learns else OK


@threaded
def learn_alone(p: StepFrame, w: int) -> int:
    """Learn from a ground world that another engine has predicted; see ``solve`` and ``learn``."""
    if p.net.clause_start[p.net.size[ROWS]] > len(p.weight):
        return GROW_CLAUSES
    status = structure(p.net, p.structure)
    if status == TABLES_FULL:
        return GROW_TABLES
    return learn(p, w, False) if status == SOLVED else TOO_WIDE


@threaded
def run(p: StepFrame, first: int, stop: int, tasks: int, learning: bool) -> tuple[int, int]:
    """Predict worlds, record them, and learn from those with a truth, one after the other.

    ``tasks`` is PREDICT, LEARN (a world that has just been predicted) or both; ``learning``: new keys get
    weights. Returns ``stop``, or the first world that needs more than is done here, and why: GROW_*,
    TOO_WIDE; STOPPED, a signal asked to stop. Nothing was learned from that world.
    """
    for w in range(first, stop):
        status = take(p, w, tasks, learning)
        if status != OK:
            return w, status
    return stop, OK
