"""One step of multinomial logistic regression: the mode of normal scores times the softmax of the true class.

The weights of class k have the normal distribution N(w_k, S_k), independent of those of other classes. So
the score of class k for a row x is normal, with mean m_k = w_k'x and variance v_k = x'S_k x. The mode of its
product with the likelihood of the true class y fulfils, with e_k = 1 for k = y and else 0,

    z_k = m_k + v_k (e_k - p_k),    p_k = exp(z_k - t),    t = log sum_j exp z_j.

For a given s = t - m_y each p_k follows by itself: for k other than y as omega(m_k - m_y - s + log v_k) / v_k
with Wright's omega function, and r = 1 - p_y from v_y r - log(1 - r) = s. The former decrease in s and the
latter increases, so that the one s at which the former sum to r has a bracket. No digits are lost where p_y
is nearly 1. The step is w_k += S_k x (e_k - p_k), however large a feature is, and S_k shrinks by the
curvature p_k (1 - p_k).
"""

import math
from typing import Annotated

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.address import frame_at
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.covariance import STEPS, Covariance, move, multiply, reduce, settle, use

LEAST_LOG = -700.0
"""Below it Wright's omega of x is exp(x) but for rounding."""
GREAT = 1e20
"""Beyond it Wright's omega of x is x - log(x) but for rounding."""
ROUNDING = 1e-14
"""The relative size of the last step to a root."""


class ClassWeights(Frame):
    """The weights of one class, and their covariance."""

    covariance: Covariance
    weight: Annotated[Floats, "weight"]


class Scores(Frame):
    """The classes' scores of one row, and what follows at the mode."""

    mean: Annotated[Floats, "label"]
    variance: Annotated[Floats, "label"]
    probability: Annotated[Floats, "label"]
    residual: Annotated[Floats, "label"]  # e_k - p_k


@kernel
def wright_omega(x: float) -> float:
    """Return the root w of w + log w = x (Lawrence, Corless & Jeffrey 2012, Algorithm 917)."""
    if x < LEAST_LOG:
        return math.exp(x)
    if x > GREAT:
        return x - math.log(x)
    if x < -2.0:
        w = math.exp(x)
    elif x < 1.0:
        w = math.exp(2.0 * (x - 1.0) / 3.0)
    else:
        w = x - math.log(x)
    for _ in range(2):
        r, t = x - w - math.log(w), 1.0 + w
        s = 2.0 * t * (t + 2.0 * r / 3.0)
        w *= 1.0 + r / t * (s - r) / (s - 2.0 * r)
    return w


@kernel
def _share(score: float, variance: float) -> float:
    """Return the root p of log p + variance p = score."""
    if not variance > 0.0:
        return math.exp(score)
    x = score + math.log(variance)
    return math.exp(score) if x < LEAST_LOG else wright_omega(x) / variance


@kernel
def _rest(s: float, variance: float) -> float:
    """Return the root r of variance r - log(1 - r) = s, which is from 0 to 1."""
    if s > 0.5 * variance - math.log(0.5):
        return 1.0 - _share(variance - s, variance)
    r = s / (1.0 + variance)  # no less than the root, from where Newton's steps fall
    for _ in range(STEPS):
        step = (variance * r - math.log1p(-r) - s) / (variance + 1.0 / (1.0 - r))
        r -= step
        if not step > ROUNDING * r:
            break
    return r


@kernel
def _log_odds(c: Scores, share: float, y: int) -> float:
    """Return log(1 + sum_k exp(m_k - v_k share - m_y)), k other than y."""
    most, total = 0.0, 0.0
    for k in range(len(c.mean)):
        if k != y:
            most = max(most, c.mean[k] - c.variance[k] * share - c.mean[y])
    for k in range(len(c.mean)):
        if k != y:
            total += math.exp(c.mean[k] - c.variance[k] * share - c.mean[y] - most)
    return math.log1p(total) if most == 0.0 else most + math.log(math.exp(-most) + total)


@kernel
def find_mode(c: Scores, y: int) -> int:
    """Write the probabilities and residuals at the mode; return the number of steps to it.

    Newton's steps in s keep to its bracket, and go to its geometric mean where they leave it.
    """
    low, s, v, steps = _log_odds(c, 1.0, y), _log_odds(c, 0.0, y), c.variance[y], 0
    high, others = v + s, 0.0
    while steps < STEPS:
        steps += 1
        r, others = _rest(s, v), 0.0
        slope = 1.0 / (v + 1.0 / (1.0 - r)) if r < 1.0 else 0.0
        for k in range(len(c.mean)):
            if k != y:
                p = _share(c.mean[k] - c.mean[y] - s, c.variance[k])
                c.probability[k] = p
                others += p
                slope += p / (1.0 + c.variance[k] * p)
        if others > r:
            low = s
        else:
            high = s
        step = (others - r) / slope
        if not low < s + step < high:
            step = math.sqrt(low) * math.sqrt(high) - s
        if not abs(step) > ROUNDING * s:
            break
        s += step
    for k in range(len(c.mean)):
        c.residual[k] = -c.probability[k]
    c.probability[y], c.residual[y] = 1.0 - others, others
    return steps


@kernel
def learn(
    first: ClassWeights, classes: Ints, touched: Ints, d: Floats, prior: float, c: Scores, y: int
) -> int:
    """Learn from a row with features d of the weights touched, of class y; return the number of classes.

    ``classes`` has the addresses of the classes' weights, of which ``first`` is one.
    """
    n = len(touched)
    for k in range(len(classes)):
        w, m = frame_at(first, classes[k]), 0.0
        for j in range(n):
            use(w.covariance, touched[j], d[j], prior)
            m += w.weight[touched[j]] * d[j]
        c.mean[k], c.variance[k] = m, multiply(w.covariance, touched, d, n)
    find_mode(c, y)
    for k in range(len(classes)):
        p, r = c.probability[k], c.residual[k]
        h = p * (r if k == y else 1.0 - p)
        w = frame_at(first, classes[k])
        move(w.covariance, touched, d, n, r, w.weight)
        reduce(w.covariance, touched, d, n, c.variance[k], h)
        settle(w.covariance)
    return len(classes)


@kernel
def predict(weight: Floats, touched: Ints, d: Floats, probability: Floats) -> int:
    """Write the probability of each class, for weights [class, weight] and a row of features."""
    classes, most, total = len(probability), -math.inf, 0.0
    for k in range(classes):
        m, row = 0.0, weight[k]
        for j in range(len(touched)):
            m += row[touched[j]] * d[j]
        probability[k] = m
        most = max(most, m)
    for k in range(classes):
        probability[k] = math.exp(probability[k] - most)
        total += probability[k]
    for k in range(classes):
        probability[k] /= total
    return classes
