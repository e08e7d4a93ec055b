"""The covariance of weights: in full among the most used ones, a variance for each other weight.

The weights have the normal distribution N(w, S). An example whose log-likelihood has the slope r and the
curvature h along direction d turns it into another one (the extended Kalman filter; Ollivier 2018):

    a = S d,  v = d'a,      w += a r,      S -= a a' h / (1 + h v).

The variance of a weight is p / c^2 when an example first uses it, where c is the size of its feature there.
So units do not matter (Ross, Mineiro & Langford 2013). A number of more than five times c makes c a fifth of
it, since a small one at first would leave the prior too wide. What the prior of the larger c knows more is
then learned as an observation of the weight alone, at its start.

Where a weight gets a place in the full matrix, or loses it to one that is used more, its variance stays and
its covariances begin at 0: of all distributions without these covariances that is the nearest (assumed
density filtering; Minka 2001).
"""

import math
from typing import Annotated

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

SLOTS, LEAST, PENDING = 0, 1, 2
"""The places in ``Covariance.size``: the number of slots in use, a lower bound of the uses of each of their
weights, and the number of pending reductions."""
SMALLEST = 1e-100
"""The least size of a feature that a variance is set by, so that variances are finite."""
SPREAD = 5.0
"""How many times as large as c a feature may be."""
MORE = 2
"""How many times as often as another weight one must be used to take over its slot."""
STEPS = 1000
"""The limit of the steps to a root; a dozen are usual."""
ROUNDING = 4e-16
"""The relative size of the last step to a root."""


class Covariance(Frame):
    """The covariance of weights. Those with a slot have it in ``matrix``, the others in ``variance``.

    From ``matrix`` b b' of each row b of ``pending`` is still to be taken, which ``settle`` does for four
    of them at once, since reading and writing the matrix is what takes time.
    """

    matrix: Annotated[Floats, "slot, slot"]
    variance: Annotated[Floats, "weight"]
    scale: Annotated[Floats, "weight"]  # the size c of its feature; 0: it was never used
    uses: Annotated[Ints, "weight"]  # how often it was used
    slot: Annotated[Ints32, "weight"]  # its slot, from 1; 0: none
    weight: Annotated[Ints, "slot"]  # the weight of each slot
    size: Annotated[Ints, "3"]  # SLOTS, LEAST, PENDING
    pending: Annotated[Floats, "4, slot"]
    share: Annotated[Floats, "4"]  # of each variance, what a pending reduction leaves at least
    product: Annotated[Floats, "slot"]  # S d of the weights with a slot, after ``multiply``


@kernel
def variance_of(c: Covariance, i: int) -> float:
    """Return the variance of weight i."""
    s = c.slot[i] - 1
    return float(c.matrix[s, s] if s >= 0 else c.variance[i])


@kernel
def settle(c: Covariance) -> None:
    """Take what is pending off the matrix."""
    slots, n, b, share = c.size[SLOTS], c.size[PENDING], c.pending, 1.0
    for k in range(n):
        share *= c.share[k]
    for s in range(slots if n > 0 else 0):
        row = c.matrix[s]
        least = row[s] * share
        if n == len(b):
            x0, x1, x2, x3 = b[0, s], b[1, s], b[2, s], b[3, s]
            for r in range(slots):
                row[r] -= (x0 * b[0, r] + x1 * b[1, r]) + (x2 * b[2, r] + x3 * b[3, r])
        else:
            for k in range(n):
                for r in range(slots):
                    row[r] -= b[k, s] * b[k, r]
        row[s] = max(row[s], least)
    c.size[PENDING] = 0


@kernel
def separate(c: Covariance, s: int, variance: float) -> None:
    """Set the variance of the weight with slot s, and its covariances to 0."""
    for r in range(c.size[SLOTS]):
        c.matrix[s, r] = 0.0
        c.matrix[r, s] = 0.0
    c.matrix[s, s] = variance


@kernel
def _give_slot(c: Covariance, i: int, s: int) -> None:
    """Give slot s to weight i, and take it from the weight that has it."""
    settle(c)
    old = c.weight[s]
    if old >= 0:
        c.variance[old] = c.matrix[s, s]
        c.slot[old] = 0
    c.weight[s] = i
    c.slot[i] = s + 1
    separate(c, s, c.variance[i])


@kernel
def _least_used(c: Covariance) -> int:
    """Return the first of the slots whose weights are used least, and note these uses."""
    least = 0
    for s in range(1, c.size[SLOTS]):
        if c.uses[c.weight[s]] < c.uses[c.weight[least]]:
            least = s
    c.size[LEAST] = c.uses[c.weight[least]]
    return least


@kernel
def widen(c: Covariance, i: int, x: float, prior: float) -> float:
    """Note a feature x of weight i; the first one that is not 0 sets its variance.

    Of an example with several states x is the change of the feature by an atom's truth. Returns the
    information by which the prior of a larger size exceeds that of c, the size so far.
    """
    size, old = max(abs(x), SMALLEST), c.scale[i]
    if x == 0.0 or size <= SPREAD * old:
        return 0.0
    if old == 0.0:
        c.scale[i], c.variance[i] = size, prior / size / size
        return 0.0
    c.scale[i] = size = size / SPREAD
    return float((size - old) * (size + old) / prior)


@kernel
def count(c: Covariance, i: int) -> None:
    """Count an example that uses weight i, which may give it a slot."""
    c.uses[i] += 1
    if c.slot[i] > 0:
        return
    s = c.size[SLOTS]
    if s < len(c.weight):
        c.size[SLOTS] += 1
        c.weight[s] = -1
        _give_slot(c, i, s)
    elif s > 0 and c.uses[i] > MORE * c.size[LEAST]:
        s = _least_used(c)
        if c.uses[i] > MORE * c.size[LEAST]:
            _give_slot(c, i, s)


@kernel
def use(c: Covariance, i: int, x: float, prior: float) -> None:
    """Note that an example has the feature x of weight i; see ``widen`` and ``count``."""
    if x != 0.0:
        widen(c, i, x, prior)
        count(c, i)


@kernel
def _multiplied(c: Covariance, touched: Ints, d: Floats, n: int) -> float:
    """Write S d to ``product``; return d'S d."""
    slots, v = c.size[SLOTS], 0.0
    for r in range(slots):
        c.product[r] = 0.0
    for j in range(n):
        i, x = touched[j], d[j]
        s = c.slot[i] - 1
        if s < 0:
            v += c.variance[i] * x * x
        elif x != 0.0:
            row = c.matrix[s]
            for r in range(slots):
                c.product[r] += x * row[r]
    for k in range(c.size[PENDING]):
        b, along = c.pending[k], 0.0
        for j in range(n):
            s = c.slot[touched[j]] - 1
            if s >= 0:
                along += d[j] * b[s]
        for r in range(slots):
            c.product[r] -= along * b[r]
    for j in range(n):
        s = c.slot[touched[j]] - 1
        if s >= 0:
            v += d[j] * c.product[s]
    return v


@kernel
def multiply(c: Covariance, touched: Ints, d: Floats, n: int) -> float:
    """Write a = S d of the weights with a slot to ``product``; return v = d'a, which is not negative.

    ``d`` [place] has the numbers of the ``n`` weights in ``touched``, and is 0 elsewhere. Of a weight without
    a slot, a is its variance times d. Should rounding have made v negative, the weights of d lose their
    covariances.
    """
    v = _multiplied(c, touched, d, n)
    if v < 0.0:
        settle(c)
        for j in range(n):
            s = c.slot[touched[j]] - 1
            if s >= 0:
                separate(c, s, c.matrix[s, s])
        v = _multiplied(c, touched, d, n)
    return v


@kernel
def reduce(c: Covariance, touched: Ints, d: Floats, n: int, v: float, h: float) -> None:
    """Subtract a a' h / (1 + h v), after ``multiply`` by the same ``d``; from the matrix once it is settled.

    A variance is reduced by the factor 1 + h v at most, which holds in spite of rounding.
    """
    if not h * v > 0.0:
        return
    share = 1.0 / (1.0 + h * v)
    root = math.sqrt(h * share)
    for j in range(n):
        i = touched[j]
        if c.slot[i] == 0:
            variance = c.variance[i]
            b = root * variance * d[j]
            c.variance[i] = max(variance - b * b, variance * share)
    last = c.size[PENDING]
    c.share[last] = share
    for s in range(c.size[SLOTS]):
        c.pending[last, s] = root * c.product[s]
    c.size[PENDING] += 1
    if c.size[PENDING] == len(c.pending):
        settle(c)


@kernel
def across(c: Covariance, i: int, x: float) -> float:
    """Return the number of weight i in a = S d, after ``multiply`` by a ``d`` that has x there."""
    s = c.slot[i] - 1
    return float(c.product[s] if s >= 0 else c.variance[i] * x)


@kernel
def move(c: Covariance, touched: Ints, d: Floats, n: int, r: float, weight: Floats) -> None:
    """Add r S d to ``weight`` [weight], after ``multiply`` by the same ``d``."""
    for s in range(c.size[SLOTS]):
        weight[c.weight[s]] += r * c.product[s]
    for j in range(n):
        i = touched[j]
        if c.slot[i] == 0:
            weight[i] += r * across(c, i, d[j])


@kernel
def _growth(variance: float, scale: float, memory: float, prior: float) -> float:
    """Return the root of the factor by which a variance grows; see ``forget``."""
    most = prior / scale / scale
    return math.sqrt(max(min(memory / (memory - 1.0), most / variance), 1.0))


@kernel
def forget(c: Covariance, touched: Ints, n: int, memory: float, prior: float) -> None:
    """Let examples count the less the longer they are past, the last of ``memory`` ones 1 / e of the next.

    S grows by the factor 1 / (1 - 1 / memory), but no variance by that beyond p / c^2. A weight without a
    slot forgets in examples that use it only, as the ``n`` weights in ``touched`` do.
    """
    settle(c)
    slots = c.size[SLOTS]
    for s in range(slots):
        c.product[s] = _growth(c.matrix[s, s], c.scale[c.weight[s]], memory, prior)
    for s in range(slots):
        row = c.matrix[s]
        for r in range(slots):
            row[r] *= c.product[s] * c.product[r]
    for j in range(n):
        i = touched[j]
        if c.slot[i] == 0 and c.scale[i] > 0.0:
            c.variance[i] *= _growth(c.variance[i], c.scale[i], memory, prior) ** 2


@kernel
def invert(a: Floats) -> bool:
    """Write the inverse of a positive definite matrix over it, by Gauss and Jordan; False: it is none."""
    n = len(a)
    for k in range(n):
        pivot = a[k, k]
        if not pivot > 0.0:
            return False
        a[k, k] = 1.0
        for j in range(n):
            a[k, j] /= pivot
        for i in range(n):
            share = a[i, k]
            if i != k and share != 0.0:
                a[i, k] = 0.0
                for j in range(n):
                    a[i, j] -= share * a[k, j]
    return True


@kernel
def sigmoid(z: float) -> float:
    """Return 1 / (1 + exp(-z))."""
    e = math.exp(-abs(z))
    return 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)


@kernel
def implicit_root(m: float, v: float) -> float:
    """Return the root z of z - m + v sigmoid(z), which is at most m: the score after a false outcome.

    It is the mode of N(m, v) times 1 - sigmoid(z). After a true outcome the score is - implicit_root(-m, v).
    The left side increases. Newton's steps keep to a bracket, and halve it where they do not shrink by half
    themselves. Its lower end is the larger of m - v and m - log(1 + v e^m), since W(x) <= log(1 + x) for
    Lambert's W; its upper end is m, or 0 or m - v / 2, since sigmoid(z) >= 1/2 from 0 on.
    """
    if not v > 0.0:
        return m
    log_v = math.log(v)
    softplus = math.log1p(math.exp(-abs(log_v + m)))
    low = max(m - v, (-log_v if log_v + m > 0.0 else m) - softplus)
    high, z, last = min(m, max(m - 0.5 * v, 0.0)), low, m - low
    for _ in range(STEPS):
        p = sigmoid(z)
        error = z - m + v * p
        if error > 0.0:
            high = z
        else:
            low = z
        step = error / (1.0 + v * p * (1.0 - p))
        if not (low < z - step < high and 2.0 * abs(step) <= last):
            step = z - 0.5 * (low + high)
        if abs(step) <= ROUNDING * max(abs(z), 1.0):
            break
        z, last = z - step, abs(step)
    return z
