"""The threshold of best F1 on counts of atoms by their scores."""

from onlinesrl.core.arrays import Ints
from onlinesrl.core.jit.decorators import kernel


@kernel
def best_threshold(counts: Ints) -> int:
    """Return the highest score of best F1, if atoms from it on are predicted true; -1: no atom is true.

    ``counts`` is int64[score, 2]: the false and the true atoms of each score, which is a row's number.
    """
    true = 0
    for score in range(len(counts)):
        true += counts[score, 1]
    if true == 0:
        return -1
    best, most, hits, predicted = -1, -1.0, 0, 0
    for score in range(len(counts) - 1, -1, -1):
        hits += counts[score, 1]
        predicted += counts[score, 0] + counts[score, 1]
        f1 = 2.0 * hits / (predicted + true)
        if f1 > most:
            best, most = score, f1
    return best
