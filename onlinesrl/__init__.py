"""Online learning of Markov logic and probabilistic soft logic from relational, structured examples.

The public names; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onlinesrl.core.version import __version__

if TYPE_CHECKING:
    from onlinesrl.core.errors import (
        ConfigError,
        DatabaseError,
        DataError,
        ExampleError,
        Infeasible,
        InputError,
        ModelError,
        NotFittedError,
        OnlinesrlError,
        StorageError,
        TableError,
        Unsolved,
        UsageError,
    )
    from onlinesrl.core.evaluation.cluster_scores import cluster_scores
    from onlinesrl.core.evaluation.metrics import METRICS
    from onlinesrl.core.example import Example
    from onlinesrl.core.explain.explanation import Explanation, ExplanationError
    from onlinesrl.core.learning.batch import LearningError
    from onlinesrl.entities.resolver import EntityChange, EntityResolver
    from onlinesrl.library import datasets
    from onlinesrl.library.batch import LearnedModel, learn
    from onlinesrl.library.counting import Counts, count
    from onlinesrl.library.curves import Curves
    from onlinesrl.library.estimators.classifier import Classifier
    from onlinesrl.library.estimators.linked import LinkedClassifier
    from onlinesrl.library.estimators.scores import chunk_f1, chunk_scores, label_scores
    from onlinesrl.library.estimators.tagger import SequenceTagger
    from onlinesrl.library.explain import explain
    from onlinesrl.library.inference import Answer, ground, infer
    from onlinesrl.library.learner import OnlineLearner
    from onlinesrl.library.model import Model, Rule
    from onlinesrl.library.prediction import Prediction
    from onlinesrl.library.streams import examples, read, run
    from onlinesrl.library.tables import Table
    from onlinesrl.library.weights import Weights
    from onlinesrl.library.world import Delta, World

_MODULES = {
    "core.errors": (
        "ConfigError",
        "DataError",
        "DatabaseError",
        "ExampleError",
        "Infeasible",
        "InputError",
        "ModelError",
        "NotFittedError",
        "OnlinesrlError",
        "StorageError",
        "TableError",
        "Unsolved",
        "UsageError",
    ),
    "core.learning.batch": ("LearningError",),
    "core.example": ("Example",),
    "core.explain.explanation": ("Explanation", "ExplanationError"),
    "core.evaluation.cluster_scores": ("cluster_scores",),
    "core.evaluation.metrics": ("METRICS",),
    "entities.resolver": ("EntityChange", "EntityResolver"),
    "library.estimators.classifier": ("Classifier",),
    "library.estimators.linked": ("LinkedClassifier",),
    "library.estimators.scores": ("chunk_f1", "chunk_scores", "label_scores"),
    "library.estimators.tagger": ("SequenceTagger",),
    "library.batch": ("LearnedModel", "learn"),
    "library.counting": ("Counts", "count"),
    "library.curves": ("Curves",),
    "library.explain": ("explain",),
    "library.inference": ("Answer", "ground", "infer"),
    "library.learner": ("OnlineLearner",),
    "library.model": ("Model", "Rule"),
    "library.prediction": ("Prediction",),
    "library.streams": ("examples", "read", "run"),
    "library.tables": ("Table",),
    "library.weights": ("Weights",),
    "library.world": ("Delta", "World"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "METRICS",
    "Answer",
    "Classifier",
    "ConfigError",
    "Counts",
    "Curves",
    "DataError",
    "DatabaseError",
    "Delta",
    "EntityChange",
    "EntityResolver",
    "Example",
    "ExampleError",
    "Explanation",
    "ExplanationError",
    "Infeasible",
    "InputError",
    "LearnedModel",
    "LearningError",
    "LinkedClassifier",
    "Model",
    "ModelError",
    "NotFittedError",
    "OnlineLearner",
    "OnlinesrlError",
    "Prediction",
    "Rule",
    "SequenceTagger",
    "StorageError",
    "Table",
    "TableError",
    "Unsolved",
    "UsageError",
    "Weights",
    "World",
    "__version__",
    "chunk_f1",
    "chunk_scores",
    "cluster_scores",
    "count",
    "datasets",
    "examples",
    "explain",
    "ground",
    "infer",
    "label_scores",
    "learn",
    "read",
    "run",
]


def __getattr__(name: str) -> Any:
    if name == "datasets":
        value: Any = import_module("onlinesrl.library.datasets")
    elif name in _HOMES:
        value = getattr(import_module(f"onlinesrl.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module onlinesrl has no attribute {name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
