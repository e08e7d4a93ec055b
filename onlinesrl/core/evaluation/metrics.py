"""Metrics of predicted values against the truth, by name.

A metric gets the truth, float64[atoms] in [0, 1], the predicted values, float64[atoms] in [0, 1], and for
each atom its group, int64[atoms]: atoms of a group differ in their last argument only. Where a metric asks
what is true, it is what is above 1/2. It is None where it is not defined, say where no atom is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

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


def _auroc(truth: Floats, values: Floats, groups: Ints) -> float | None:
    return Ranking.exact(values, truth > 0.5).measures()["auc"]


def _aupr(truth: Floats, values: Floats, groups: Ints) -> float | None:
    """Return the average precision: the sum over thresholds of precision times the rise of recall."""
    return Ranking.exact(values, truth > 0.5).measures()["average_precision"]


def _aupr_negative(truth: Floats, values: Floats, groups: Ints) -> float | None:
    return Ranking.exact(1.0 - values, truth <= 0.5).measures()["average_precision"]


def _mse(truth: Floats, values: Floats, groups: Ints) -> float | None:
    return float(np.mean((truth - values) ** 2)) if len(truth) else None


def _mae(truth: Floats, values: Floats, groups: Ints) -> float | None:
    return float(np.mean(np.abs(truth - values))) if len(truth) else None


def _accuracy(truth: Floats, values: Floats, groups: Ints) -> float | None:
    return float(np.mean((truth > 0.5) == (values > 0.5))) if len(truth) else None


def _categorical_accuracy(truth: Floats, values: Floats, groups: Ints) -> float | None:
    """Return the share of groups, of those with a true atom, whose highest value is of a true one.

    Of equal values the first counts.
    """
    order = np.lexsort((np.arange(len(values)), -values, groups))
    first = order[np.unique(groups[order], return_index=True)[1]]
    of_group = np.unique(groups[truth > 0.5])
    counted = np.isin(groups[first], of_group)
    return float(np.mean(truth[first[counted]] > 0.5)) if len(of_group) else None


def _f1(truth: Floats, values: Floats, groups: Ints) -> float | None:
    predicted, true = values > 0.5, truth > 0.5
    hits = int(np.sum(predicted & true))
    return f1(hits, int(predicted.sum()) - hits, int(true.sum()) - hits)


def _map(truth: Floats, values: Floats, groups: Ints) -> float | None:
    """Return the mean of the average precisions of groups with a true atom."""
    order = np.argsort(groups, kind="stable")
    starts = np.unique(groups[order], return_index=True)[1][1:]
    parts = (_aupr(truth[members], values[members], members) for members in np.split(order, starts))
    precisions = [precision for precision in parts if precision is not None]
    return float(np.mean(precisions)) if precisions else None


def _cll(truth: Floats, values: Floats, groups: Ints) -> float | None:
    """Return the mean conditional log-likelihood."""
    return float(np.mean(_log_likelihoods(truth, values))) if len(truth) else None


def _cll_se(truth: Floats, values: Floats) -> float | None:
    """Return the standard error of the mean conditional log-likelihood."""
    likelihoods = _log_likelihoods(truth, values)
    return float(np.std(likelihoods)) / math.sqrt(len(likelihoods)) if len(likelihoods) else None


def _log_likelihoods(truth: Floats, values: Floats) -> Floats:
    """Return truth * log(value) + (1 - truth) * log(1 - value) of each atom, float64[atoms]."""
    p = np.clip(values, CLIP, 1.0 - CLIP)
    likelihoods: Floats = truth * np.log(p) + (1 - truth) * np.log1p(-p)
    return likelihoods


METRICS: Mapping[str, Metric] = {
    "auroc": Metric(_auroc),
    "aupr": Metric(_aupr),
    "aupr_negative": Metric(_aupr_negative),
    "mse": Metric(_mse, greater=False),
    "mae": Metric(_mae, greater=False),
    "accuracy": Metric(_accuracy),
    "categorical_accuracy": Metric(_categorical_accuracy),
    "f1": Metric(_f1),
    "map": Metric(_map),
    "cll": Metric(_cll),
}
"""The metrics by name."""


def measured(scored: Scored) -> dict[str, float | int | None]:
    """Return the number of atoms, every metric, and the standard error of ``cll``."""
    return {
        "atoms": len(scored.truth),
        **{name: metric.measure(*scored) for name, metric in METRICS.items()},
        "cll_se": _cll_se(scored.truth, scored.values),
    }
