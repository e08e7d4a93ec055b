"""Chains of labels: their best labelling, their marginals, and gaps to the truth.

The model is ``Feature(+f, t) ^ Label(t, +y)`` and ``Next(t, u) ^ Label(t, +y) ^ Label(u, +z)``, but it is
not ground. With K labels, weight (row, z) stands at K row + z. Row y < K has the weights of the steps from
label y. A feature gets a row at the first gap that has it, or with its first number where features have
units. A score is the sum of number * weight over the features and steps that hold. A wrong label counts as
two wrong atoms, which cost 1 each, or what the true label costs.
"""

import math

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.averaging import Averaged, add
from onlinesrl.core.online.averaged_weights import learn
from onlinesrl.core.online.metric_steps import add_number, begin, note, shorten
from onlinesrl.core.online.update_rules.rule import UpdateParams

FAR = 2.0**20
"""Scores beyond this are made relative to each other; sums below it are exact to a billionth."""
WIDE = 100.0
"""Where scores of steps differ by less, labels whose own odds are 0 as a double have no probability."""


class Chains(Frame):
    """Chains of positions, one after the other; a position has features and a label."""

    start: Ints  # [chain + 1] first position
    first: Ints  # [position + 1] first feature
    feature: Ints32  # its number; < 0: has no weights
    number: Floats  # [feature] its factor; empty: all are 1
    label: Ints  # [position] the true label


class FeatureWeights(Averaged):
    """The weights in rows; the rows of features are in the order of their first gaps."""

    row: Ints32  # [feature] its row; 0: it has none, all its weights are 0
    size: Ints  # [1] rows; there is room for one of each feature


class Scores(Frame):
    """Scores and states of one chain, in memory that is reused."""

    local: Floats  # [position, label]
    best: Floats  # [position, label] the best score of a labelling that ends here in the label
    step: Floats  # [label, label]
    before: Ints  # [position, label] the previous label in this best labelling
    path: Ints  # [position]


class Ranked(Frame):
    """The best labellings of one chain that end in a label, in memory that is reused."""

    best: Floats  # [position, label, rank] their scores, from the highest
    before: Ints  # [position, label, rank] the previous label * ranks + its rank
    path: Ints  # [rank, position]


class Sums(Frame):
    """Sums over the labellings of one chain, in memory that is reused."""

    probability: Floats  # [position, label]
    steps: Floats  # [label, label] the expected number of steps
    local: Floats  # [position, label] odds by the position's own features; or the logs of sums behind it
    odds: Floats  # [label, label] those of a step
    ahead: Floats  # [label] the sums behind a position, relative to each other
    sums: Floats  # [label]


@kernel
def number(chains: Chains, j: int) -> float:
    """Return the factor of a feature."""
    return chains.number[j] if len(chains.number) > 0 else 1.0


@kernel
def row_of(w: FeatureWeights, feature: int) -> int:
    """Return the row of a feature, a new one if it has none."""
    if w.row[feature] == 0:
        w.row[feature] = w.size[0]
        w.size[0] += 1
    return w.row[feature]


@kernel
def _relative(scores: Floats, t: int, k: int) -> None:
    """Make the scores of a position's labels relative to the largest one, if that is far from 0.

    Only their differences count, and a large common part would swallow small scores added later.
    """
    top = -np.inf
    for z in range(k):
        top = max(top, scores[t, z])
    if abs(top) > FAR:
        for z in range(k):
            scores[t, z] -= top


@kernel
def score(
    chains: Chains, c: int, w: FeatureWeights, cu: float, cv: float, k: int, s: Scores
) -> None:
    """Write ``local`` and ``step`` of a chain, by the weights cu u + cv v of ``k`` labels."""
    for y in range(k):
        for z in range(k):
            i = k * y + z
            s.step[y, z] = cu * w.value[i, 0] + cv * w.value[i, 1]
    begin = chains.start[c]
    for t in range(begin, chains.start[c + 1]):
        for z in range(k):
            s.local[t - begin, z] = 0.0
        for j in range(chains.first[t], chains.first[t + 1]):
            feature = chains.feature[j]
            if feature < 0 or w.row[feature] == 0:
                continue
            first, x = k * w.row[feature], number(chains, j)
            for z in range(k):
                i = first + z
                weight = cu * w.value[i, 0] + cv * w.value[i, 1]
                s.local[t - begin, z] += x * weight
        _relative(s.local, t - begin, k)


@kernel
def viterbi(n: int, k: int, s: Scores) -> None:
    """Write the labelling of ``n`` positions of highest score to ``path``; the first label wins a tie."""
    for t in range(n):
        for z in range(k):
            before, best = 0, 0.0
            if t > 0:
                best = -np.inf
                for y in range(k):
                    x = s.best[t - 1, y] + s.step[y, z]
                    if x > best:
                        before, best = y, x
            s.before[t, z] = before
            s.best[t, z] = best + s.local[t, z]
        _relative(s.best, t, k)
    for t in range(n - 1, -1, -1):
        if t < n - 1:
            s.path[t] = s.before[t + 1, s.path[t + 1]]
            continue
        s.path[t] = 0
        for z in range(1, k):
            if s.best[t, z] > s.best[t, s.path[t]]:
                s.path[t] = z


@kernel
def predict(
    chains: Chains, c: int, w: FeatureWeights, cu: float, cv: float, k: int, s: Scores
) -> None:
    """Write the best labelling of a chain to ``path``."""
    score(chains, c, w, cu, cv, k, s)
    viterbi(chains.start[c + 1] - chains.start[c], k, s)


@kernel
def _insert(best: Floats, before: Ints, x: float, place: int) -> bool:
    """Insert a score behind those that are no lower; tells whether it is among the best."""
    r = len(best) - 1
    if not x > best[r]:
        return False
    while r > 0 and x > best[r - 1]:
        best[r], before[r] = best[r - 1], before[r - 1]
        r -= 1
    best[r], before[r] = x, place
    return True


@kernel
def best_labellings(n: int, k: int, s: Scores, m: Ranked) -> int:
    """Write the labellings of ``n`` positions of highest score to ``path``; returns how many there are.

    A label of a position keeps the best labellings that end in it (Soong & Huang 1991, list Viterbi). The
    first labels win a tie.
    """
    ranks = len(m.path)
    m.best[: n + 1] = -np.inf
    for z in range(k):
        m.best[0, z, 0] = s.local[0, z]
    for t in range(1, n + 1):
        for z in range(k if t < n else 1):  # behind the last position, the best of all
            for y in range(k):
                for r in range(ranks):
                    x = m.best[t - 1, y, r] + (s.step[y, z] if t < n else 0.0)
                    if not _insert(m.best[t, z], m.before[t, z], x, y * ranks + r):
                        break
            for r in range(ranks if t < n else 0):
                m.best[t, z, r] += s.local[t, z]
    paths = 0
    while paths < ranks and m.best[n, 0, paths] > -np.inf:
        label, rank = 0, paths
        for t in range(n, 0, -1):
            label, rank = divmod(m.before[t, label, rank], ranks)
            m.path[paths, t - 1] = label
        paths += 1
    return paths


@kernel
def gap(
    chains: Chains, c: int, w: FeatureWeights, k: int, s: Scores, cost: Floats
) -> tuple[int, float]:
    """Accumulate Delta = f(truth) - f(path) in ``delta``; returns how many weights it touched, and rho."""
    n, rho, begin = 0, 0.0, chains.start[c]
    for t in range(begin, chains.start[c + 1]):
        y, z = chains.label[t], s.path[t - begin]
        differs = y != z
        if differs:
            rho += 2.0 * cost[y]
            for j in range(chains.first[t], chains.first[t + 1]):
                if chains.feature[j] >= 0:
                    first, x = k * row_of(w, chains.feature[j]), number(chains, j)
                    n = add(w, n, first + y, x)
                    n = add(w, n, first + z, -x)
        if t > begin and (differs or chains.label[t - 1] != s.path[t - 1 - begin]):
            n = add(w, n, k * chains.label[t - 1] + y, 1.0)
            n = add(w, n, k * s.path[t - 1 - begin] + z, -1.0)
    return n, rho


@kernel
def find_gap(
    chains: Chains,
    c: int,
    w: FeatureWeights,
    cu: float,
    augmented: bool,
    k: int,
    s: Scores,
    cost: Floats,
) -> tuple[int, float]:
    """Find the rival of the truth by the weights cu u, and the gap to it; see ``gap``.

    ``cost`` [label] is what an atom of a position costs, by its true label.
    """
    begin, size = chains.start[c], chains.start[c + 1] - chains.start[c]
    score(chains, c, w, cu, 0.0, k, s)
    for t in range(size if augmented else 0):  # the label loss, up to a constant
        for z in range(k):
            wrong = cost[chains.label[begin + t]]
            s.local[t, z] += -wrong if z == chains.label[begin + t] else wrong
    viterbi(size, k, s)
    return gap(chains, c, w, k, s, cost)


@kernel
def _log_sum(values: Floats) -> float:
    top, total = -np.inf, 0.0
    for x in values:
        top = max(top, x)
    for x in values:
        total += math.exp(x - top)
    return top + math.log(total)


@kernel
def _normalise(values: Floats, k: int) -> float:
    """Divide by the sum, which is returned."""
    total = 0.0
    for z in range(k):
        total += values[z]
    for z in range(k):
        values[z] /= total
    return total


@kernel
def _sum_out(n: int, k: int, top: float, s: Scores, m: Sums) -> float:
    """Sum over labellings, from the first position to the last and back, in odds relative to the largest.

    ``top`` is the largest score of a step. Returns log Z; see ``sum_product``.
    """
    log_z = (n - 1) * top
    for y in range(k):
        for z in range(k):
            m.odds[y, z] = math.exp(s.step[y, z] - top)
            m.steps[y, z] = 0.0
    for t in range(n):
        best, p = -np.inf, m.probability[t]
        for z in range(k):
            best = max(best, s.local[t, z])
            p[z] = 0.0 if t > 0 else 1.0
        for y in range(k if t > 0 else 0):
            for z in range(k):
                p[z] += m.probability[t - 1, y] * m.odds[y, z]
        for z in range(k):
            m.local[t, z] = math.exp(s.local[t, z] - best)
            p[z] *= m.local[t, z]
        log_z += best + math.log(_normalise(p, k))
    for z in range(k):
        m.ahead[z] = 1.0
    for t in range(n - 2, -1, -1):
        p = m.probability[t]
        for z in range(k):
            m.ahead[z] *= m.local[t + 1, z]
        total = 0.0
        for y in range(k):
            m.sums[y] = 0.0
            for z in range(k):
                m.sums[y] += m.odds[y, z] * m.ahead[z]
            total += p[y] * m.sums[y]
        for y in range(k):
            share = p[y] / total
            for z in range(k):
                m.steps[y, z] += share * m.odds[y, z] * m.ahead[z]
            p[y] = share * m.sums[y]
        for y in range(k):
            m.ahead[y] = m.sums[y]
        _normalise(m.ahead, k)
    return log_z


@kernel
def _sum_logs(n: int, k: int, s: Scores, m: Sums) -> float:
    """Do what ``_sum_out`` does, in logarithms, for steps whose scores differ by more than ``WIDE``."""
    log_z = 0.0
    for y in range(k):
        for z in range(k):
            m.steps[y, z] = 0.0
    for t in range(n):
        for z in range(k):
            for y in range(k):
                m.sums[y] = s.best[t - 1, y] + s.step[y, z] if t > 0 else 0.0
            s.best[t, z] = s.local[t, z] + (_log_sum(m.sums) if t > 0 else 0.0)
        total = _log_sum(s.best[t])
        log_z += total
        for z in range(k):
            s.best[t, z] -= total
    for z in range(k):
        m.local[n - 1, z] = 0.0
        m.probability[n - 1, z] = math.exp(s.best[n - 1, z])
    for t in range(n - 2, -1, -1):
        for y in range(k):
            for z in range(k):
                m.sums[z] = s.step[y, z] + s.local[t + 1, z] + m.local[t + 1, z]
            m.local[t, y] = _log_sum(m.sums)
        for y in range(k):
            m.sums[y] = s.best[t, y] + m.local[t, y]
        total = _log_sum(m.sums)
        for y in range(k):
            m.probability[t, y] = math.exp(m.sums[y] - total)
            for z in range(k):
                ahead = s.step[y, z] + s.local[t + 1, z] + m.local[t + 1, z]
                m.steps[y, z] += math.exp(s.best[t, y] + ahead - total)
        _relative(m.local, t, k)
    return log_z


@kernel
def sum_product(n: int, k: int, s: Scores, m: Sums) -> float:
    """Write the probability of each label and the expected number of each step (forward-backward).

    Returns log Z by ``local`` and ``step`` of ``s``, 0 without positions.
    """
    low, top = np.inf, -np.inf
    for y in range(k):
        for z in range(k):
            low, top = min(low, s.step[y, z]), max(top, s.step[y, z])
    if n == 0:
        return 0.0
    return _sum_out(n, k, top, s, m) if top - low < WIDE else _sum_logs(n, k, s, m)


@kernel
def marginals(
    chains: Chains, c: int, w: FeatureWeights, cu: float, cv: float, k: int, s: Scores, m: Sums
) -> None:
    """Write the probability of each label of a chain to ``probability``."""
    score(chains, c, w, cu, cv, k, s)
    sum_product(chains.start[c + 1] - chains.start[c], k, s, m)


@kernel
def temperature_slope(
    chains: Chains, c: int, w: FeatureWeights, cu: float, cv: float, k: int, s: Scores, m: Sums
) -> float:
    """Return score(truth) - E score by the weights cu u + cv v.

    For weights b w it is the derivative of log P(truth) by log b, b the inverse temperature.
    """
    begin, size = chains.start[c], chains.start[c + 1] - chains.start[c]
    score(chains, c, w, cu, cv, k, s)
    sum_product(size, k, s, m)
    slope = 0.0
    for t in range(size):
        y = chains.label[begin + t]
        slope += s.local[t, y]
        for z in range(k):
            slope -= m.probability[t, z] * s.local[t, z]
        if t > 0:
            slope += s.step[chains.label[begin + t - 1], y]
    for y in range(k if size > 1 else 0):
        for z in range(k):
            slope -= m.steps[y, z] * s.step[y, z]
    return slope


@kernel
def _touch(w: FeatureWeights, n: int, first: int, k: int) -> int:
    """Touch the ``k`` weights of a row; ``n`` weights were touched before, and the new number is returned."""
    if w.mark[first]:
        return n
    for i in range(k):
        w.touched[n + i] = first + i
        w.mark[first + i] = n + i + 1
    return n + k


@kernel
def expected_gap(
    chains: Chains, c: int, w: FeatureWeights, cu: float, k: int, s: Scores, m: Sums
) -> tuple[int, float]:
    """Accumulate Delta = f(truth) - E f by the weights cu u in ``delta``.

    Returns how many weights it touched, and the entropy of the labellings, log Z - E score, which less
    <w, Delta> is - log P(truth).
    """
    begin, size = chains.start[c], chains.start[c + 1] - chains.start[c]
    score(chains, c, w, cu, 0.0, k, s)
    n, entropy = 0, sum_product(size, k, s, m)
    for t in range(begin, begin + size):
        p, y = m.probability[t - begin], chains.label[t]
        for z in range(k):
            entropy -= p[z] * s.local[t - begin, z]
        for j in range(chains.first[t], chains.first[t + 1]):
            if chains.feature[j] < 0:
                continue
            first, x = k * row_of(w, chains.feature[j]), number(chains, j)
            n = _touch(w, n, first, k)
            at = w.mark[first] - 1
            w.delta[at + y] += x
            for z in range(k):
                w.delta[at + z] -= x * p[z]
    for y in range(k if size > 1 else 0):
        n = _touch(w, n, k * y, k)
        at = w.mark[k * y] - 1
        for z in range(k):
            entropy -= m.steps[y, z] * s.step[y, z]
            w.delta[at + z] -= m.steps[y, z]
    for t in range(begin + 1, begin + size):
        w.delta[w.mark[k * chains.label[t - 1] + chains.label[t]] - 1] += 1.0
    return n, max(entropy, 0.0)


@kernel_of("units", None)
def _sum_numbers(chains: Chains, c: int, w: FeatureWeights, params: UpdateParams) -> None:
    """Do as ``weight_lookup.sum_numbers`` for a chain; the labels of a feature share a unit."""
    k, params.share[0] = params.sharing, 1.0
    first, stop = chains.first[chains.start[c]], chains.first[chains.start[c + 1]]
    for j in range(first, stop):
        x = abs(number(chains, j))
        if chains.feature[j] >= 0 and x > 0.0:
            row = row_of(w, chains.feature[j])
            size = add_number(params, row, x)
            for i in range(k * row, k * row + k if size < x else 0):
                shorten(w, params, i, size)
    for j in range(first, stop):
        if chains.feature[j] >= 0:
            begin(params, w.row[chains.feature[j]])


@kernel_of("units", None)
def _note_numbers(
    chains: Chains, c: int, w: FeatureWeights, params: UpdateParams, learned: bool
) -> None:
    """Do as ``weight_lookup.note_numbers`` for a chain."""
    for j in range(chains.first[chains.start[c]], chains.first[chains.start[c + 1]]):
        if chains.feature[j] >= 0:
            note(w, params, w.row[chains.feature[j]], learned)


@kernel
def learn_from_gap(
    chains: Chains,
    c: int,
    w: FeatureWeights,
    params: UpdateParams,
    scalar: Floats,
    n: int,
    rho: float,
    cost: float,
) -> float:
    """Learn along a chain's gap of ``n`` weights; see ``averaged_weights.learn``."""
    if len(params.unit) > 0:
        _sum_numbers(chains, c, w, params)
    loss = learn(w, params, scalar, n, rho, cost, False)
    if len(params.unit) > 0:
        _note_numbers(chains, c, w, params, not np.isnan(loss))
    return loss
