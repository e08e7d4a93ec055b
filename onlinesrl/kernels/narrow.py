"""Prediction and rival of a world that is narrow enough for elimination, each in one call from Python."""

import numpy as np

from onlinesrl.arrays import Floats
from onlinesrl.kernels.elimination import eliminate, set_bonus
from onlinesrl.kernels.jit import kernel
from onlinesrl.kernels.network import Network, soft_score
from onlinesrl.kernels.outcome import State
from onlinesrl.kernels.structure import Structure
from onlinesrl.kernels.weights import Weights, effective, gap


@kernel
def predict(
    net: Network,
    st: Structure,
    weights: Weights,
    cu: float,
    cv: float,
    weight: Floats,
    state: State,
) -> float:
    """Write the best state to ``predicted``; returns its score, -inf: the hard part is infeasible.

    The weights of the ground clauses, base + cu u + cv v, are written to ``weight``.
    """
    set_bonus(net, state.truth, False, state.bonus)
    effective(net, weights.value, cu, cv, weight)
    if eliminate(net, st, weight, state.bonus, state.predicted) == -np.inf:
        return -np.inf
    return soft_score(net, state.predicted, weight)


@kernel
def find_gap(
    net: Network,
    st: Structure,
    weights: Weights,
    cu: float,
    augmented: bool,
    weight: Floats,
    state: State,
) -> tuple[int, float]:
    """Write the best state, by base + cu u and the Hamming loss if ``augmented``, to ``rival``.

    Returns what ``weights.gap`` does, -1 and 0 where the hard part is infeasible.
    """
    set_bonus(net, state.truth, augmented, state.bonus)
    effective(net, weights.value, cu, 0.0, weight)
    if eliminate(net, st, weight, state.bonus, state.rival) == -np.inf:
        return -1, 0.0
    return gap(net, weights, state.truth, state.rival)
