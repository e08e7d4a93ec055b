"""The configuration of batch learning: the keys that all languages have. It is read without the others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onlinesrl.core.io.config_types import AnyPath, Natural
from onlinesrl.core.language import language_of
from onlinesrl.core.learning.batch import BatchLearner, Problem
from onlinesrl.runs.config.loading import load_as
from onlinesrl.runs.config.schema import Root


class Batch(Root):
    """Batch learning: the keys outside of sections."""

    output: AnyPath
    """the folder of the result; the default is runs/ and the name of the configuration."""
    seed: Natural = 0
    """of the random numbers of learners that have any."""

    @property
    @abstractmethod
    def batch_learner(self) -> BatchLearner[Any]:
        """The learner."""

    @abstractmethod
    def problem(self, folder: Path | None) -> Problem:
        """Return what is to be learned; in ``folder`` the learner may keep what it needs to resume.

        Raises the located errors of the files, and LearningError.
        """

    @abstractmethod
    def held_out(self) -> Problem | None:
        """Return the model with the data to be scored, if there are any."""


def load(path: Path, overrides: Sequence[str] = ()) -> Batch:
    """Read a configuration of batch learning; see ``load_as``."""
    return load_as(root_of, path, overrides)


def root_of(values: Any) -> type[Batch]:
    """Return what configuration keys and values are to be: the language of the model decides."""
    model = values.get("model") if isinstance(values, dict) else None
    suffix = Path(model).suffix if isinstance(model, str) else ""
    if language_of(suffix) is language_of(".psl"):
        from onlinesrl.runs.config.psl_batch import PslBatch

        return PslBatch
    from onlinesrl.runs.config.mln_batch import MlnBatch

    return MlnBatch
