"""Chains of labels: their best labelling, its gap to the truth, and their marginals.

The model is ``Feature(+f, t) ^ Label(t, +y)`` and ``Next(t, u) ^ Label(t, +y) ^ Label(u, +z)``, but it is
not ground. With K labels, weight (row, z) stands at K row + z. Row y < K has the weights of the steps from
label y. A feature gets a row at the first gap that has it. A score is the sum of number * weight over the
features and steps that hold. A wrong label counts as two wrong atoms.
"""

import math

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.averaging import Averaged, add

FAR = 2.0**20
"""Scores beyond this are made relative to each other; sums below it are exact to a billionth."""


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
def augment(chains: Chains, c: int, k: int, s: Scores) -> None:
    """Add the Hamming loss, up to a constant, to ``local``, so that the best labelling is the rival."""
    begin = chains.start[c]
    for t in range(chains.start[c + 1] - begin):
        for z in range(k):
            s.local[t, z] += -1.0 if z == chains.label[begin + t] else 1.0


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
def gap(chains: Chains, c: int, w: FeatureWeights, k: int, s: Scores) -> tuple[int, float]:
    """Accumulate Delta = f(truth) - f(path) in ``delta``; returns how many weights it touched, and rho."""
    n, rho, begin = 0, 0.0, chains.start[c]
    for t in range(begin, chains.start[c + 1]):
        y, z = chains.label[t], s.path[t - begin]
        differs = y != z
        if differs:
            rho += 2.0
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
    chains: Chains, c: int, w: FeatureWeights, cu: float, augmented: bool, k: int, s: Scores
) -> tuple[int, float]:
    """Find the rival of the truth by the weights cu u, and the gap to it; see ``gap``."""
    score(chains, c, w, cu, 0.0, k, s)
    if augmented:
        augment(chains, c, k, s)
    viterbi(chains.start[c + 1] - chains.start[c], k, s)
    return gap(chains, c, w, k, s)


@kernel
def _log_sum(values: Floats) -> float:
    top, total = -np.inf, 0.0
    for x in values:
        top = max(top, x)
    for x in values:
        total += math.exp(x - top)
    return top + math.log(total)


@kernel
def marginals(
    chains: Chains,
    c: int,
    w: FeatureWeights,
    cu: float,
    cv: float,
    k: int,
    s: Scores,
    sums: Floats,
    out: Floats,
) -> None:
    """Write the probability of each label, [position, label], to ``out``; ``sums`` [label] is scratch.

    By forward sums in ``best``, which hold the label's own score, and backward sums in ``out``.
    """
    score(chains, c, w, cu, cv, k, s)
    n = chains.start[c + 1] - chains.start[c]
    for t in range(n):
        for z in range(k):
            for y in range(k):
                sums[y] = s.best[t - 1, y] + s.step[y, z] if t > 0 else -np.inf
            s.best[t, z] = s.local[t, z] + (_log_sum(sums) if t > 0 else 0.0)
        _relative(s.best, t, k)
    for t in range(n - 1, -1, -1):
        for y in range(k):
            for z in range(k):
                ahead = out[t + 1, z] + s.local[t + 1, z] if t < n - 1 else -np.inf
                sums[z] = s.step[y, z] + ahead
            out[t, y] = _log_sum(sums) if t < n - 1 else 0.0
        _relative(out, t, k)
    for t in range(n):
        for z in range(k):
            sums[z] = s.best[t, z] + out[t, z]
        total = _log_sum(sums)
        for z in range(k):
            out[t, z] = math.exp(sums[z] - total)
