"""Metrics of predicted values against the truth, by name.

A metric gets the truth, float64[atoms] in [0, 1], the predicted values, float64[atoms] in [0, 1], and for
each atom its group, int64[atoms]: atoms of a group differ in their last argument only. Where a metric asks
what is true, it is what is above 1/2. It is None where it is not defined, say where no atom is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.evaluation.prequential import f1
from onlinesrl.core.evaluation.ranking_metrics import Ranking

CLIP = 1e-6
"""Probabilities are at least this far from 0 and 1 where their logarithm is taken."""

Measure: TypeAlias = Callable[[Floats, Floats, Ints], float | None]


class Metric(NamedTuple):
    """A metric, and whether a greater value is a better one."""

    measure: Measure
    greater: bool = True


class Scored(NamedTuple):
    """Atoms of one predicate: their truth, predicted values, and groups; see the top of this file."""

    truth: Floats
    values: Floats
    groups: Ints


def _mean(numbers: Any) -> float | None:
    return float(np.mean(numbers)) if len(numbers) else None


def _aupr(truth: Floats, values: Floats, groups: Ints) -> float | None:
    """Return the average precision: the sum over thresholds of precision times the rise of recall."""
    return Ranking.exact(values, truth > 0.5).measures()["average_precision"]


def _categorical_accuracy(truth: Floats, values: Floats, groups: Ints) -> float | None:
    """Return the share of groups, of those with a true atom, whose highest value is of a true one.

    Of equal values the first counts.
    """
    order = np.lexsort((np.arange(len(values)), -values, groups))
    first = order[np.unique(groups[order], return_index=True)[1]]
    counted = np.isin(groups[first], groups[truth > 0.5])
    return _mean(truth[first[counted]] > 0.5)


def _f1(truth: Floats, values: Floats, groups: Ints) -> float | None:
    predicted, true = values > 0.5, truth > 0.5
    hits = int(np.sum(predicted & true))
    return f1(hits, int(predicted.sum()) - hits, int(true.sum()) - hits)


def _map(truth: Floats, values: Floats, groups: Ints) -> float | None:
    """Return the mean of the average precisions of groups with a true atom."""
    order = np.argsort(groups, kind="stable")
    starts = np.unique(groups[order], return_index=True)[1][1:]
    parts = (_aupr(truth[members], values[members], members) for members in np.split(order, starts))
    return _mean([precision for precision in parts if precision is not None])


def _log_likelihoods(truth: Floats, values: Floats) -> Floats:
    """Return truth * log(value) + (1 - truth) * log(1 - value) of each atom, float64[atoms]."""
    p = np.clip(values, CLIP, 1.0 - CLIP)
    likelihoods: Floats = truth * np.log(p) + (1 - truth) * np.log1p(-p)
    return likelihoods


METRICS: Mapping[str, Metric] = {
    "auroc": Metric(lambda truth, y, _: Ranking.exact(y, truth > 0.5).measures()["auc"]),
    "aupr": Metric(_aupr),
    "aupr_negative": Metric(
        lambda truth, y, _: Ranking.exact(1.0 - y, truth <= 0.5).measures()["average_precision"]
    ),
    "mse": Metric(lambda truth, y, _: _mean((truth - y) ** 2), greater=False),
    "mae": Metric(lambda truth, y, _: _mean(np.abs(truth - y)), greater=False),
    "accuracy": Metric(lambda truth, y, _: _mean((truth > 0.5) == (y > 0.5))),
    "categorical_accuracy": Metric(_categorical_accuracy),
    "f1": Metric(_f1),
    "map": Metric(_map),
    "cll": Metric(lambda truth, y, _: _mean(_log_likelihoods(truth, y))),
}
"""The metrics by name."""


def measured(scored: Scored) -> dict[str, float | int | None]:
    """Return the number of atoms, every metric, and the standard error of ``cll``."""
    n, likelihoods = len(scored.truth), _log_likelihoods(scored.truth, scored.values)
    return {
        "atoms": n,
        **{name: metric.measure(*scored) for name, metric in METRICS.items()},
        "cll_se": float(np.std(likelihoods)) / math.sqrt(n) if n else None,
    }
