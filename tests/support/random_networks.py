"""Random ground networks, and what is read off one in plain Python."""

import numpy as np
from hypothesis import strategies as st

from onlinesrl.mln.kernels import ground_network
from onlinesrl.mln.kernels.ground_network import ROWS
from onlinesrl.mln.kernels.weight_lookup import Weights

N_WEIGHTS = 9


@st.composite
def networks(draw: st.DrawFn):
    """Runs of clauses over variables of one to four values, some atoms fixed, some rows hard.

    With them the weights that rows are numbered by, and a bonus of each atom.
    """
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=7))
    atoms, rows = sum(sizes), draw(st.integers(0, 8))
    net = ground_network.network(atoms + 1, rows + 1, 8 * rows + 8)
    start = np.cumsum([0, *sizes])
    net.var_start[: len(sizes) + 1] = start
    net.var_of[:atoms] = np.repeat(np.arange(len(sizes)), sizes)
    net.exactly[: len(sizes)] = [draw(st.integers(0, 3)) == 0 for _ in sizes]
    net.fixed[:atoms] = [draw(st.sampled_from([0] * 6 + [1, 2])) for _ in range(atoms)]
    at = 0
    for row in range(rows):
        length = draw(st.integers(1, min(3, atoms)))
        for _ in range(draw(st.integers(1, 4))):
            step = draw(st.sampled_from([0, 1])) if length > 1 else 0
            net.lit_atom[at] = draw(st.integers(0, atoms - 1 - step * (length - 1)))
            net.lit_step[at], net.lit_positive[at] = step, draw(st.integers(0, 1))
            at += 1
        hard = draw(st.integers(0, 5)) == 0
        net.row_len[row], net.row_weight[row] = length, -1 if hard else draw(st.integers(0, 6))
        net.row_step[row], net.row_factor[row] = (
            draw(st.integers(0, 1)),
            draw(st.sampled_from([1, -1, 0.375, -2.5])),
        )
        net.lit_start[row + 1] = at
        net.clause_start[row + 1] = net.clause_start[row] + length
    net.size[:] = atoms, len(sizes), rows, at, net.clause_start[rows], atoms
    weights = draw(st.lists(st.floats(-5, 5, width=16), min_size=N_WEIGHTS, max_size=N_WEIGHTS))
    bonus = draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=atoms, max_size=atoms))
    return net, np.array(weights), np.array(bonus)


def clauses(net: ground_network.Network):
    """Yield (number of the weight or -1, sign, literals) of each ground clause, literals as in models."""
    for r in range(net.size[ROWS]):
        literals = range(net.lit_start[r], net.lit_start[r + 1])
        for k in range(net.row_len[r]):
            atoms = [(int(net.lit_atom[p] + k * net.lit_step[p]) + 1, p) for p in literals]
            first, step = int(net.row_weight[r]), int(net.row_step[r])
            index = first if first < 0 else first + k * step
            yield index, net.row_factor[r], [a if net.lit_positive[p] else -a for a, p in atoms]


def ground_weights(net: ground_network.Network, weights) -> np.ndarray:
    """What each ground clause adds where it is true; 0 for hard ones."""
    found = [sign * weights[index] if index >= 0 else 0.0 for index, sign, _ in clauses(net)]
    return np.array(found, np.float64)


def true(literals, state) -> bool:
    """Tell whether a clause holds in a state."""
    return any(bool(state[abs(x) - 1]) == (x > 0) for x in literals)


def features(net: ground_network.Network, state, weights: int = N_WEIGHTS) -> np.ndarray:
    """Return f(state), by number of weight."""
    found = np.zeros(weights)
    for index, sign, literals in clauses(net):
        if index >= 0:
            found[index] += sign * true(literals, state)
    return found


def delta_of(weights: Weights, n: int) -> np.ndarray:
    """Return the gap that touches ``n`` weights, by number of weight."""
    delta = np.zeros(len(weights.mark))
    delta[weights.touched[:n]] = weights.delta[:n]
    return delta


def feasible(net: ground_network.Network, state) -> bool:
    """Tell whether a state keeps the hard clauses, the variables and the evidence."""
    atoms, variables = net.size[ground_network.ATOMS], net.size[ground_network.VARIABLES]
    if not all(true(literals, state) for index, _, literals in clauses(net) if index < 0):
        return False
    for v in range(variables):
        count = int(state[net.var_start[v] : net.var_start[v + 1]].sum())
        if count > 1 or (net.exactly[v] and not count):
            return False
    fixed, values = net.fixed[:atoms], np.asarray(state)[:atoms]
    return bool(
        np.all(values[fixed == ground_network.TRUE])
        and not np.any(values[fixed == ground_network.FALSE])
    )
