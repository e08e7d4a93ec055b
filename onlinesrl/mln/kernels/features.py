"""The features of a state, which batch learners count for every sample."""

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel


@kernel
def add_features(
    start: Ints, literals: Ints32, feature: Ints, factor: Floats, state: Bytes, total: Floats
) -> None:
    """Add ``factor[c]`` to ``total[feature[c]]`` for each true clause; a feature of -1 is skipped."""
    for c in range(len(feature)):
        if feature[c] < 0:
            continue
        for p in range(start[c], start[c + 1]):
            if (state[abs(literals[p]) - 1] != 0) == (literals[p] > 0):
                total[feature[c]] += factor[c]
                break
