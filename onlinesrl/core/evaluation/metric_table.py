"""What people and Prometheus call the metrics of metrics.jsonl, and whether a greater value is better.

A metric is one line here, by its key in metrics.jsonl, and the code that computes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class MetricEntry:
    """The names of a metric."""

    label: str
    """Within a sentence or above a column."""
    format: Literal["count", "percent", "figure"] = "percent"
    greater: bool | None = None
    """Whether a greater value is a better one; None: methods are not compared by it."""
    batch: str | None = None
    """Its name among ``metrics.METRICS``, where it is measured for batch learners too."""
    prometheus: str | None = None
    """Its name behind ``onlinesrl_``; None: Prometheus does not get it."""
    counter: bool = False
    """Whether it only ever grows; a gauge otherwise."""
    help: str = ""
    """What Prometheus says of it."""

    @property
    def title(self) -> str:
        """The label as a heading."""
        return self.label[0].upper() + self.label[1:]


_F1 = "F1 of the predictions, each made before its truth was seen."
_MAE = "Mean |value - true value| of the same predictions, of PSL programs."
_DROPPED = "Weights dropped as least influential."
METRIC_TABLE: Mapping[str, MetricEntry] = {
    "examples": MetricEntry(
        label="examples",
        format="count",
        prometheus="examples",
        counter=True,
        help="Examples read, bad ones too.",
    ),
    "labelled": MetricEntry(
        label="labelled examples",
        format="count",
        prometheus="labelled_examples",
        counter=True,
        help="Examples that came with their truth.",
    ),
    "bad": MetricEntry(
        label="bad examples",
        format="count",
        prometheus="bad_examples",
        counter=True,
        help="Examples refused.",
    ),
    "updates": MetricEntry(
        label="updates",
        format="count",
        prometheus="updates",
        counter=True,
        help="Updates of the weights.",
    ),
    "dropped_weights": MetricEntry(
        label="dropped weights",
        format="count",
        prometheus="dropped_weights",
        counter=True,
        help=_DROPPED,
    ),
    "f1": MetricEntry(label="F1", greater=True, batch="f1", prometheus="f1_ratio", help=_F1),
    "macro_f1": MetricEntry(label="macro F1", greater=True),
    "precision": MetricEntry(label="precision", greater=True),
    "recall": MetricEntry(label="recall", greater=True),
    "support": MetricEntry(label="true atoms", format="count"),
    "accuracy": MetricEntry(label="accuracy", greater=True),
    "exact": MetricEntry(label="exact", greater=True),
    "hamming": MetricEntry(label="Hamming loss", format="figure", greater=False),
    "mae": MetricEntry(
        label="mean absolute error",
        format="figure",
        greater=False,
        batch="mae",
        prometheus="mean_absolute_error",
        help=_MAE,
    ),
    "auc": MetricEntry(label="AUC", greater=True, batch="auroc"),
    "average_precision": MetricEntry(label="average precision", greater=True, batch="aupr"),
    "cll": MetricEntry(label="log-likelihood", format="figure", greater=True, batch="cll"),
    "cll_se": MetricEntry(label="its standard error", format="figure"),
    "brier": MetricEntry(
        label="Brier score",
        format="figure",
        greater=False,
        prometheus="brier_score",
        help="Mean squared error of probabilities, each made before its truth was seen.",
    ),
    "calibration_error": MetricEntry(
        label="calibration error",
        format="figure",
        greater=False,
        prometheus="calibration_error",
        help="Expected calibration error of the same probabilities, over 10 bins of equal width.",
    ),
    "best_f1": MetricEntry(label="best F1"),
    "best_threshold": MetricEntry(label="threshold of best F1", format="figure"),
    "map": MetricEntry(label="mean average precision", greater=True, batch="map"),
    "loss": MetricEntry(
        label="mean loss", format="figure", prometheus="mean_loss", help="Mean loss of the updates."
    ),
    "regret_bound": MetricEntry(
        label="regret bound",
        format="figure",
        prometheus="regret_bound",
        help="Upper bound on the regret.",
    ),
    "sampled": MetricEntry(
        label="updates along sampled expectations",
        format="count",
        prometheus="sampled_updates",
        help="Updates of the log-likelihood by samples, where elimination was too wide.",
    ),
    "facts": MetricEntry(
        label="facts", format="count", prometheus="facts", help="Facts and targets of a world."
    ),
    "changed_atoms": MetricEntry(
        label="changed atoms",
        format="count",
        prometheus="changed_atoms",
        counter=True,
        help="Atoms of a world whose answer changed, over all changes of its facts.",
    ),
    "touched_rules": MetricEntry(
        label="touched ground rules",
        format="count",
        prometheus="touched_ground_rules",
        counter=True,
        help="Ground rules of a world that changes of its facts added, replaced or removed.",
    ),
    "conflicts": MetricEntry(
        label="waiting changes",
        format="count",
        prometheus="conflicts",
        help="Changes of a world that wait until its hard rules can hold.",
    ),
    "entities": MetricEntry(
        label="entities",
        format="count",
        prometheus="entities",
        help="Entities of the records that are there.",
    ),
    "keyless": MetricEntry(
        label="records without a key",
        format="count",
        prometheus="keyless_records",
        help="Records without any blocking key, each an entity of its own.",
    ),
    "gap": MetricEntry(
        label="gap",
        format="figure",
        prometheus="gap",
        help="The score of a world's answer is at most so far below the best.",
    ),
    "temperature": MetricEntry(
        label="temperature of probabilities",
        format="figure",
        prometheus="probability_temperature",
        help="What scores are divided by for probabilities (learner.calibrated).",
    ),
    "weights": MetricEntry(
        label="weights", format="count", prometheus="weights", help="Weights held."
    ),
}
"""The metrics by key. ``map`` is the mean average precision over groups of atoms that differ in their last
argument only; it is computed where learners are compared, and not in metrics.jsonl.
"""
