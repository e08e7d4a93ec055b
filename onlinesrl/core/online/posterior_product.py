"""The product of the posteriors that shards have of normally distributed weights.

Every shard k starts from the same N(m_0, S_0), and learns N(m_k, S_k) from examples of its own. Beyond the
prior that all had, each knows what its examples say. So precisions P = S^-1 and vectors of information P m
are added (Tresp 2000, the Bayesian committee machine; Broderick et al. 2013, equation 4, for streams):

    P = P_0 + sum_k (P_k - P_0k),    P m = P_0 m_0 + sum_k (P_k m_k - P_0k m_0).

This is what one learner would know where the curvature of an example does not depend on the weights; else
each shard's is that at weights which do not know the other shards' examples.

P_0k is P_0, but for what a shard itself drops: where a weight has lost its place among those with
covariances, these are 0 in S_0, too. To set covariances of a weight to 0 keeps the order of two matrices, so
what a shard adds is never negative. A weight whose c differs between shards has the prior of the largest one,
p / c^2 (``core.kernels.covariance``), and from each precision its own c^2 / p is taken before they are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.kernels.covariance import invert


class Posterior(NamedTuple):
    """A normal distribution of weights; ``matrix`` has the covariances of those in ``slots``."""

    mean: Floats  # [weight] less the start of each
    scale: Floats  # [weight] the size c of its feature; 0: it was never used
    variance: Floats  # [weight]
    slots: Ints  # [slot]
    matrix: Floats  # [slot, slot]


def product(
    prior: Posterior, parts: Sequence[Posterior], constant: float, slots: Ints
) -> Posterior:
    """Return the product of ``parts``, which all began with ``prior``, with covariances among ``slots``.

    The prior variance of a weight is ``constant`` / c^2. Each weight was used by a part or before. Should
    rounding have spoiled the covariances, there are none.
    """
    every = (prior, *parts)
    scale: Floats = np.max([one.scale for one in every], axis=0)
    number = np.full(len(scale), -1)
    number[slots] = np.arange(len(slots))
    precision, information = np.zeros((2, len(scale)))
    full, at = np.zeros((len(slots),) * 2), np.arange(len(slots))
    terms = [(1.0, one, one) for one in every] + [(-1.0, prior, part) for part in parts]
    for sign, one, beside in terms:  # numbers are in units of c from here
        size = np.where(one.scale > 0.0, one.scale / scale, 1.0)
        variance = np.where(one.scale > 0.0, one.variance * scale**2, constant)
        mean = one.mean * scale
        known, own = 1.0 / variance, np.diag(variance[slots])
        covered = (number[one.slots] >= 0) & np.isin(one.slots, beside.slots)
        among = number[one.slots[covered]]
        unit = scale[one.slots[covered]]
        own[np.ix_(among, among)] = one.matrix[np.ix_(covered, covered)] * np.outer(unit, unit)
        if not invert(own):
            return product(prior, parts, constant, slots[:0])
        moment = known * mean
        moment[slots] = (own * mean[slots]).sum(axis=1)
        information += sign * moment
        precision += sign * (known - size**2 / constant)
        own[at, at] -= size[slots] ** 2 / constant
        full += sign * own
    precision += 1.0 / constant
    full[at, at] += 1.0 / constant
    if not invert(full):
        return product(prior, parts, constant, slots[:0])
    full = 0.5 * (full + full.T)
    mean, variance = information / precision, 1.0 / precision
    mean[slots], variance[slots] = (full * information[slots]).sum(axis=1), full[at, at]
    unit = scale[slots]
    return Posterior(mean / scale, scale, variance / scale**2, slots, full / np.outer(unit, unit))
