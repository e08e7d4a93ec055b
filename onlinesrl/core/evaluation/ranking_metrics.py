"""Ranking, likelihood and calibration of scored atoms, from counts by score.

Scores in [0, 1] are counted rounded to 1 / BINS, so that memory is bounded, counts can be merged, and
a stream of any length takes one pass. Scores that round to the same count as ties.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from onlinesrl.core.io.restoring import Natural, converted

BINS = 10_000
RELIABILITY_BINS = 10
"""The calibration error is computed over so many bins of equal width."""
_Score = Annotated[int, Meta(ge=0, le=BINS)]


def rounded(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return scores in [0, 1] as whole numbers of 1 / BINS."""
    places: NDArray[np.int64] = np.floor(scores * BINS + 0.5).astype(np.int64)
    return places


class Ranking:
    """False and true atoms counted by their scores."""

    def __init__(self) -> None:
        self.counts: dict[int, list[int]] = {}

    def add(self, scores: NDArray[np.float64], true: NDArray[np.bool_]) -> None:
        """Count atoms with these scores, float64[atoms], of which some are true, bool[atoms]."""
        cells = 2 * rounded(scores) + true
        for cell, n in zip(
            *(column.tolist() for column in np.unique(cells, return_counts=True)), strict=True
        ):
            self.counts.setdefault(cell >> 1, [0, 0])[cell & 1] += n

    @classmethod
    def exact(cls, scores: NDArray[np.float64], true: NDArray[np.bool_]) -> Ranking:
        """Return a ranking by scores of any size, not rounded, to be measured; it has no thresholds."""
        ranking, (_, rank) = cls(), np.unique(scores, return_inverse=True)
        counts = np.bincount(2 * rank + true, minlength=2 * int(rank.max(initial=-1)) + 2)
        ranking.counts = dict(enumerate(counts.reshape(-1, 2).tolist()))
        return ranking

    def merge(self, other: Ranking) -> None:
        """Add another's counts."""
        for score, (false, true) in other.counts.items():
            counts = self.counts.setdefault(score, [0, 0])
            counts[0] += false
            counts[1] += true

    def measures(self) -> dict[str, float | None]:
        """Return the measures; None where no atom is true, or none false.

        ``auc``: the area under the ROC curve, the probability that a true atom has a higher score than
        a false one, ties counted half. ``average_precision``: the sum of precision times the
        rise of recall over all thresholds. Each comes with a bound on the error made by rounding scores
        (``..._error``). ``best_f1`` is the largest F1 of "true if score >= threshold", and
        ``best_threshold`` the highest such threshold among those half way between rounded scores.
        """
        all_false, all_true = (sum(counts[n] for counts in self.counts.values()) for n in (0, 1))
        halves = ties = hits = predicted = 0
        best = (-1.0, 0.0)
        parts: list[tuple[float, float, float]] = []  # of the average precision
        for score in sorted(self.counts, reverse=True):
            false, true = self.counts[score]
            halves += false * (2 * hits + true)
            ties += false * true
            before, hits, predicted = hits, hits + true, predicted + false + true
            best = max(best, (2 * hits / (predicted + all_true), (score - 0.5) / BINS))
            if true:
                # as it is, and with the true atoms of this score before its false ones, or after
                share = true / all_true
                last = (before + 1) / (before + 1 + predicted - hits)
                parts.append(
                    (share * hits / predicted, share * hits / (predicted - false), share * last)
                )
        pairs = 2 * all_false * all_true
        columns = zip(*parts, strict=True) if parts else ((), (), ())
        precision, most, least = (math.fsum(column) for column in columns)
        error = max(most - precision, precision - least, 0.0)
        return {
            "auc": halves / pairs if pairs else None,
            "auc_error": ties / pairs if pairs else None,
            "average_precision": precision if parts else None,
            "average_precision_error": error if parts else None,
            "best_f1": best[0] if parts else None,
            "best_threshold": max(best[1], 0.0) if parts else None,
        }

    def log_likelihood(self) -> dict[str, float | None]:
        """Return the mean log-probability of the atoms' truth, ``cll``, and its standard error, ``cll_se``.

        Scores count as probabilities, at least half a bin from 0 and 1.
        """
        cells = [
            (n, math.log(p))
            for score, (false, true) in sorted(self.counts.items())
            for n, p in ((true, _inside(score)), (false, _inside(BINS - score)))
        ]
        total = sum(n for n, _ in cells)
        if not total:
            return {"cll": None, "cll_se": None}
        mean = math.fsum(n * log for n, log in cells) / total
        variance = math.fsum(n * (log - mean) ** 2 for n, log in cells) / total
        return {"cll": mean, "cll_se": math.sqrt(variance / total)}

    def calibration(self) -> dict[str, float | None]:
        """Return the Brier score, ``brier``, and the expected calibration error, ``calibration_error``.

        Brier (1950): the mean of (score - truth)^2 over atoms, truth 0 or 1. The error is the mean over
        atoms of |mean score - share of true atoms| of the atom's bin in ``reliability`` (Naeini et al.,
        AAAI 2015, for binary labels). Both are None without atoms.
        """
        cells = [(score, false, true) for score, (false, true) in self.counts.items()]
        total = sum(false + true for _, false, true in cells)
        if not total:
            return {"brier": None, "calibration_error": None}
        squares = sum(false * s**2 + true * (BINS - s) ** 2 for s, false, true in cells)
        gaps = sum(abs(scores - BINS * true) for _, true, scores in self._reliability_bins())
        return {"brier": squares / BINS**2 / total, "calibration_error": gaps / BINS / total}

    def reliability(self) -> list[dict[str, float]]:
        """Return for each bin with atoms their number, mean score and share of true ones, by rising score.

        The bins are [0, 0.1), [0.1, 0.2), ... [0.9, 1], of scores rounded to 1 / BINS.
        """
        return [
            {"atoms": atoms, "probability": scores / BINS / atoms, "true": true / atoms}
            for atoms, true, scores in self._reliability_bins()
        ]

    def _reliability_bins(self) -> list[tuple[int, int, int]]:
        """Return of each bin with atoms their number, the true ones, and the sum of rounded scores."""
        sums = [[0, 0, 0] for _ in range(RELIABILITY_BINS)]
        for score, (false, true) in self.counts.items():
            cell = sums[min(score * RELIABILITY_BINS // BINS, RELIABILITY_BINS - 1)]
            cell[0] += false + true
            cell[1] += true
            cell[2] += score * (false + true)
        return [(atoms, true, scores) for atoms, true, scores in sums if atoms]

    def save(self) -> list[list[int]]:
        """Return the counts as JSON can hold them: score, false, true."""
        return [[score, *self.counts[score]] for score in sorted(self.counts)]

    @classmethod
    def restore(cls, saved: Any) -> Ranking:
        """Return the ranking that ``save`` wrote. Raises Misfit."""
        ranking, rows = cls(), converted(saved, list[tuple[_Score, Natural, Natural]])
        ranking.counts = {score: [false, true] for score, false, true in rows}
        return ranking


def _inside(score: int) -> float:
    """Return a score in bins as a probability that is neither 0 nor 1."""
    return min(max(score, 0.5), BINS - 0.5) / BINS
