"""The least probability of an atom that is predicted true: set by predicate, or the one of best F1 so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Bools, Floats
from onlinesrl.core.evaluation.ranking_metrics import BINS, Ranking, rounded
from onlinesrl.core.io.restoring import converted

BEST_F1: Literal["f1"] = "f1"
STANDARD = 0.5
Rows: TypeAlias = dict[str, list[list[int]]]
"""By predicate the rows of ``Ranking.save``."""


class Thresholds:
    """The thresholds of predicates; for those given as ``f1`` the scores and truths so far are counted.

    The threshold of best F1 is the one that ``Ranking.measures`` gives for the same scores, 1/2 before ten
    atoms were true. Each score counts with the prediction that was made before its truth was seen.

    >>> thresholds = Thresholds({"Fraud": "f1"})
    >>> thresholds.of("Fraud")
    0.5
    >>> thresholds.add("Fraud", np.array([0.1] + 10 * [0.2]), np.array([False] + 10 * [True]))
    >>> thresholds.of("Fraud")
    0.19995
    """

    def __init__(self, given: Mapping[str, float | Literal["f1"]]) -> None:
        self.values = {n: STANDARD if value == BEST_F1 else value for n, value in given.items()}
        self.counts = {
            name: np.zeros((BINS + 1, 2), np.int64)
            for name, value in given.items()
            if value == BEST_F1
        }

    def of(self, predicate: str) -> float | None:
        """Return the threshold of a predicate; None where it has none."""
        return self.values.get(predicate)

    def add(self, predicate: str, scores: Floats, true: Bools) -> None:
        """Count the scores, float64[atoms] in [0, 1], of atoms of which some are true, bool[atoms]."""
        if predicate in self.counts:
            for score, label in zip(rounded(scores).tolist(), true.tolist(), strict=True):
                self.counts[predicate][score, int(label)] += 1
            self._choose(predicate)

    def _choose(self, predicate: str) -> None:
        from onlinesrl.core.kernels.best_threshold import Scored, best_threshold

        best = best_threshold(Scored(self.counts[predicate]))
        self.values[predicate] = STANDARD if best < 0 else max((best - 0.5) / BINS, 0.0)

    def save(self) -> Rows:
        """Return the counts as JSON can hold them."""
        return {
            name: [[int(n), *counts[n].tolist()] for n in np.flatnonzero(counts.any(axis=1))]
            for name, counts in self.counts.items()
        }

    def restore(self, saved: Any) -> None:
        """Restore what ``save`` returned. Raises Misfit."""
        rows = converted(saved, dict[str, list[Any]])
        for name, counts in self.counts.items():
            counts[:] = 0
            self._add(name, rows.get(name, []))

    def since(self, start: Any) -> Rows:
        """Return what was counted after ``start``, which an earlier ``save`` returned."""
        more = Thresholds(dict.fromkeys(self.counts, BEST_F1))
        more.restore(start)
        for name, counts in more.counts.items():
            counts[:] = self.counts[name] - counts
        return more.save()

    def merge(self, gains: Sequence[Rows]) -> None:
        """Add the counts of others."""
        for name, rows in (item for gain in gains for item in gain.items()):
            self._add(name, rows)

    def _add(self, name: str, rows: Any) -> None:
        for score, pair in Ranking.restore(rows).counts.items():
            self.counts[name][score] += pair
        self._choose(name)
