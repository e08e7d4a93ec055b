"""Metrics by name: against their definitions, and scikit-learn's where it is installed."""

import numpy as np
import pytest

from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.core.evaluation.metrics import METRICS, Scored, measured

RNG = np.random.default_rng(3)
VALUES = np.round(RNG.random(60), 1)
TRUTH = (RNG.random(60) < 0.2 + 0.6 * VALUES).astype(np.float64)
GROUPS = np.repeat(np.arange(12), 5)
FOUND = measured(Scored(TRUTH, VALUES, GROUPS))


def test_definitions():
    true, false = VALUES[TRUTH == 1], VALUES[TRUTH == 0]
    above = np.mean((true[:, None] > false) + 0.5 * (true[:, None] == false))
    assert FOUND["auroc"] == pytest.approx(above)
    said = VALUES > 0.5
    hits = np.sum(said & (TRUTH == 1))
    assert FOUND["f1"] == pytest.approx(2 * hits / (said.sum() + TRUTH.sum()))
    assert FOUND["accuracy"] == np.mean(said == TRUTH)
    assert FOUND["mse"] == pytest.approx(np.mean((TRUTH - VALUES) ** 2))
    assert FOUND["mae"] == pytest.approx(np.mean(abs(TRUTH - VALUES)))
    right = [
        TRUTH[5 * g + np.argmax(VALUES[5 * g : 5 * g + 5])]
        for g in range(12)
        if TRUTH[5 * g : 5 * g + 5].any()
    ]
    assert FOUND["categorical_accuracy"] == pytest.approx(np.mean(right))
    p = np.clip(VALUES, 1e-6, 1 - 1e-6)
    assert FOUND["cll"] == pytest.approx(np.mean(np.log(np.where(TRUTH == 1, p, 1 - p))))


def test_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    precision = metrics.average_precision_score
    assert FOUND["auroc"] == pytest.approx(metrics.roc_auc_score(TRUTH, VALUES))
    assert FOUND["aupr"] == pytest.approx(precision(TRUTH, VALUES))
    assert FOUND["aupr_negative"] == pytest.approx(precision(1 - TRUTH, 1 - VALUES))
    groups = [slice(5 * g, 5 * g + 5) for g in range(12)]
    each = [precision(TRUTH[g], VALUES[g]) for g in groups if TRUTH[g].any()]
    assert FOUND["map"] == pytest.approx(np.mean(each))


def test_groups_in_any_order():
    order = RNG.permutation(60)
    mixed = measured(Scored(TRUTH[order], VALUES[order], GROUPS[order]))
    del mixed["categorical_accuracy"]  # ties are broken by order
    assert {name: FOUND[name] for name in mixed} == pytest.approx(mixed)


def test_what_is_not_defined_is_none():
    nothing = measured(Scored(np.empty(0), np.empty(0), np.empty(0, np.int64)))
    assert {nothing[name] for name in METRICS} == {None}
    false = measured(Scored(np.zeros(2), np.array([0.1, 0.2]), np.zeros(2, np.int64)))
    assert [name for name in METRICS if false[name] is None] == [
        "auroc",
        "aupr",
        "categorical_accuracy",
        "f1",
        "map",
    ]


def test_batch_and_online_metrics_have_one_direction():
    entries = [entry for entry in METRIC_TABLE.values() if entry.batch is not None]
    assert [METRICS[str(entry.batch)].greater for entry in entries] == [e.greater for e in entries]
