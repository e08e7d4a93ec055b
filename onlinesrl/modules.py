"""What modules of one's own are made of: base classes, kernels and types of options.

`onlinesrl guide modules` has a module of each kind, and ``onlinesrl.testing`` checks them.
"""

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ModuleError, Unsolved
from onlinesrl.core.evaluation.own_metric import Metric, true_atoms
from onlinesrl.core.example import Example
from onlinesrl.core.io.config_types import AnyPath, Count, File, Natural, Positive
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.learner import Prediction
from onlinesrl.core.learning.batch import (
    BatchLearner,
    Learned,
    LearningError,
    Problem,
    Trace,
    Watch,
)
from onlinesrl.core.online.update_rules.rule import Regularised, Update, UpdateParams
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.registry import MlnMapEngine
from onlinesrl.psl.ground.hinge_loss_mrf import HINGE, PLAIN, HingeLossMRF
from onlinesrl.psl.inference.registry import PslMapEngine
from onlinesrl.stream.sinks.own import LineSink
from onlinesrl.stream.sources.own import RecordSource

__all__ = [
    "HINGE",
    "PLAIN",
    "AnyPath",
    "BatchLearner",
    "Count",
    "Example",
    "File",
    "Floats",
    "GroundMRF",
    "HingeLossMRF",
    "Learned",
    "LearningError",
    "LineSink",
    "Metric",
    "MlnMapEngine",
    "ModuleError",
    "Natural",
    "Positive",
    "Prediction",
    "Problem",
    "PslMapEngine",
    "RecordSource",
    "Regularised",
    "State",
    "Trace",
    "Unsolved",
    "Update",
    "UpdateParams",
    "Watch",
    "kernel",
    "true_atoms",
]
