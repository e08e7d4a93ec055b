"""The threshold of best F1 on counts of atoms by their scores."""

from onlinesrl.core.arrays import Ints
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

FEW = 10
"""Of fewer true atoms the best threshold is chance."""


class Scored(Frame):
    """Atoms counted by their scores."""

    counts: Ints  # [score, 2] false and true atoms


@kernel
def best_threshold(scored: Scored) -> int:
    """Return the highest score of best F1, if atoms from it on are predicted true.

    A score is the number of a row. -1: fewer than ``FEW`` atoms are true.
    """
    counts, true = scored.counts, 0
    for score in range(len(counts)):
        true += counts[score, 1]
    if true < FEW:
        return -1
    best, most, hits, predicted = -1, -1.0, 0, 0
    for score in range(len(counts) - 1, -1, -1):
        hits += counts[score, 1]
        predicted += counts[score, 0] + counts[score, 1]
        f1 = 2.0 * hits / (predicted + true)
        if f1 > most:
            best, most = score, f1
    return best
