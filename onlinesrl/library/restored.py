"""All that a checkpoint holds, restored without its configuration: what does not fit shows."""

from __future__ import annotations

from onlinesrl.core.evaluation.drift import Window
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.io.restoring import converted, restoring
from onlinesrl.core.learner import Learner
from onlinesrl.library.checkpoint import Saved
from onlinesrl.library.learner import OnlineLearner
from onlinesrl.stream.checkpoints import Checkpoint, RunHeader, checked
from onlinesrl.stream.late_labels import LabelJoiner
from onlinesrl.stream.recent_examples import Shown


def restore(saved: Checkpoint) -> tuple[Learner, Metrics, Shown]:
    """Return learner, metrics and examples of a run's checkpoint, or of one that the library wrote.

    The learner has no background facts. Raises DamagedCheckpoint, ModelError, ConfigError.
    """
    if "library" not in saved.header:
        checked(saved, RunHeader)
    with restoring(saved.path):
        learner = OnlineLearner.of(Saved.of(saved), {}).learned
        converted(saved.header.get("drift", []), Window)
        metrics, examples = Metrics.restore(saved.header["metrics"]), Shown()
        examples.restore(saved.header.get("shown", []))
        if "labels" in saved.header:
            LabelJoiner(0, 0).restore(saved.header["labels"], saved.arrays)
    return learner, metrics, examples
