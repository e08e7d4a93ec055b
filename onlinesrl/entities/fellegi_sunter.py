"""The weights of levels of agreement, from pairs with and without labels.

Fellegi and Sunter (1969): a level of a column counts log(m / u), where m is its share among pairs of one
entity, and u that among pairs of two. Both, and how many pairs are of one entity, come from all pairs by EM
(Winkler 1988). Labelled pairs keep their label, and pairs that neither share a key nor hang together are of
two entities; a sample stands for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.entities.comparisons import EXACT

PSEUDO_COUNT = 0.5
"""Pairs that are added to each level, since a level that nobody saw is not impossible."""
UNKNOWN = -1.0
"""The label of a pair that has none."""
STEPS, TOLERANCE = 1_000, 1e-9
"""EM ends after so many steps, or where no probability moves by more."""


@dataclass(frozen=True)
class LevelWeights:
    """The weight of a pair as such, and of each level of each column, in natural logarithms.

    ``level[c, l]`` is 0 for ``NULL``: an absent value says nothing.
    """

    pair: float
    level: Floats

    def score(self, levels: Ints) -> Floats:
        """Return the log-odds that pairs are of one entity; ``levels`` is ``[pair, column]``."""
        score: Floats = self.pair + self.level[np.arange(levels.shape[1]), levels].sum(axis=1)
        return score

    def log_odds(self, levels: bytes) -> float:
        """Return the ``score`` of one pair."""
        if levels not in self._odds:
            weights = (
                of_column[level] for of_column, level in zip(self.level, levels, strict=True)
            )
            self._odds[levels] = self.pair + sum(map(float, weights))
        return self._odds[levels]

    @cached_property
    def _odds(self) -> dict[bytes, float]:
        """The scores of the levels that were asked for: pairs are many, their levels few."""
        return {}


def level_counts(levels: Ints, weight: Floats, sizes: Sequence[int]) -> Floats:
    """Return how often each level is in pairs that count ``weight``, ``[column, level]``.

    ``sizes`` has the number of levels of each column, ``NULL`` among them.
    """
    count = np.zeros((len(sizes), max(sizes)))
    for c, size in enumerate(sizes):
        count[c, :size] = np.bincount(levels[:, c], weight, size)
    return count


def shares(count: Floats, sizes: Sequence[int]) -> Floats:
    """Return the share of each level among those of its column, ``[column, level]``.

    Levels that a column has not have the share 1, as ``NULL`` has, so that their weight is 0.
    """
    share = np.ones(count.shape)
    for c, size in enumerate(sizes):
        smooth = count[c, EXACT:size] + PSEUDO_COUNT
        share[c, EXACT:size] = smooth / smooth.sum()
    return share


def estimate(
    candidates: Ints, label: Floats, count: Floats, others: Floats, sizes: Sequence[int]
) -> LevelWeights:
    """Return weights from the levels of open pairs, ``[pattern, column]``, and ``count`` pairs of each.

    ``label`` is 1 for pairs that are known to be of one entity, 0 for those of two, else UNKNOWN. ``others``
    are the ``level_counts`` of all further pairs, which are of two entities. EM begins where pairs that agree
    exactly in more columns than not are of one entity.
    """
    agree = (candidates == EXACT).sum(axis=1) > (candidates > EXACT).sum(axis=1)
    known = label != UNKNOWN
    p = np.where(known, label, np.where(agree, 0.9, 0.1))
    for _ in range(STEPS):
        m = shares(level_counts(candidates, count * p, sizes), sizes)
        u = shares(level_counts(candidates, count * (1 - p), sizes) + others, sizes)
        two = count @ (1 - p) + others[0].sum()
        weights = LevelWeights(
            float(np.log((count @ p + PSEUDO_COUNT) / (two + PSEUDO_COUNT))), np.log(m / u)
        )
        before = p
        p = np.where(known, label, 1 / (1 + np.exp(-weights.score(candidates).clip(-700, 700))))
        if not len(p) or np.abs(p - before).max() < TOLERANCE:
            break
    return weights
