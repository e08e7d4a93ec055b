"""The weights of Markov logic by template constants, their use for ground clauses, and gaps."""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.core.kernels.averaging import Averaged, add
from onlinesrl.core.kernels.covariance import widen
from onlinesrl.core.online.metric_steps import add_number, begin, note, shorten
from onlinesrl.core.online.update_rules.rule import UpdateParams
from onlinesrl.mln.kernels.elimination_order import Structure
from onlinesrl.mln.kernels.ground_network import (
    ATOMS,
    BARE,
    DEFINED,
    OPEN,
    ROWS,
    UNSEEN,
    Network,
    clause_true,
    either_true,
)
from onlinesrl.mln.kernels.grounding_frames import Plans
from onlinesrl.mln.kernels.sum_product import clause_probability, left_out

EPSILON = 2.0**-53  # a sum of n terms is off by at most n EPSILON times the sum of their sizes


class Weights(Averaged):
    """The weights, and the hash table from template constants to blocks of them."""

    key: Ints32  # [block, 1 + template variables] clause, constants
    block: Ints  # [block] first weight
    slot: Ints32  # hash table of blocks
    size: Ints  # weights, blocks
    block_size: Ints32  # [clause]
    keyed: Bytes  # [clause] 1: its template has constants outside the block
    default: Floats  # [clause] weight of constants never seen


@kernel
def _same_key(weights: Weights, block: int, c: int, key: Ints32) -> bool:
    if weights.key[block, 0] != c:
        return False
    for j in range(len(key)):
        if weights.key[block, j + 1] != key[j]:
            return False
    return True


@kernel
def find_slot(weights: Weights, c: int, key: Ints32) -> int:
    """Return the slot of a key's block, or the free slot for it."""
    mask = len(weights.slot) - 1
    h = np.uint64(14695981039346656037) ^ np.uint64(c)
    for k in key:
        h = (h ^ np.uint64(k)) * np.uint64(1099511628211)
        h ^= h >> np.uint64(31)
    at: int = np.int64(h & np.uint64(mask))  # type: ignore[assignment]
    while weights.slot[at] >= 0 and not _same_key(weights, weights.slot[at], c, key):
        at = (at + 1) & mask
    return at


@kernel
def add_block(weights: Weights, at: int, c: int, key: Ints32) -> int:
    """Append the block of a new key; returns its first weight, -1 if there is no room."""
    n, block = weights.size[0], weights.size[1]
    size = weights.block_size[c]
    if n + size > len(weights.uses) or 2 * (block + 1) > len(weights.slot):
        return -1
    if block == len(weights.block):
        return -1
    weights.slot[at] = block
    weights.key[block, 0] = c
    for j in range(len(key)):
        weights.key[block, j + 1] = key[j]
    weights.block[block] = n
    weights.value[n : n + size, 0] = weights.default[c]
    weights.size[0] += size
    weights.size[1] += 1
    return n


@kernel
def rehash(weights: Weights) -> None:
    """Fill an empty hash table from the keys."""
    for block in range(weights.size[1]):
        c = weights.key[block, 0]
        weights.slot[find_slot(weights, c, weights.key[block, 1:])] = block


@kernel
def _repeats(net: Network, r: int) -> bool:
    """Tell whether a row has the key of the row before, as the copies made by ``ground`` have."""
    if r == 0 or net.row_clause[r] != net.row_clause[r - 1] or net.row_weight[r - 1] < 0:
        return False
    if net.row_known[r] != net.row_known[r - 1]:
        return False
    for j in range(net.row_key.shape[1]):
        if net.row_key[r, j] != net.row_key[r - 1, j]:
            return False
    return True


@kernel
def number(plans: Plans, net: Network, weights: Weights, learning: bool) -> bool:
    """Give every soft row its first weight; new keys grow the table while learning. False: no room."""
    for r in range(net.size[ROWS]):
        if net.row_weight[r] < 0:
            continue
        c = net.row_clause[r]
        if net.row_known[r] == BARE:
            net.row_weight[r] = plans.first_weight[c] + net.row_offset[r]
            continue
        if _repeats(net, r):
            net.row_weight[r] = net.row_weight[r - 1] - net.row_offset[r - 1] + net.row_offset[r]
            continue
        first = plans.unseen_weight[c]
        if net.row_known[r] != UNSEEN:
            key = net.row_key[r]
            at = find_slot(weights, c, key)
            if weights.slot[at] >= 0:
                first = weights.block[weights.slot[at]]
            elif learning:
                first = add_block(weights, at, c, key)
                if first < 0:
                    return False
        net.row_weight[r] = first + net.row_offset[r]
    return True


@kernel
def effective(net: Network, value: Floats, cu: float, cv: float, weight: Floats) -> float:
    """Write the weight of each ground clause, factor * (base + cu u + cv v).

    Returns the sum of the absolute weights.
    """
    total = 0.0
    for r in range(net.size[ROWS]):
        i, step, factor = net.row_weight[r], net.row_step[r], net.row_factor[r]
        if i < 0:
            continue
        for g in range(net.clause_start[r], net.clause_start[r + 1]):
            w = factor * (value[i, 0] + cu * value[i, 1] + cv * value[i, 2])
            weight[g] = w
            total += abs(w)
            i += step
    return total


@kernel
def effective_both(
    net: Network, value: Floats, cu: float, cv: float, scale: float, weight: Floats, more: Floats
) -> tuple[float, float]:
    """Write the weights of ``effective`` for (cu, cv) to ``weight``, and for (scale, 0) to ``more``."""
    total, total_more = 0.0, 0.0
    for r in range(net.size[ROWS]):
        i, step, factor = net.row_weight[r], net.row_step[r], net.row_factor[r]
        if i < 0:
            continue
        for g in range(net.clause_start[r], net.clause_start[r + 1]):
            base, u, v = value[i, 0], value[i, 1], value[i, 2]
            w, m = factor * (base + cu * u + cv * v), factor * (base + scale * u + 0.0 * v)
            weight[g], more[g] = w, m
            total += abs(w)
            total_more += abs(m)
            i += step
    return total, total_more


@kernel
def by_true_atoms(net: Network, truth: Bytes, rival: Bytes, rho: float) -> float:
    """Return ``rho`` by the numbers of open atoms true in either state: 1 - F1 where costs are 1."""
    atoms = 0
    for a in range(net.size[ATOMS]):
        if net.fixed[a] == OPEN and not net.latent[a]:
            atoms += truth[a] + rival[a]
    return rho / atoms if atoms > 0 else rho


@kernel
def mean_cost(net: Network, truth: Bytes, rival: Bytes, cost: Floats) -> float:
    """Return the mean cost of the labelled atoms in which truth and rival differ; 1 where there are none."""
    atoms, total = 0, 0.0
    for a in range(net.size[ATOMS]):
        if truth[a] != rival[a] and net.fixed[a] != DEFINED and not net.latent[a]:
            atoms += 1
            total += cost[a]
    return total / atoms if atoms > 0 else 1.0


@kernel
def _may_change(net: Network, row: int) -> bool:
    """Tell whether some atom from the first to the last one of a literal of a row differs."""
    for p in range(net.lit_start[row], net.lit_start[row + 1]):
        a = net.lit_atom[p]
        if net.differ[a + (net.row_len[row] - 1) * net.lit_step[p] + 1] > net.differ[a]:
            return True
    return False


@kernel
def add_row(
    net: Network, weights: Weights, r: int, truth: Bytes, rival: Bytes, n: int, share: float
) -> tuple[int, int]:
    """Add ``share`` (f(truth) - f(rival)) of the clauses of row r to ``delta``.

    ``n`` weights were touched before. Returns how many are now, and how many numbers were added; 0 if each
    is 1 or -1, whose sums are exact.
    """
    terms, first = 0, net.row_weight[r]
    p = net.lit_start[r]
    literals = net.lit_start[r + 1] - p
    q = p + (literals == 2)
    for k in range(net.row_len[r]):
        if 1 <= literals <= 2:
            in_truth = either_true(net, p, q, k, truth)
            in_rival = either_true(net, p, q, k, rival)
        else:
            in_truth, in_rival = clause_true(net, r, k, truth), clause_true(net, r, k, rival)
        if in_truth != in_rival:
            x = net.row_factor[r] * (int(in_truth) - int(in_rival))
            n = add(weights, n, first + k * net.row_step[r], share * x)
            terms += 1
    return n, terms if abs(net.row_factor[r]) != 1.0 else 0


@kernel
def differences(net: Network, truth: Bytes, rival: Bytes, cost: Floats) -> float:
    """Find the atoms whose values differ, for ``add_rows``; returns rho."""
    rho = 0.0
    net.differ[0] = 0
    for a in range(net.size[ATOMS]):
        differs = truth[a] != rival[a]
        net.differ[a + 1] = net.differ[a] + differs  # how many up to this one differ
        if differs and net.fixed[a] != DEFINED and not net.latent[a]:
            rho += cost[a]
    return rho


@kernel
def add_rows(
    net: Network, weights: Weights, truth: Bytes, rival: Bytes, first: int, stop: int, n: int
) -> tuple[int, int]:
    """Add f(truth) - f(rival) of the clauses of rows to ``delta``; see ``differences`` and ``add_row``."""
    terms = 0
    if net.differ[net.size[ATOMS]] > 0:
        for r in range(first, stop):
            if net.row_weight[r] >= 0 and _may_change(net, r):
                n, count = add_row(net, weights, r, truth, rival, n, 1.0)
                terms += count
    return n, terms


@kernel
def gap(
    net: Network, weights: Weights, truth: Bytes, rival: Bytes, cost: Floats
) -> tuple[int, float]:
    """Accumulate Delta = f(truth) - f(rival) in ``delta``; returns how many weights it touched, and rho."""
    rho = differences(net, truth, rival, cost)
    n, terms = add_rows(net, weights, truth, rival, 0, net.size[ROWS], 0)
    drop_rounding(net, weights, terms)
    return n, rho


@kernel
def expected_gap(net: Network, weights: Weights, truths: Bytes, samples: Bytes) -> int:
    """Accumulate Delta = E f(truth) - E f(sample) in ``delta``; returns how many weights it touched.

    ``truths`` and ``samples`` are uint8[state, atom].
    """
    n, terms = 0, 0
    for r in range(net.size[ROWS]):
        first = net.row_weight[r]
        if first < 0:
            continue
        for k in range(net.row_len[r]):
            change = 0
            for s in range(len(truths)):
                change += int(clause_true(net, r, k, truths[s])) * len(samples)
            for s in range(len(samples)):
                change -= int(clause_true(net, r, k, samples[s])) * len(truths)
            if change != 0:
                x = net.row_factor[r] * change / (len(truths) * len(samples))
                n = add(weights, n, first + k * net.row_step[r], x)
                terms += 1
    drop_rounding(net, weights, terms)
    return n


@kernel
def log_loss_gap(
    net: Network,
    st: Structure,
    weights: Weights,
    weight: Floats,
    truth: Bytes,
    log_z: float,
    unary: Floats,
    table: Floats,
    false: Floats,
    n: int,
    sign: float,
) -> tuple[int, float]:
    """Add ``sign`` (f(truth) - E f) to ``delta``; returns how many weights it touches, and the entropy.

    ``n`` weights were touched before.

    ``log_z``, ``unary``, ``table`` and ``false`` are those of ``sum_product`` by ``weight`` [ground clause].
    The entropy of the states is log Z - <w, E f>, so that the loss that an update reports, the entropy less
    <w, Delta>, is that of the truth: - log P(truth).
    """
    entropy = log_z
    for r in range(net.size[ROWS]):
        first = net.row_weight[r]
        if first < 0:
            continue
        for k in range(net.row_len[r]):
            p = clause_probability(net, st, r, k, unary, table, false)
            entropy -= weight[net.clause_start[r] + k] * (p - left_out(net, st, r))
            x = float(int(clause_true(net, r, k, truth))) - p
            if abs(x) > EPSILON:
                n = add(weights, n, first + k * net.row_step[r], sign * net.row_factor[r] * x)
    return n, max(entropy, 0.0)


@kernel_of("units", None)
def sum_numbers(net: Network, weights: Weights, params: UpdateParams) -> None:
    """Sum up the numbers of a world by weights, give these units, and find how much its example counts.

    The gap is touched by the weights that count; see ``core.online.metric_steps``.
    """
    rows, params.share[0] = net.size[ROWS] if len(params.unit) > 0 else 0, 1.0
    for r in range(rows):
        first, x = net.row_weight[r], abs(net.row_factor[r])
        for k in range(net.row_len[r] if first >= 0 and x > 0.0 else 0):
            i = first + k * net.row_step[r]
            size = add_number(params, i, x)
            if size < x:
                shorten(weights, params, i, size)
    for r in range(rows):
        first = net.row_weight[r]
        for k in range(net.row_len[r] if first >= 0 else 0):
            begin(params, first + k * net.row_step[r])


@kernel_of("units", None)
def note_numbers(net: Network, weights: Weights, params: UpdateParams, learned: bool) -> None:
    """Let the sums of ``sum_numbers`` count in the means, if the world was ``learned`` from; clear them."""
    for r in range(net.size[ROWS] if len(params.unit) > 0 else 0):
        first = net.row_weight[r]
        for k in range(net.row_len[r] if first >= 0 else 0):
            note(weights, params, first + k * net.row_step[r], learned)


@kernel_of("covers", False)
def widen_rows(net: Network, weights: Weights, params: UpdateParams, n: int, more: Floats) -> bool:
    """Note how much one ground clause counts for the ``n`` weights that the gap touches.

    ``more`` [place] gets what larger features add to the information of a weight; True: there are some.
    """
    more[:n], larger = 0.0, False
    for r in range(net.size[ROWS]):
        first = net.row_weight[r]
        for k in range(net.row_len[r] if first >= 0 else 0):
            i = first + k * net.row_step[r]
            if weights.mark[i]:
                added = widen(params.covariance, i, net.row_factor[r], params.constant)
                more[weights.mark[i] - 1] += added
                larger |= added > 0.0
    return larger


@kernel
def score_gap(
    net: Network,
    st: Structure,
    weight: Floats,
    truth: Bytes,
    unary: Floats,
    table: Floats,
    false: Floats,
) -> float:
    """Return <w, f(truth) - E f>, 0 where it is within the error of rounding; see ``log_loss_gap``."""
    gap, terms, total = 0.0, 0, 0.0
    for r in range(net.size[ROWS]):
        if net.row_weight[r] < 0:
            continue
        for k in range(net.row_len[r]):
            p = clause_probability(net, st, r, k, unary, table, false)
            w = weight[net.clause_start[r] + k]
            gap += w * (float(int(clause_true(net, r, k, truth))) - p)
            total += abs(w)
            terms += 1
    return gap if abs(gap) > terms * EPSILON * total else 0.0


@kernel
def drop_rounding(net: Network, weights: Weights, terms: int) -> None:
    """Set numbers of Delta to 0 that are within the rounding error of a sum of so many ``terms``.

    Factors that cancel may leave 1e-17, along which an unbounded step would be immense. A sum is of numbers
    as large as a ground clause of its weight counts.
    """
    for r in range(net.size[ROWS] if terms > 0 else 0):
        first, error = net.row_weight[r], terms * EPSILON * (terms * abs(net.row_factor[r]))
        for k in range(net.row_len[r] if first >= 0 else 0):
            place = weights.mark[first + k * net.row_step[r]] - 1
            if place >= 0 and abs(weights.delta[place]) <= error:
                weights.delta[place] = 0.0
