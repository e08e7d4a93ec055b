"""The probabilities of chunks, from the scores of a chain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.library.estimators.samples import Label
from onlinesrl.library.estimators.scores import OUTSIDE, Chunk, apart, kind_of


class Sums:
    """Sums over the labellings of a chain, in logarithms (forward and backward).

    The scores are ``local``, float64[position, label], and ``step``, float64[label, next label].
    """

    def __init__(self, local: Floats, step: Floats) -> None:
        self._local, self._step = local, step
        self._ahead, self._behind = local.copy(), np.zeros_like(local)
        for t in range(1, len(local)):
            self._ahead[t] += _stepped(self._ahead[t - 1], step)
        for t in range(len(local) - 2, -1, -1):
            self._behind[t] = _stepped(local[t + 1] + self._behind[t + 1], step.T)
        self.log_z = float(np.logaddexp.reduce(self._ahead[-1]))

    def chunk(self, chunk: Chunk, labels: Sequence[Label]) -> float:
        """Return the probability that a labelling has a chunk, see ``chunks``, with these ends and kind."""
        kind, first, last = chunk
        names = [*map(str, labels)]
        allowed = [kind_of(name) == kind and name != OUTSIDE for name in names]
        of_kind = np.where(allowed, 0.0, -np.inf)
        ends = np.array([[0.0 if apart(y, z) else -np.inf for z in names] for y in names])
        with np.errstate(divide="ignore"):
            goes_on = np.log(1.0 - np.exp(ends))
        within = self._local + of_kind
        sums = within[first]
        if first:
            sums = sums + _stepped(self._ahead[first - 1], self._step + ends)
        for t in range(first + 1, last + 1):
            sums = within[t] + _stepped(sums, self._step + goes_on)
        if last + 1 < len(within):
            sums = (
                _stepped(sums, self._step + ends) + self._local[last + 1] + self._behind[last + 1]
            )
        log_p = np.logaddexp.reduce(sums) - self.log_z
        return float(np.exp(min(log_p, 0.0)))  # rounding may be above 0


def _stepped(sums: Floats, step: Floats) -> Floats:
    """Return the sums over the labels of one position for those of the next."""
    stepped: Floats = np.logaddexp.reduce(sums[:, None] + step, axis=0)
    return stepped
