"""Scores of a division into clusters beside the true one: of pairs, and B-cubed.

A pair is positive where both items are in one cluster. B-cubed precision is the mean over items of the share
of an item's cluster that is in its true one, and recall the share of the true one that is in its cluster
(Bagga and Baldwin 1998).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain
from math import comb
from typing import Any

from onlinesrl.core.errors import DataError, shown
from onlinesrl.core.evaluation.prequential import class_scores

Clusters = Iterable[Iterable[Hashable]]
"""Items by cluster."""


def cluster_scores(clusters: Clusters, truth: Clusters) -> dict[str, dict[str, Any]]:
    """Return precision, recall and F1 of ``pairs`` and ``b_cubed``; a score is None where it is undefined.

    Raises DataError where both do not have the same items, or an item twice.
    """
    cluster, true = _cluster_of(clusters), _cluster_of(truth)
    for item in chain(cluster, true):
        if item not in cluster or item not in true:
            raise DataError(f"{shown(item)} is in one of clusters and truth, expected in both")
    both = Counter((cluster[item], true[item]) for item in true)
    size, true_size = Counter(cluster.values()), Counter(true.values())
    hits, positives, support = (
        sum(comb(n, 2) for n in count.values()) for count in (both, size, true_size)
    )
    n = len(true) or 1
    precision = sum(k * k / size[i] for (i, _), k in both.items()) / n
    recall = sum(k * k / true_size[j] for (_, j), k in both.items()) / n
    return {
        "pairs": class_scores(hits, positives - hits, support - hits),
        "b_cubed": {
            "f1": 2 * precision * recall / (precision + recall) if true else None,
            "precision": precision if true else None,
            "recall": recall if true else None,
            "support": len(true),
        },
    }


def _cluster_of(clusters: Clusters) -> dict[Hashable, int]:
    """Return the number of the cluster of each item. Raises DataError for an item that is there twice."""
    number = dict[Hashable, int]()
    for n, items in enumerate(clusters):
        for item in items:
            if item in number:
                raise DataError(f"{shown(item)} is in the clusters twice, expected once")
            number[item] = n
    return number
