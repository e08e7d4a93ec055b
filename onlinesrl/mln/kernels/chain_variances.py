"""Second-order steps of a chain, with a variance for each weight and no covariances.

The weights have independent normal distributions N(w_i, V_i). Before an example its labels have the marginals
p_t of forward-backward. Positions are learned from one after the other. Those before have moved the score of
label z by b_z, so that P(z) is proportional to p_tz exp(b_z). With the features x of position t and its true
label y, each weight of label z makes the step

    r_z = [z = y] - P(z),    w += a V x r_z,    1 / V += x^2 P(z) (1 - P(z)).

The share a is the top of the posterior on the line of these steps, on which scores move by d_z = r_z sum x^2
V: the root of d_y - E d = a sum_z r_z d_z. That is from 0 to 1, so no feature is too large. V is reduced by
the probabilities there, to that of the nearest distribution without covariances in the sense of mean-field.

A weight of the steps from label to label moves by V times its gradient, after V is reduced as if all steps
of the chain were alike, and by the mean share of the positions, that of r_y.
"""

import math
from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.averaging import HUGE, LOSS, PRIMAL, S, T
from onlinesrl.core.kernels.covariance import STEPS, Covariance, widen
from onlinesrl.mln.kernels.chain_crf import (
    Chains,
    FeatureWeights,
    Scores,
    Sums,
    number,
    row_of,
    score,
    sum_product,
)

LEAST = 1e-300
"""The least probability of a label, so that logarithms are finite."""
CERTAIN = 1e-12
"""What is not more probable than this is not learned from."""
ROUNDING = 1e-9
"""The relative size of the last step to a root."""


class Position(Frame):
    """The labels of one position, in memory that is reused."""

    score: Annotated[Floats, "label"]  # the logarithm of its probability, up to a constant
    probability: Annotated[Floats, "label"]
    variance: Annotated[Floats, "label"]  # of the score
    residual: Annotated[Floats, "label"]
    direction: Annotated[Floats, "label"]  # how scores move by a whole step


@kernel
def _softmax(at: Position, a: float) -> None:
    """Write the probabilities after the share ``a`` of the step."""
    top, total = -math.inf, 0.0
    for z in range(len(at.score)):
        at.probability[z] = at.score[z] + a * at.direction[z]
        top = max(top, at.probability[z])
    for z in range(len(at.score)):
        at.probability[z] = math.exp(at.probability[z] - top)
        total += at.probability[z]
    for z in range(len(at.score)):
        at.probability[z] /= total


@kernel
def find_share(at: Position, y: int, q: float) -> float:
    """Return the root a of d_y - E d = a q, of the direction d; at a = 0 both sides differ by q.

    Newton's steps from 1 keep to a bracket. ``probability`` is that at the root.
    """
    low, high, a = 0.0, 1.0, 1.0
    for _ in range(STEPS):
        _softmax(at, a)
        mean, square = 0.0, 0.0
        for z in range(len(at.score)):
            mean += at.probability[z] * at.direction[z]
            square += at.probability[z] * at.direction[z] * at.direction[z]
        error = at.direction[y] - mean - a * q
        if error > 0.0:
            low = a
        else:
            high = a
        step = error / (q + max(square - mean * mean, 0.0))
        if abs(step) <= ROUNDING * a:
            break
        a = a + step if low < a + step < high else 0.5 * (low + high)
    return a


@kernel
def _use(w: FeatureWeights, c: Covariance, i: int, x: float, prior: float) -> None:
    """Note the feature x of weight i, which moves towards 0 where x is much larger; see ``widen``."""
    h = widen(c, i, x, prior)
    if h > 0.0:
        rest = 1.0 / (1.0 + c.variance[i] * h)
        c.variance[i] *= rest
        w.value[i, 0] *= rest
        w.value[i, 1] *= rest


@kernel
def _inform(c: Covariance, i: int, h: float) -> None:
    """Reduce the variance of weight i by the information h."""
    c.variance[i] /= 1.0 + c.variance[i] * h


@kernel
def _move(w: FeatureWeights, i: int, step: float, lag: float) -> None:
    """Move weight i; ``lag`` is how many examples its average has so far."""
    w.value[i, 0] += step
    w.value[i, 1] += step * lag


@kernel
def _learn_position(
    chains: Chains,
    t: int,
    w: FeatureWeights,
    c: Covariance,
    prior: float,
    lag: float,
    before: Floats,
    p: Floats,
    at: Position,
) -> float:
    """Learn from position t; return r_y, times the share of the step.

    ``before`` and ``p`` [label] are its scores and marginals before the example.
    """
    k, y, q = len(at.score), chains.label[t], 0.0
    for z in range(k):
        at.score[z], at.variance[z] = math.log(max(p[z], LEAST)) - before[z], 0.0
        at.direction[z] = 0.0
    for j in range(chains.first[t], chains.first[t + 1]):
        if chains.feature[j] < 0:
            continue
        first, x = k * row_of(w, chains.feature[j]), number(chains, j)
        for z in range(k):
            _use(w, c, first + z, x, prior)
            at.score[z] += x * w.value[first + z, 0]
            at.variance[z] += x * x * c.variance[first + z]
    _softmax(at, 0.0)
    for z in range(k):
        at.residual[z] = (1.0 if z == y else 0.0) - at.probability[z]
        at.direction[z] = at.variance[z] * at.residual[z]
        q += at.residual[z] * at.direction[z]
    a = find_share(at, y, q) if q > CERTAIN else 1.0
    for j in range(chains.first[t], chains.first[t + 1]):
        if chains.feature[j] < 0:
            continue
        first, x = k * w.row[chains.feature[j]], number(chains, j)
        for z in range(k):
            _move(w, first + z, a * c.variance[first + z] * x * at.residual[z], lag)
            _inform(c, first + z, x * x * at.probability[z] * (1.0 - at.probability[z]))
    return a * at.residual[y]


@kernel
def _learn_steps(
    chains: Chains,
    begin: int,
    size: int,
    w: FeatureWeights,
    c: Covariance,
    prior: float,
    lag: float,
    share: float,
    m: Sums,
) -> None:
    """Learn the weights of the steps of a chain of so many positions; see the module."""
    k, pairs = len(m.steps), size - 1
    for y in range(k if pairs > 0 else 0):
        for z in range(k):
            i, p = k * y + z, m.steps[y, z] / pairs
            _use(w, c, i, 1.0, prior)
            _inform(c, i, pairs * p * max(1.0 - p, 0.0))
            _move(w, i, -share * c.variance[i] * m.steps[y, z], lag)
    for t in range(begin + 1, begin + size):
        i = k * chains.label[t - 1] + chains.label[t]
        _move(w, i, share * c.variance[i], lag)


@kernel
def learn_by_variances(
    chains: Chains,
    n: int,
    w: FeatureWeights,
    c: Covariance,
    prior: float,
    scalar: Floats,
    s: Scores,
    m: Sums,
    at: Position,
) -> float:
    """Learn from chain ``n``; returns the loss, -log P(truth).

    ``c`` has no slots. NaN: the loss is not finite, and no weight has changed.
    """
    k, lag = len(at.score), scalar[S]
    begin, size = chains.start[n], chains.start[n + 1] - chains.start[n]
    score(chains, n, w, 1.0, 0.0, k, s)
    loss = sum_product(size, k, s, m)
    for t in range(size):
        loss -= s.local[t, chains.label[begin + t]]
        if t > 0:
            loss -= s.step[chains.label[begin + t - 1], chains.label[begin + t]]
    loss = max(loss, 0.0)
    if not scalar[PRIMAL] + loss <= HUGE:
        return np.nan
    wrong, moved = 0.0, 0.0
    for t in range(size):
        p = m.probability[t]
        wrong += 1.0 - p[chains.label[begin + t]]
        moved += _learn_position(chains, begin + t, w, c, prior, lag, s.local[t], p, at)
    share = min(max(moved, 0.0) / wrong, 1.0) if wrong > CERTAIN else 1.0
    _learn_steps(chains, begin, size, w, c, prior, lag, share, m)
    scalar[T], scalar[S] = scalar[T] + 1.0, scalar[S] + 1.0
    scalar[PRIMAL], scalar[LOSS] = scalar[PRIMAL] + loss, scalar[LOSS] + loss
    return loss
