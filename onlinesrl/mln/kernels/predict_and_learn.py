"""Prediction and learning by elimination: a world is ground, predicted, recorded and learned from."""

from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel, kernel_of, threaded
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.averaging import S, T, add, clear_gap, measure
from onlinesrl.core.kernels.covariance import across, multiply, reduce, settle
from onlinesrl.core.online import averaged_weights, temperature
from onlinesrl.core.online.averaged_weights import move_along
from onlinesrl.core.online.update_rules.rule import UpdateParams, scale
from onlinesrl.core.online.update_rules.second_order import count_gap, move_across, one_label
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
from onlinesrl.mln.kernels.ground import ground_labelled, partly_labelled
from onlinesrl.mln.kernels.ground_network import (
    ATOMS,
    ROWS,
    Network,
    clamp,
    clause_true,
    release,
    soft_score,
)
from onlinesrl.mln.kernels.grounding_frames import (
    INFEASIBLE,
    OK,
    TOO_MANY_ATOMS,
    WEIGHTS_BEYOND,
    Batch,
    Plans,
    Scratch,
)
from onlinesrl.mln.kernels.prediction_counts import (
    By,
    Output,
    Probabilities,
    State,
    likeliest,
    record,
    record_probabilities,
)
from onlinesrl.mln.kernels.sum_product import left_out, log_partition, sum_product
from onlinesrl.mln.kernels.unit_curvature import (
    UnitRows,
    labels,
    list_rows,
    probability_of_others,
    reduce_by_units,
)
from onlinesrl.mln.kernels.weight_lookup import (
    Weights,
    by_true_atoms,
    effective,
    effective_both,
    gap,
    log_loss_gap,
    mean_cost,
    note_numbers,
    number,
    score_gap,
    sum_numbers,
    widen_rows,
)
from onlinesrl.mln.kernels.weight_magnitude import beyond, fine, largest

GROW_WEIGHTS, GROW_TABLES, GROW_OUTPUT, GROW_CLAUSES = 4, 5, 6, 8
TOO_WIDE, GROW_UNITS = 9, 10
TOGETHER = 1 << 16
"""The largest number of cells at which the tables of prediction and rival are filled together."""
ELIMINATION = 0
OVERFLOW = 24
"""The status of a world whose update is beyond the range of numbers."""
NO_COMPLETION = 25
"""The status of a world whose labels, with any values of its unlabelled atoms, break a hard rule."""
FINAL = TOO_MANY_ATOMS
"""The first status of bad worlds; a world with a smaller status needs more than is done here."""


class StepFrame(Frame):
    """The input of a batch's worlds, and the memory of the world at hand."""

    plans: Plans
    batch: Batch
    net: Network
    scratch: Scratch
    structure: Structure
    weights: Weights
    how: UpdateParams
    scalar: Floats  # averaging.T .. averaging.LOSS
    weight: Floats  # [ground clause]
    rival: Structure  # ``structure`` with tables of its own for the rival, or with little room for them
    more: Floats  # [ground clause] the weights for the rival
    state: State
    by: By
    out: Output
    probabilities: Probabilities
    max_atoms: int
    max_groundings: int
    augmented: bool  # the rival is the best state with its label loss
    f1: bool  # the label loss is 1 - F1
    current: bool  # predictions are by the next update's weights
    heat: Floats  # the state of the temperature; empty: none is fitted
    rows: UnitRows  # of the world at hand
    moved: Ints  # [place] working memory of steps along the covariance, like the next three
    gradient: Floats  # [place]
    before: Floats  # [place]
    ahead: Floats  # [weight] how far units have moved the weights; 0 between examples

    @classmethod
    def _without(cls, values: dict[str, Any]) -> tuple[str, ...]:
        return () if len(values["heat"]) else ("calibrated",)


@kernel
def both(p: StepFrame, rival: bool) -> bool:
    """Tell whether the tables of a prediction and of its ``rival`` are filled together."""
    return rival and p.structure.size[CELLS] <= TOGETHER


@kernel
def next_scale(p: StepFrame) -> float:
    """Return s_t of the next update: its weights are base + s_t u."""
    return scale(p.how.shrinks, int(p.scalar[T]) + 1)


@kernel
def fits(p: StepFrame, weight: Floats, total: float, augmented: bool) -> int:
    """Return whether sums of doubles are fine enough; ``total`` is the sum of the absolute weights.

    TOO_WIDE: components may be, one by one. WEIGHTS_BEYOND: a weight is too large. If ``augmented``, the
    label losses count as weights, too.
    """
    for a in range(p.net.size[ATOMS] if augmented else 0):
        total += p.state.cost[a]
    if fine(p.net, total):
        return OK
    return WEIGHTS_BEYOND if beyond(p.net, weight, total) else TOO_WIDE


@kernel
def order(p: StepFrame) -> int:
    """Find the order of elimination; returns OK, GROW_CLAUSES, GROW_TABLES, TOO_WIDE or INFEASIBLE.

    A network that leaves clauses out is too wide.
    """
    for c in range(len(p.net.left_out)):
        if p.net.left_out[c]:
            return TOO_WIDE
    if p.net.clause_start[p.net.size[ROWS]] > len(p.weight):
        return GROW_CLAUSES
    status = structure(p.net, p.structure)
    if status == SOLVED:
        return OK
    if status == CONTRADICTION:
        return INFEASIBLE
    return GROW_TABLES if status == TABLES_FULL else TOO_WIDE


@kernel
def solve(p: StepFrame, cu: float, cv: float, rival: bool) -> tuple[int, float]:
    """Write the best state of the network by the weights base + cu u + cv v; return a status and its score.

    The weights of the ground clauses go to ``weight``. With ``rival``, the tables that ``find_gap`` needs
    are filled as well, if there is room.
    """
    net, state, value = p.net, p.state, p.weights.value
    status = order(p)
    if status != OK:
        return status, 0.0
    clear(net, p.structure)
    if both(p, rival):
        size, more = effective_both(net, value, cu, cv, next_scale(p), p.weight, p.more)
        status = fits(p, p.more, more, p.augmented)
    else:
        if rival:
            size = effective(net, value, next_scale(p), 0.0, p.weight)
            status = fits(p, p.weight, size, p.augmented)
        size = effective(net, value, cu, cv, p.weight)
    status = max(status, fits(p, p.weight, size, False))
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


@kernel_of("probabilities", (TOO_WIDE, 0.0))
def rank(p: StepFrame, w: int, cu: float, cv: float) -> tuple[int, float]:
    """Find the probabilities of the open atoms at the temperature, and the state they predict.

    Returns a status and the state's score.
    """
    net, st, exact, state = p.net, p.structure, p.rival, p.state
    status = order(p)
    if status != OK or p.probabilities.answered[w]:
        state.predicted[: net.size[ATOMS]] = 0
        return status, 0.0
    b = temperature.inverse(p.probabilities.heat)
    total = effective(net, p.weights.value, cu, cv, p.weight)
    status = fits(p, p.weight, total, False)
    if status != OK:
        return status, 0.0
    if st.size[CELLS] > len(exact.table):
        return TOO_WIDE, 0.0
    for g in range(net.clause_start[net.size[ROWS]]):
        p.weight[g] *= b
    if sum_product(net, st, p.weight, exact.unary, exact.table, p.more) == -np.inf:
        return INFEASIBLE, 0.0
    likeliest(p.plans, net, exact.unary, p.probabilities.least, state.predicted)
    if not record_probabilities(p.plans, p.batch, w, net, exact.unary, p.probabilities):
        return GROW_OUTPUT, 0.0
    return OK, soft_score(net, state.predicted, p.weight) / b


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

    Returns a status and its detail. GROW_*: more room is needed. TOO_WIDE: another engine must predict the
    world; its rows have the numbers of their weights by then.
    """
    if not number(p.plans, p.net, p.weights, learning and p.batch.labelled[w] == 1):
        return GROW_WEIGHTS, -1
    cu, cv = mean(p)
    if p.probabilities.predict:
        status, score = rank(p, w, cu, cv)
    else:
        status, score = solve(p, cu, cv, rival)
    if status != OK:
        return status, largest(p.net, p.weight)[0] if status == WEIGHTS_BEYOND else -1
    if not record(p.plans, p.batch, w, p.net, p.state, p.by, ELIMINATION, score, p.out):
        return GROW_OUTPUT, -1
    return OK, -1


@kernel_of("expects", (-1, 0.0))
def add_expected(p: StepFrame, n: int, sign: float) -> tuple[int, float]:
    """Add ``sign`` (f(truth) - E f) to the gap; see ``weight_lookup.log_loss_gap``.

    Returns -1 where sums do not hold the weights, and -NO_COMPLETION if no state satisfies the hard rules.
    """
    net, st, exact = p.net, p.structure, p.rival
    size = effective(net, p.weights.value, next_scale(p), 0.0, p.weight)
    if fits(p, p.weight, size, False) != OK:
        return -1, 0.0
    log_z = sum_product(net, st, p.weight, exact.unary, exact.table, p.more)
    if log_z == -np.inf:
        return -NO_COMPLETION, 0.0
    return log_loss_gap(
        net,
        st,
        p.weights,
        p.weight,
        p.state.truth,
        log_z,
        exact.unary,
        exact.table,
        p.more,
        n,
        sign,
    )


@kernel_of("expects", (-1, 0.0))
def expect_gap(p: StepFrame, partly: bool) -> tuple[int, float]:
    """Find the gap of the log-loss, E[f | labels] - E f by the next update's weights, and its entropy.

    The first expectation is f(truth) where all atoms are labelled. Otherwise the loss is that of a marginal
    likelihood, and the entropy is reduced by that of the states that agree with the labels. Returns -1 and 0
    where tables are too large; see ``add_expected``.
    """
    if p.structure.size[CELLS] > TOGETHER:
        return -1, 0.0
    n, entropy = 0, 0.0
    if partly:
        clamp(p.net, p.state.truth)
        n, entropy = add_expected(p, 0, -1.0)
        release(p.net)
        if n < 0:
            return n, 0.0
    n, free = add_expected(p, n, 1.0)
    return n, free - entropy


@kernel_of("calibrated", 0.0)
def tempered_gap(p: StepFrame) -> float:
    """Return b <w, f(truth) - E f> by the weights b w, where w predict and 1 / b is the temperature.

    It is 0 where sums do not hold the weights.
    """
    net, st, exact = p.net, p.structure, p.rival
    cu, cv = mean(p)
    b = temperature.inverse(p.heat)
    size = b * effective(net, p.weights.value, cu, cv, p.weight)
    for g in range(net.clause_start[net.size[ROWS]]):
        p.weight[g] *= b
    if fits(p, p.weight, size, False) != OK:
        return 0.0
    sum_product(net, st, p.weight, exact.unary, exact.table, p.more)
    return score_gap(net, st, p.weight, p.state.truth, exact.unary, exact.table, p.more)


@kernel_of("calibrated", 0.0)
def temperature_slope(p: StepFrame, partly: bool) -> float:
    """Return the slope of log P(truth) by log b; see ``core.online.temperature``.

    ``partly``: it is that of log P(labels), which sums over the unlabelled atoms.
    """
    slope = tempered_gap(p)
    if partly:
        clamp(p.net, p.state.truth)
        slope -= tempered_gap(p)
        release(p.net)
    return slope


@kernel
def complete(p: StepFrame) -> int:
    """Give the unlabelled atoms their most probable values beside the labels, by the next update's weights.

    Returns OK, TOO_WIDE if sums do not hold the weights, or NO_COMPLETION.
    """
    net, state = p.net, p.state
    size = effective(net, p.weights.value, next_scale(p), 0.0, p.weight)
    if fits(p, p.weight, size, False) != OK:
        return TOO_WIDE
    set_bonus(net, state.truth, False, state.cost, state.bonus)
    clamp(net, state.truth)
    best = eliminate(net, p.structure, p.weight, state.bonus, state.truth)
    release(net)
    return NO_COMPLETION if best == -np.inf else OK


@kernel
def find_gap(p: StepFrame, filled: bool, partly: bool) -> tuple[int, float]:
    """Find the rival of the world just predicted: the best state by the weights of the next update.

    If ``p.augmented``, the label loss is added to the scores. ``filled``: ``solve`` has filled the tables.
    ``partly``: unlabelled atoms are completed first. Returns what ``weight_lookup.gap`` does, or -1 and 0 if
    sums do not hold the weights, or -NO_COMPLETION and 0.
    """
    net, state = p.net, p.state
    if p.how.expects:
        return expect_gap(p, partly)
    if partly:
        status = complete(p)
        if status != OK:
            return -NO_COMPLETION if status == NO_COMPLETION else -1, 0.0
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


@kernel_of("covers", True)
def list_units(p: StepFrame) -> bool:
    """List the rows of each unit, which ``learn_by_covariance`` needs; False: there is no room."""
    return list_rows(p.net, p.rows)


@kernel
def hold_gap(p: StepFrame, n: int) -> None:
    """Clear the gap of ``n`` weights, until ``restore_gap``."""
    for j in range(n):
        p.gradient[j], p.moved[j] = p.weights.delta[j], p.weights.touched[j]
    clear_gap(p.weights, n)


@kernel
def restore_gap(p: StepFrame, n: int) -> None:
    """Set the gap of ``n`` weights that ``hold_gap`` cleared."""
    for j in range(n):
        add(p.weights, j, p.moved[j], p.gradient[j])


@kernel_of("covers", False)
def narrow(p: StepFrame, i: int, h: float) -> bool:
    """Learn the information h that weight i is near its start; see ``core.kernels.covariance``."""
    w, c = p.weights, p.how.covariance
    n = add(w, 0, i, 1.0)
    v = multiply(c, w.touched, w.delta, n)
    fits = move_across(w, p.how, n, -w.value[i, 1] * h / (1.0 + h * v), p.scalar[S])
    if fits:
        reduce(c, w.touched, w.delta, n, v, h)
        settle(c)
    clear_gap(w, n)
    return fits


@kernel_of("covers", np.nan)
def learn_by_covariance(p: StepFrame, n: int, entropy: float, partly: bool, checked: bool) -> float:
    """Learn along S g of the gap g of ``n`` weights; returns the loss. See ``update_rules.second_order``.

    ``checked``: sums tell whether the step is too long. NaN: some number would not be finite, and no weight
    has changed.
    """
    net, w, c = p.net, p.weights, p.how.covariance
    margin, dot, _ = measure(w, n, entropy)
    loss = max(margin - dot, 0.0)
    now = loss
    if widen_rows(net, w, p.how, n, p.before):
        hold_gap(p, n)
        for j in range(n):
            if p.before[j] > 0.0:
                narrow(p, p.moved[j], p.before[j])
        if checked:
            n, entropy = expect_gap(p, partly)
            n = max(n, 0)
            margin, dot, _ = measure(w, n, entropy)
            now = max(margin - dot, 0.0)
        else:
            restore_gap(p, n)
    count_gap(w, p.how, n)
    units, slot = labels(net, p.state.truth)
    if partly and units == 1 and slot >= 0:
        q = multiply(c, w.touched, w.delta, n)
        t, h = one_label(q, probability_of_others(net, slot, p.rival.unary))
        if move_along(w, p.how, p.scalar, n, t, loss):
            reduce(c, w.touched, w.delta, n, q, h)
            settle(c)
        else:
            loss = np.nan
        clear_gap(w, n)
        return loss
    hold_gap(p, n)
    reduce_by_units(net, w, c, p.rows, p.state.truth, p.rival.unary, p.ahead, units)
    restore_gap(p, n)
    q, t = multiply(c, w.touched, w.delta, n), 1.0
    if checked and units > 1 and q > 0.0:
        t = shorter(p, n, q, now, partly)
    if not move_along(w, p.how, p.scalar, n, t, loss):
        loss = np.nan
    clear_gap(w, n)
    return loss


@kernel_of("covers", 1.0)
def shorter(p: StepFrame, n: int, q: float, loss: float, partly: bool) -> float:
    """Return the share of the step S g at which -log P(truth) is least; at most 1, the whole step.

    By a parabola through ``loss``, before the step, and the loss after it. Its slope is -q = -g'S g at first.
    """
    w, c, curvature = p.weights, p.how.covariance, 1.0 + q
    for j in range(n):
        i = w.touched[j]
        p.before[j] = w.value[i, 1]
        w.value[i, 1] += across(c, i, w.delta[j])
    size = effective(p.net, w.value, next_scale(p), 0.0, p.weight)
    if fits(p, p.weight, size, False) == OK:
        curvature = 2.0 * (loss_by(p, partly) - loss + q)
    for j in range(n):
        w.value[w.touched[j], 1] = p.before[j]
    return q / curvature if curvature > q else 1.0


@kernel_of("covers", 0.0)
def loss_by(p: StepFrame, partly: bool) -> float:
    """Return -log P(truth), or of the labels, by the weights of ground clauses in ``weight``."""
    net, st = p.net, p.structure
    log_z = log_partition(net, st, p.weight)
    if partly:
        clamp(net, p.state.truth)
        log_z -= log_partition(net, st, p.weight)
        release(net)
        return log_z
    for r in range(net.size[ROWS]):
        for k in range(net.row_len[r] if net.row_weight[r] >= 0 else 0):
            share = float(int(clause_true(net, r, k, p.state.truth))) - left_out(net, st, r)
            log_z -= p.weight[net.clause_start[r] + k] * share
    return log_z


@kernel
def learn_along(p: StepFrame, n: int, rho: float, cost: float, again: bool) -> float:
    """Learn along a gap of ``n`` weights; see ``averaged_weights.learn``."""
    sum_numbers(p.net, p.weights, p.how)
    loss = averaged_weights.learn(p.weights, p.how, p.scalar, n, rho, cost, again)
    note_numbers(p.net, p.weights, p.how, not (again or np.isnan(loss)))
    return loss


@threaded
def learn_from_gap(p: StepFrame, n: int, rho: float, cost: float, again: bool) -> float:
    """Learn along a gap of ``n`` weights that an engine or samples gave; returns the loss."""
    if p.how.covers:
        return learn_by_covariance(p, n, rho, False, False)
    return learn_along(p, n, rho, cost, again)


@kernel
def learn(p: StepFrame, w: int, filled: bool, again: bool) -> int:
    """Learn from the world just predicted, or ``again`` from one that was learned from before.

    Returns OK, or TOO_WIDE if it learned nothing.
    """
    partly = partly_labelled(p.plans, p.batch, w)
    n, rho = find_gap(p, filled, partly)
    if n == -NO_COMPLETION:
        p.out.status[w] = NO_COMPLETION
        return OK
    if n < 0:
        return TOO_WIDE
    slope = 0.0 if again else temperature_slope(p, partly)
    cost = 1.0
    if not p.how.expects:
        cost = mean_cost(p.net, p.state.truth, p.state.rival, p.state.cost)
    if p.how.covers:
        loss = learn_by_covariance(p, n, rho, partly, True)
    else:
        loss = learn_along(p, n, rho, cost, again)
    p.out.loss[w] = loss
    p.out.status[w] = OVERFLOW if np.isnan(loss) else OK
    if len(p.heat) > 0 and not again and p.out.status[w] == OK:
        temperature.fit(p.heat, slope)
    return OK


@kernel
def step(p: StepFrame, w: int, learns: bool, learning: bool) -> int:
    """Do as ``run`` for one world; returns OK, or the reason why it needs more."""
    learns = learns and p.batch.labelled[w] == 1
    filled = not p.probabilities.predict and not partly_labelled(p.plans, p.batch, w)
    p.out.true_start[w + 1] = p.out.true_start[w]
    p.probabilities.start[w + 1] = p.probabilities.start[w]
    status, detail = ground_labelled(
        p.plans, p.batch, w, p.net, p.scratch, p.state.truth, p.max_atoms, p.max_groundings
    )
    if status == OK and learns and not list_units(p):
        return GROW_UNITS
    if status == OK:
        status, detail = predict(p, w, learning, learns and filled and not p.how.expects)
    if status != OK and status < FINAL:
        return status
    p.out.status[w], p.out.detail[w] = status, detail
    if status != OK:
        return OK
    return learn(p, w, filled, False) if learns else OK


@threaded
def ground_alone(p: StepFrame, w: int) -> int:
    """Ground a world that is not predicted; returns a status, GROW_* where more room is needed."""
    status, _ = ground_labelled(
        p.plans, p.batch, w, p.net, p.scratch, p.state.truth, p.max_atoms, p.max_groundings
    )
    if status == OK and not number(p.plans, p.net, p.weights, True):
        return GROW_WEIGHTS
    return status


@threaded
def learn_alone(p: StepFrame, w: int, again: bool) -> int:
    """Learn from a ground world that this has not predicted; see ``solve`` and ``learn``."""
    if not list_units(p):
        return GROW_UNITS
    status = order(p)
    return learn(p, w, False, again) if status == OK else status


@threaded
def slope_alone(p: StepFrame, partly: bool) -> tuple[int, float]:
    """Return the slope for the temperature of a ground world; see ``solve`` and ``temperature_slope``."""
    status = order(p)
    return status, temperature_slope(p, partly) if status == OK else 0.0


@threaded
def run(p: StepFrame, first: int, stop: int, learns: bool, learning: bool) -> tuple[int, int]:
    """Predict worlds, record them, and with ``learns`` learn from those with a truth, one after the other.

    With ``learning``, new keys get
    weights. Returns ``stop`` and OK, or the first world that needs more than is done here and the reason:
    GROW_* or TOO_WIDE. Nothing was learned from that world.
    """
    for w in range(first, stop):
        status = step(p, w, learns, learning)
        if status != OK:
            return w, status
    return stop, OK
