"""One pass over packed worlds: ground, predict, score, find the rival, update. Strictly one by one.

The weights are read and written by number only; nothing here depends on how many there are.
"""

import numpy as np

from onlinesrl.kernels.elimination import SOLVED, TABLES_FULL, Structure, eliminate, structure
from onlinesrl.kernels.frames import Frame
from onlinesrl.kernels.ground import (
    FOUND,
    GROW_ATOMS,
    OK,
    Batch,
    Plans,
    Scratch,
    find_atom,
    ground_world,
    radix_key,
)
from onlinesrl.kernels.jit import kernel
from onlinesrl.kernels.network import (
    ATOMS,
    DEFINED,
    FALSE,
    OPEN,
    ROWS,
    TRUE,
    VARIABLES,
    Bytes,
    Floats,
    Ints,
    Ints32,
    Network,
    broken_group,
    clause_true,
    define,
    soft_score,
    violated_hard,
)
from onlinesrl.kernels.updates import scale, shrinks, step

GROW_WEIGHTS, GROW_TABLES, GROW_OUTPUT = 4, 5, 6
EXTERNAL, OVER_LIMIT, AUDIT, STOPPED = 8, 9, 10, 11
TRUTH_NOT_OPEN, TRUTH_BREAKS_GROUP, TRUTH_BREAKS_RULE, INFEASIBLE = 14, 15, 16, 17
OVERFLOW = 24
HUGE = 1e150  # no sum of an update may be larger, so that its squares and averages are finite too

ELIMINATION, ILP = 0, 1
HITS, FALSE_ALARMS, MISSES, UNITS, RIGHT_UNITS, HAMMING, EXACT = 0, 1, 2, 3, 4, 5, 6


class Weights(Frame):
    """The weights, and the hash table from template constants to blocks of them."""

    value: Floats  # [weight, 3] base, u, v: the mean of w_2 .. w_{T+1} is base + (S u - v) / T
    uses: Ints  # [weight] updates it took part in
    delta: Floats  # [weight] scratch, all zero between updates
    mark: Bytes  # [weight] scratch, 1: touched by this update
    touched: Ints  # [weight] scratch
    key: Ints32  # [block, 1 + template variables] clause, constants
    block: Ints  # [block] first weight
    slot: Ints32  # hash table of blocks
    size: Ints  # weights, blocks
    block_size: Ints32  # [clause]
    keyed: Bytes  # [clause] 1: its template has constants outside the block
    default: Floats  # [clause] weight of constants never seen
    scalar: Floats  # see the numbers below


T, S, NORM, DUAL, PRIMAL, LOSS = 0, 1, 2, 3, 4, 5


class Settings(Frame):
    """What a run fixes."""

    rule: int
    augmented: bool  # the rival maximises rho + score (ML), else score (PL)
    sigma: float
    eta: float
    max_atoms: int
    max_groundings: int
    max_weights: int
    by_query: int  # -1, or the query predicate whose argument values are counted one by one
    by_argument: int  # the place of that argument in radix order
    margins: bool  # how far ahead of every other state the prediction is


class Output(Frame):
    """What is said of each world."""

    status: Ints32  # [world]
    detail: Ints  # [world] clause, variable or tuple that the status is about
    route: Ints32  # [world]
    counts: Ints  # [world, 7] HITS .. EXACT
    score: Floats  # [world]
    loss: Floats  # [world] hinge loss g_t(w_t)
    margin: Floats  # [world] score less that of the second best state; infinite: there is no other
    true_start: Ints  # [world + 1]
    true_query: Ints32  # true and predicted atoms: query predicate
    true_key: Ints  # and number among its groundings
    true_mark: Bytes  # 1: predicted, 2: true, 3: both
    class_start: Ints  # [world + 1]
    by_class: Ints  # [class, 3] hits, false alarms, misses
    begun: Ints  # the numbers of weights and of blocks before the world that was begun last


class State(Frame):
    """Scratch states of one world, [atom]."""

    truth: Bytes
    predicted: Bytes
    rival: Bytes
    bonus: Floats


@kernel
def _hash(key: Ints32, c: int) -> np.uint64:
    h = np.uint64(14695981039346656037) ^ np.uint64(c)
    for k in key:
        h = (h ^ np.uint64(k)) * np.uint64(1099511628211)
        h ^= h >> np.uint64(31)
    return h


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
    """Return the slot that holds the block of a key, or the free one where it would go."""
    mask = len(weights.slot) - 1
    at: int = np.int64(_hash(key, c) & np.uint64(mask))  # type: ignore[assignment]
    while weights.slot[at] >= 0 and not _same_key(weights, weights.slot[at], c, key):
        at = (at + 1) & mask
    return at


@kernel
def add_block(weights: Weights, at: int, c: int, key: Ints32) -> int:
    """Append the block of a new key; returns its first weight, -1: no room."""
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
def assign_weights(
    plans: Plans, net: Network, s: Scratch, weights: Weights, learning: bool
) -> bool:
    """Give every soft row its first weight; new keys grow the table while learning. False: no room."""
    for r in range(net.size[ROWS]):
        if net.row_weight[r] < 0:
            continue
        c = net.row_clause[r]
        key = s.row_key[r]
        seen, plain = True, not weights.keyed[c]
        for k in key:
            seen &= k >= 0
            plain &= k == 0
        first = plans.first_weight[c] if plain else plans.unseen_weight[c]
        if seen and not plain:
            at = find_slot(weights, c, key)
            if weights.slot[at] >= 0:
                first = weights.block[weights.slot[at]]
            elif learning:
                first = add_block(weights, at, c, key)
                if first < 0:
                    return False
        net.row_weight[r] = first + s.row_offset[r]
    return True


@kernel
def mean(weights: Weights) -> tuple[float, float]:
    """Return (cu, cv): the averaged weight is base + cu u + cv v."""
    t = weights.scalar[T]
    if t == 0.0:
        return 0.0, 0.0
    return weights.scalar[S] / t, -1.0 / t


@kernel
def _named_atom(
    plans: Plans, batch: Batch, w: int, q: int, slot: int, i: int, net: Network, s: Scratch
) -> int:
    """Return the atom of tuple i of the truth; -1: it is not open, -2: not of the world's constants."""
    row = batch.start[w, slot] + i * plans.arity[slot]
    for j in range(row, row + plans.arity[slot]):
        if batch.data[j] < 0:
            return -2
    return find_atom(batch, w, q, radix_key(plans, batch, w, q, slot, i, s), net, s)


@kernel
def read_truth(
    plans: Plans, batch: Batch, w: int, net: Network, s: Scratch, truth: Bytes
) -> tuple[int, int]:
    """Write the true state; returns a status and what it is about."""
    truth[: net.size[ATOMS]] = 0
    for a in range(net.size[ATOMS]):
        truth[a] = net.fixed[a] == TRUE
    for q in range(len(plans.query_truth)):
        for slot, value in ((plans.query_truth[q], 1), (plans.query_denied[q], 0)):
            for i in range(batch.count[w, slot]):
                atom = _named_atom(plans, batch, w, q, slot, i, net, s)
                if atom == -1 and value == 0 and batch.listed[w] == FOUND:
                    continue  # hard rules say so, too
                if atom < 0 or net.fixed[atom] == (FALSE if value else TRUE):
                    return TRUTH_NOT_OPEN, (slot << 32) | i
                truth[atom] = value
    define(net, truth)
    v = broken_group(net, truth)
    if v >= 0:
        return TRUTH_BREAKS_GROUP, v
    c = violated_hard(net, truth)
    if c >= 0:
        return TRUTH_BREAKS_RULE, c
    return OK, -1


@kernel
def prepare(
    plans: Plans,
    batch: Batch,
    w: int,
    net: Network,
    s: Scratch,
    st: Structure,
    state: State,
    weights: Weights,
    settings: Settings,
    learning: bool,
) -> tuple[int, int]:
    """Ground a world, check its truth, number its weights and find its structure."""
    status, detail = ground_world(
        plans, batch, w, net, s, settings.max_atoms, settings.max_groundings
    )
    if status == OK and batch.labelled[w]:
        status, detail = read_truth(plans, batch, w, net, s, state.truth)
    if status != OK:
        return status, detail
    if not assign_weights(plans, net, s, weights, learning and batch.labelled[w] == 1):
        return GROW_WEIGHTS, -1
    found = structure(net, st)
    if found == TABLES_FULL:
        return GROW_TABLES, -1
    return (OK, -1) if found == SOLVED else (EXTERNAL, -1)


@kernel
def set_bonus(net: Network, state: State, augmented: bool) -> None:
    """Make the Hamming loss, up to its constant, a bonus an atom; or no bonus."""
    for a in range(net.size[ATOMS]):
        state.bonus[a] = 0.0
        if augmented and net.fixed[a] == OPEN:
            state.bonus[a] = -1.0 if state.truth[a] else 1.0


@kernel
def _gap(net: Network, weights: Weights, truth: Bytes, rival: Bytes) -> int:
    """Accumulate Delta = f(truth) - f(rival) in ``delta``; returns how many weights it touched."""
    n = 0
    for r in range(net.size[ROWS]):
        first = net.row_weight[r]
        if first < 0:
            continue
        for k in range(net.row_len[r]):
            differs = False
            for p in range(net.lit_start[r], net.lit_start[r + 1]):
                a = net.lit_atom[p] + k * net.lit_step[p]
                differs |= truth[a] != rival[a]
            if not differs:
                continue
            change = int(clause_true(net, r, k, truth)) - int(clause_true(net, r, k, rival))
            if change != 0:
                i = first + k * net.row_step[r]
                if not weights.mark[i]:
                    weights.mark[i] = 1
                    weights.touched[n] = i
                    n += 1
                weights.delta[i] += net.row_sign[r] * change
    return n


@kernel
def _in_range(weights: Weights, n: int, c: float) -> bool:
    """Tell whether a step of ``c`` along ``delta`` leaves the touched weights finite."""
    value, delta, s = weights.value, weights.delta, weights.scalar[S]
    for j in range(n):
        i = weights.touched[j]
        if not abs(value[i, 1] + c * delta[i]) <= HUGE:
            return False
        if not abs(value[i, 2] + c * delta[i] * s) <= HUGE:
            return False
    return True


@kernel
def learn_world(
    net: Network, weights: Weights, truth: Bytes, rival: Bytes, settings: Settings
) -> float:
    """Make one update towards the truth and away from the rival; returns the loss g_t(w_t).

    NaN: some number would not be finite, or NaN; nothing has been changed.
    """
    rule, sigma, scalar = settings.rule, settings.sigma, weights.scalar
    rho = 0.0
    for a in range(net.size[ATOMS]):
        rho += net.fixed[a] != DEFINED and truth[a] != rival[a]
    n = _gap(net, weights, truth, rival)
    value, delta = weights.value, weights.delta
    norm, dot, margin = 0.0, 0.0, rho
    for j in range(n):
        i = weights.touched[j]
        norm += delta[i] * delta[i]
        dot += value[i, 1] * delta[i]
        margin -= value[i, 0] * delta[i]
    t = int(scalar[T]) + 1
    s_t = scale(rule, t)
    loss = max(0.0, margin - s_t * dot)
    c, alpha = step(rule, t, margin, dot, norm, sigma, settings.eta)
    primal = scalar[PRIMAL] + loss
    if shrinks(rule):
        primal += 0.5 * sigma * s_t * s_t * scalar[NORM]
    length = scalar[NORM] + (2.0 * c * dot + c * c * norm)
    dual = scalar[DUAL] + alpha * margin
    fits = abs(primal) <= HUGE and abs(length) <= HUGE and abs(dual) <= HUGE
    fits = fits and _in_range(weights, n, c)
    for j in range(n):
        i = weights.touched[j]
        if fits and c != 0.0 and delta[i] != 0.0:
            value[i, 1] += c * delta[i]
            value[i, 2] += c * delta[i] * scalar[S]
            weights.uses[i] += 1
        delta[i] = 0.0
        weights.mark[i] = 0
    if not fits:
        return np.nan
    scalar[PRIMAL], scalar[NORM], scalar[DUAL] = primal, length, dual
    scalar[LOSS] += loss
    scalar[S] += scale(rule, t + 1)
    scalar[T] = t
    return loss


@kernel
def _radix_of(batch: Batch, w: int, net: Network, s: Scratch, q: int, a: int) -> int:
    return net.key[a] if batch.listed[w] else a - s.query_base[q]


@kernel
def _record_atoms(
    plans: Plans,
    batch: Batch,
    w: int,
    net: Network,
    s: Scratch,
    state: State,
    settings: Settings,
    out: Output,
) -> bool:
    """Write the true and predicted atoms, and the counts by class; False: no room."""
    at = out.true_start[w]
    out.by_class[out.class_start[w] : out.class_start[w + 1], :] = 0
    for q in range(len(plans.query_group)):
        for a in range(s.query_base[q], s.query_base[q + 1]):
            if net.fixed[a] != OPEN:
                continue
            predicted, true = state.predicted[a], batch.labelled[w] and state.truth[a]
            if not predicted and not true:
                continue
            key = _radix_of(batch, w, net, s, q, a)
            if at == len(out.true_key):
                return False
            out.true_query[at], out.true_key[at] = q, key
            out.true_mark[at] = (1 if predicted else 0) + (2 if true else 0)
            at += 1
            if q == settings.by_query and batch.labelled[w]:
                j = plans.query_start[q] + settings.by_argument
                kind = plans.query_type[j]
                number = out.class_start[w] + key // s.query_stride[j] % batch.domain[w, kind]
                out.by_class[number, 0 if predicted and true else 1 if predicted else 2] += 1
    out.true_start[w + 1] = at
    return True


@kernel
def _closed_units(plans: Plans, batch: Batch, w: int, net: Network, s: Scratch) -> int:
    """Return how many units hard rules have closed, each of which is right.

    They are the groups of atoms that have no variable, and those whose listed atoms evidence fixes
    while there are others.
    """
    units = 0
    for q in range(len(plans.query_group)):
        stop = plans.query_start[q + 1]
        groups, width = 1, 1
        for j in range(plans.query_start[q], stop):
            if j < stop - plans.query_grouped[q]:
                groups *= batch.domain[w, plans.query_type[j]]
            else:
                width *= batch.domain[w, plans.query_type[j]]
        units += groups if width > 0 else 0
        first, last = s.query_base[q], s.query_base[q + 1]
        while first < last:
            v, fixed = net.var_of[first], 0
            for a in range(net.var_start[v], net.var_start[v + 1]):
                fixed += net.fixed[a] != OPEN
            size = net.var_start[v + 1] - net.var_start[v]
            units -= fixed < size or fixed == width
            first += size
    return units


@kernel
def _count(net: Network, state: State, count: Ints) -> None:
    """Count atoms and units (variables with an open atom), right and wrong."""
    count[:] = 0
    for v in range(net.size[VARIABLES]):
        units, wrong = 0, 0
        for a in range(net.var_start[v], net.var_start[v + 1]):
            if net.fixed[a] != OPEN:
                continue
            units = 1
            predicted, true = state.predicted[a], state.truth[a]
            wrong += predicted != true
            count[HITS] += predicted & true
            count[FALSE_ALARMS] += predicted & (1 - true)
            count[MISSES] += true & (1 - predicted)
        count[UNITS] += units
        count[RIGHT_UNITS] += units * (wrong == 0)
        count[HAMMING] += wrong
    count[EXACT] = count[HAMMING] == 0


@kernel
def record(
    plans: Plans,
    batch: Batch,
    w: int,
    net: Network,
    s: Scratch,
    state: State,
    weights: Weights,
    settings: Settings,
    route: int,
    out: Output,
) -> bool:
    """Write what is said of a world's prediction, before any update; False: no room."""
    if not _record_atoms(plans, batch, w, net, s, state, settings, out):
        return False
    cu, cv = mean(weights)
    out.status[w] = OK
    out.route[w] = route
    out.score[w] = soft_score(net, state.predicted, weights.value, cu, cv)
    out.counts[w, :] = 0
    if batch.labelled[w]:
        _count(net, state, out.counts[w])
        if batch.listed[w] == FOUND:
            closed = _closed_units(plans, batch, w, net, s)
            out.counts[w, UNITS] += closed
            out.counts[w, RIGHT_UNITS] += closed
    return True


@kernel
def _solve(
    net: Network,
    st: Structure,
    state: State,
    weights: Weights,
    settings: Settings,
    learning: bool,
) -> bool:
    """Predict with the averaged weights, and find the rival with the current ones."""
    set_bonus(net, state, False)
    cu, cv = mean(weights)
    value = weights.value
    if eliminate(net, st, value, cu, cv, state.bonus, state.predicted) == -np.inf:
        return False
    if learning:
        set_bonus(net, state, settings.augmented)
        s_t = scale(settings.rule, int(weights.scalar[T]) + 1)
        eliminate(net, st, value, s_t, 0.0, state.bonus, state.rival)
    return True


@kernel
def _without(net: Network, v: int, state: Bytes) -> tuple[int, int]:
    """Forbid the value that a variable has in a state; returns what ``_again`` needs to undo it."""
    for a in range(net.var_start[v], net.var_start[v + 1]):
        if state[a]:
            old = net.fixed[a]
            net.fixed[a] = FALSE
            return a, old
    old = net.exactly[v]
    net.exactly[v] = 1
    return -1, old


@kernel
def _again(net: Network, v: int, atom: int, old: int) -> None:
    if atom >= 0:
        net.fixed[atom] = old
    else:
        net.exactly[v] = old


@kernel
def margin(net: Network, st: Structure, state: State, weights: Weights, score: float) -> float:
    """Return ``score`` less the score of the best state other than the predicted one.

    Another state differs in some variable, so it is the best of those that the prediction's value of
    one variable is forbidden to, over all variables. Infinite where there is no other state.
    """
    set_bonus(net, state, False)
    cu, cv = mean(weights)
    second = -np.inf
    for v in range(net.size[VARIABLES]):
        if st.stop[0]:
            break
        atom, old = _without(net, v, state.predicted)
        found = eliminate(net, st, weights.value, cu, cv, state.bonus, state.rival)
        if found > -np.inf and not (atom >= 0 and old == TRUE):
            second = max(second, soft_score(net, state.rival, weights.value, cu, cv))
        _again(net, v, atom, old)
    return score - second


@kernel
def run_batch(
    plans: Plans,
    batch: Batch,
    first: int,
    external: Bytes,
    net: Network,
    s: Scratch,
    st: Structure,
    state: State,
    weights: Weights,
    settings: Settings,
    learning: bool,
    out: Output,
) -> tuple[int, int]:
    """Take the worlds from ``first`` on, one by one; returns the world it stopped at and why.

    GROW_*: more room is needed, call again from that world. EXTERNAL: the world is prepared, and its
    inference is for another engine. AUDIT: the world is prepared, and is to be audited before it is
    taken. OVER_LIMIT: the world is done, and there are more weights than ``max_weights``. STOPPED:
    ``st.stop`` asked to leave the world, nothing has been learned from it. A world that is in error
    gets its status and the pass goes on.
    """
    for w in range(first, len(batch.listed)):
        out.true_start[w + 1] = out.true_start[w]
        if w > first:
            out.begun[0], out.begun[1] = weights.size[0], weights.size[1]
        status, detail = prepare(plans, batch, w, net, s, st, state, weights, settings, learning)
        if st.stop[0]:
            return w, STOPPED
        if GROW_ATOMS <= status <= GROW_TABLES:
            return w, status
        if status == EXTERNAL or (status == OK and external[w]):
            return w, AUDIT if external[w] == AUDIT else EXTERNAL
        update = learning and batch.labelled[w] == 1
        if status == OK and not _solve(net, st, state, weights, settings, update):
            status = INFEASIBLE
        if st.stop[0]:
            return w, STOPPED
        if status != OK:
            out.status[w], out.detail[w] = status, detail
            continue
        if not record(plans, batch, w, net, s, state, weights, settings, ELIMINATION, out):
            return w, GROW_OUTPUT
        if settings.margins and not learning:
            out.margin[w] = margin(net, st, state, weights, out.score[w])
            if st.stop[0]:
                return w, STOPPED
        if update:
            out.loss[w] = learn_world(net, weights, state.truth, state.rival, settings)
            if np.isnan(out.loss[w]):
                out.status[w] = OVERFLOW
            if weights.size[0] > settings.max_weights:
                return w, OVER_LIMIT
    return len(batch.listed), OK
