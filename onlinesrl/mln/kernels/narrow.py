"""A world that is narrow enough for elimination: ground, predicted and recorded, and its gap."""

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.frames import Frame
from onlinesrl.core.kernels.jit import kernel
from onlinesrl.mln.kernels.elimination import eliminate, set_bonus
from onlinesrl.mln.kernels.network import ROWS, Network, soft_score
from onlinesrl.mln.kernels.outcome import By, Output, State, record
from onlinesrl.mln.kernels.plans import INFEASIBLE, OK, Batch, Plans, Scratch
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
TOO_WIDE = 9
ELIMINATION = 0


class Pass(Frame):
    """What the worlds of a batch are read from, and the memory that each is written to."""

    plans: Plans
    batch: Batch
    net: Network
    scratch: Scratch
    structure: Structure
    weights: Weights
    weight: Floats  # [ground clause]
    state: State
    by: By
    out: Output
    max_atoms: int
    max_groundings: int


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
