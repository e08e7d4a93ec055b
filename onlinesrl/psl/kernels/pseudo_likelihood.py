"""The logarithm of a pseudo-likelihood, and its gradient, by quadrature."""

import math

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel


@kernel
def pseudo_likelihood(
    start: Ints,
    rule: Ints,
    at_nodes: Floats,
    at_truth: Floats,
    width: Floats,
    quadrature: Floats,
    weights: Floats,
    density: Floats,
    gradient: Floats,
) -> float:
    """Add to ``gradient`` [rule], and return the logarithm; see ``psl.learning.mple.Conditionals``.

    Variable j has the pairs ``start[j]:start[j + 1]``; ``density`` [node] is working memory: the density
    of a variable at the nodes, times their weights, up to a factor.
    """
    value = 0.0
    for j in range(len(width)):
        density[:] = 0.0
        for p in range(start[j], start[j + 1]):
            for k in range(len(density)):
                density[k] += weights[rule[p]] * at_nodes[p, k]
        least = np.inf
        for k in range(len(density)):
            least = min(least, density[k])
        total = 0.0
        for k in range(len(density)):
            density[k] = math.exp(least - density[k]) * quadrature[k]
            total += density[k]
        value -= math.log(total) - least + math.log(width[j])
        for p in range(start[j], start[j + 1]):
            expected = 0.0
            for k in range(len(density)):
                expected += density[k] * at_nodes[p, k]
            value -= weights[rule[p]] * at_truth[p]
            gradient[rule[p]] += expected / total - at_truth[p]
    return value
