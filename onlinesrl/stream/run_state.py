"""What a checkpoint of a run holds, besides the lengths of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onlinesrl.core.evaluation.drift import DriftDetector
from onlinesrl.core.evaluation.own_metric import Metric
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.io.restoring import converted, restoring
from onlinesrl.core.learner import Learner
from onlinesrl.stream.checkpoints import Checkpoint
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.late_labels import LabelJoiner
from onlinesrl.stream.recent_examples import Shown
from onlinesrl.stream.sink import Sink


@dataclass(eq=False)
class RunState:
    """A learner, its sink, what waits for labels, and how far a run has come.

    ``choice`` has the groups met. ``drift`` watches the errors of predictions, and ``own`` are metrics of
    somebody's own. ``position`` is that of the source, ``seconds`` are those of the run so far; it is
    ``finished`` when a source that ends has ended.
    """

    learner: Learner
    choice: Choice
    sink: Sink
    labels: LabelJoiner | None = None
    drift: DriftDetector | None = None
    own: Mapping[str, Metric] = field(default_factory=dict)
    sink_state: dict[str, Any] | None = field(default=None, init=False)
    metrics: Metrics = field(default_factory=Metrics, init=False)
    shown: Shown = field(default_factory=Shown, init=False)
    position: dict[str, Any] | None = field(default=None, init=False)
    seconds: float = field(default=0.0, init=False)
    finished: bool = field(default=False, init=False)

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
        if sink := self.sink.state():
            header["sink"] = sink
        if self.drift is not None:
            header["drift"] = self.drift.window
        if self.labels is not None:
            header["labels"], waiting = self.labels.save()
            arrays |= waiting
        return header, arrays

    def restore(self, saved: Checkpoint) -> None:
        """Restore what ``save`` returned, bit for bit. Raises DamagedCheckpoint."""
        header = saved.header
        with restoring(saved.path):
            self.position, self.seconds = header["position"], header["seconds"]
            self.finished = header["finished"]
            self.learner.restore(header["learner"], saved.arrays)
            self.learner.slowest.restore(header["slowest"])
            self.metrics = Metrics.restore(header["metrics"], self.own)
            self.choice.restore(header["groups"])
            self.shown.restore(header["shown"])
            self.sink_state = converted(header.get("sink"), self.sink.State | None)
            if self.drift is not None:
                self.drift = DriftDetector(self.drift.section, header["drift"])
            if self.labels is not None:
                self.labels.restore(converted(header.get("labels"), dict), saved.arrays)

    def line(self) -> dict[str, Any]:
        """Return a line of metrics, over the run so far."""
        return {
            **self.metrics.snapshot(),
            **({"lost": lost} if (lost := (self.position or {}).get("lost")) else {}),
            **self.learner.certificate(),
            "updates": self.learner.weights.updates,
            "weights": len(self.learner.weights),
            "dropped_weights": self.learner.weights.dropped,
            **(self.labels.counts() if self.labels is not None else {}),
        }
