"""What a checkpoint of a run holds, besides the lengths of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onlinesrl.core.evaluation.drift import DriftDetector
from onlinesrl.core.evaluation.own_metric import Metric
from onlinesrl.core.evaluation.precision_at_k import PrecisionAtK
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.io.restoring import converted, restoring
from onlinesrl.core.learner import Learner
from onlinesrl.stream.alerts import Alerts
from onlinesrl.stream.checkpoints import Checkpoint
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.late_labels import LabelJoiner
from onlinesrl.stream.recent_examples import Shown
from onlinesrl.stream.sink import Sink


@dataclass(eq=False)
class RunState:
    """A learner, its sink, what waits for labels, and how far a run has come.

    ``choice`` has the groups met. ``drift`` watches the errors of predictions, and ``own`` are metrics of
    somebody's own. ``top`` ranks the atoms of each predicate by period. ``position`` is that of the source,
    ``period`` the number of that of the metrics, where these are by time. ``seconds`` are those of the run so
    far; it is ``finished`` when a source that ends has ended.
    """

    learner: Learner
    choice: Choice
    sink: Sink
    labels: LabelJoiner | None = None
    drift: DriftDetector | None = None
    own: Mapping[str, Metric] = field(default_factory=dict)
    top: Mapping[str, PrecisionAtK] = field(default_factory=dict)
    alerts: Alerts | None = None
    sink_state: dict[str, Any] | None = field(default=None, init=False)
    metrics: Metrics = field(default_factory=Metrics, init=False)
    shown: Shown = field(default_factory=Shown, init=False)
    position: dict[str, Any] | None = field(default=None, init=False)
    period: int | None = field(default=None, init=False)
    seconds: float = field(default=0.0, init=False)
    finished: bool = field(default=False, init=False)

    def sinks(self) -> list[Sink]:
        """Return where predictions go, and where alerts do."""
        return [self.sink] + ([] if self.alerts is None else [self.alerts.sink])

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        learner, arrays = self.learner.save()
        header: dict[str, Any] = {
            "model": self.learner.model_text,
            "learner": learner,
            "metrics": self.metrics.save(),
            "position": self.position,
            "seconds": self.seconds,
            "slowest": self.learner.slowest.found,
            "finished": self.finished,
            "shown": self.shown.save(),
            "groups": self.choice.save(),
        }
        if self.period is not None:
            header["period"] = self.period
        if sink := self.sink.state():
            header["sink"] = sink
        if self.drift is not None:
            header["drift"] = self.drift.window
        if self.alerts is not None:
            header["alerts"] = self.alerts.save()
        if self.top:
            header["top"] = {name: top.save() for name, top in self.top.items()}
        if self.labels is not None:
            header["labels"], waiting = self.labels.save()
            arrays |= waiting
        return header, arrays

    def restore(self, saved: Checkpoint) -> None:
        """Restore what ``save`` returned, bit for bit. Raises DamagedCheckpoint."""
        header = saved.header
        with restoring(saved.path):
            self.position, self.seconds = header["position"], header["seconds"]
            self.finished, self.period = header["finished"], header.get("period")
            self.learner.restore(header["learner"], saved.arrays)
            self.learner.slowest.restore(header["slowest"])
            self.metrics = Metrics.restore(header["metrics"], self.own)
            self.choice.restore(header["groups"])
            self.shown.restore(header["shown"])
            self.sink_state = converted(header.get("sink"), self.sink.State | None)
            if self.drift is not None:
                self.drift = DriftDetector(self.drift.section, header["drift"])
            if self.alerts is not None:
                self.alerts.restore(header["alerts"])
            for name, top in self.top.items():
                top.restore(header["top"][name])
            if self.labels is not None:
                self.labels.restore(converted(header.get("labels"), dict), saved.arrays)

    def line(self, position: bool = True) -> dict[str, Any]:
        """Return a line of metrics, over the run so far; without ``position`` nothing about the source."""
        source = (self.position or {}) if position else {}
        return {
            **self.metrics.snapshot(),
            **({} if self.alerts is None else {"alerts": self.alerts.raised}),
            **({"top": {n: top.snapshot() for n, top in self.top.items()}} if self.top else {}),
            **{key: told for key in ("lost", "linked") if (told := source.get(key))},
            **self.learner.certificate(),
            "updates": self.learner.weights.updates,
            "weights": len(self.learner.weights),
            "dropped_weights": self.learner.weights.dropped,
            **(self.labels.counts() if self.labels is not None else {}),
        }
