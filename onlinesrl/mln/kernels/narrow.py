"""A world that is narrow enough for elimination: ground, predicted and recorded, and its gap."""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.frames import Frame
from onlinesrl.core.kernels.jit import kernel
from onlinesrl.mln.kernels.elimination import eliminate, set_bonus
from onlinesrl.mln.kernels.network import ROWS, Network, soft_score
from onlinesrl.mln.kernels.outcome import By, Output, State, record
from onlinesrl.mln.kernels.plans import (
    GROW_ATOMS,
    GROW_INDEX,
    GROW_ROWS,
    INFEASIBLE,
    OK,
    Batch,
    Plans,
    Scratch,
)
from onlinesrl.mln.kernels.structure import (
    CONTRADICTION,
    SOLVED,
    TABLES_FULL,
    Structure,
    structure,
)
from onlinesrl.mln.kernels.truth import ground_labelled
from onlinesrl.mln.kernels.weights import Weights, effective_both, gap, number

GROW_WEIGHTS, GROW_TABLES, GROW_OUTPUT, GROW_CLAUSES = 4, 5, 6, 8
GROWING = {GROW_ATOMS, GROW_ROWS, GROW_INDEX, GROW_WEIGHTS, GROW_TABLES, GROW_OUTPUT, GROW_CLAUSES}
TOO_WIDE = 9
ELIMINATION = 0
NONE, PLAIN, AUGMENTED = 0, 1, 2
"""The rival of a truth: none is asked for, the best state, or that of most score and label loss."""


class Pass(Frame):
    """What the worlds of a batch are read from, and the memory that each is written to."""

    plans: Plans
    batch: Batch
    net: Network
    scratch: Scratch
    structure: Structure
    weights: Weights
    weight: Floats  # [ground clause] by the weights of predictions
    now: Floats  # [ground clause] by the present weights
    state: State
    by: By
    out: Output
    max_atoms: int
    max_groundings: int


@kernel
def solve(p: Pass, cu: float, cv: float, s: float) -> tuple[int, float]:
    """Write the best state of a network by the weights base + cu u + cv v; a status, and its score.

    Their values for ground clauses are written to ``weight``, and those of base + s u to ``now``.
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
    effective_both(net, p.weights.value, cu, cv, s, p.weight, p.now)
    if eliminate(net, p.structure, p.weight, state.bonus, state.predicted) == -np.inf:
        return INFEASIBLE, 0.0
    return OK, soft_score(net, state.predicted, p.weight)


@kernel
def predict(
    p: Pass, w: int, cu: float, cv: float, s: float, learning: bool, rival: int
) -> tuple[int, int, int, float]:
    """Ground a world, predict it by the weights base + cu u + cv v, and write its results.

    If it is labelled, and ``rival`` is not NONE, the gap to its rival by base + s u follows. Returns a
    status and its detail, and what ``find_gap`` does, -1 and 0 for none. GROW_*: more room is needed;
    TOO_WIDE: the world is ground, its weights have their numbers, and another engine is to predict it.
    """
    net, state = p.net, p.state
    p.out.true_start[w + 1] = p.out.true_start[w]
    status, detail = ground_labelled(
        p.plans, p.batch, w, net, p.scratch, state.truth, p.max_atoms, p.max_groundings
    )
    if status != OK:
        return status, detail, -1, 0.0
    labelled = p.batch.labelled[w] == 1
    if not number(p.plans, net, p.weights, learning and labelled):
        return GROW_WEIGHTS, -1, -1, 0.0
    status, score = solve(p, cu, cv, s)
    if status != OK:
        return status, -1, -1, 0.0
    if not record(p.plans, p.batch, w, net, state, p.by, ELIMINATION, score, p.out):
        return GROW_OUTPUT, -1, -1, 0.0
    if rival == NONE or not labelled:
        return OK, -1, -1, 0.0
    n, rho = find_gap(p, rival == AUGMENTED)
    return OK, -1, n, rho


@kernel
def find_gap(p: Pass, augmented: bool) -> tuple[int, float]:
    """Find the rival of the world just predicted, by ``now`` and the label loss if ``augmented``.

    Returns what ``weights.gap`` does; -1 and 0, and there is no gap, where a signal asks to stop.
    """
    net, state = p.net, p.state
    set_bonus(net, state.truth, augmented, state.cost, state.bonus)
    eliminate(net, p.structure, p.now, state.bonus, state.rival)
    if p.structure.stop[0]:
        return -1, 0.0
    return gap(net, p.weights, state.truth, state.rival, state.cost)
