"""The configuration of batch learning of PSL."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from onlinesrl.core.io.config_types import File
from onlinesrl.core.learning.batch import BatchLearner, Problem
from onlinesrl.psl.learning.mle import Mle
from onlinesrl.psl.learning.registry import AnyPslLearner
from onlinesrl.runs.config.batch import Batch


class PslBatch(Batch):
    """Batch learning of PSL: the keys outside of sections."""

    data: File | None = None
    """the .data file of a .psl model; PSL's .json names its data itself (the split learn is used)."""
    test: File | None = None
    """held-out data, like data: the learned weights are scored there."""
    learner: AnyPslLearner = Mle()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self._in_json and self.data is not None:
            raise ValueError("data: not for a .json model, which says itself where its data are")
        if not self._in_json and self.data is None:
            raise ValueError("data: missing; expected the .data file of the .psl model")
        return self

    @property
    def _in_json(self) -> bool:
        return self.model.suffix == ".json"

    @property
    def batch_learner(self) -> BatchLearner[Any]:
        """The learner."""
        return self.learner

    def problem(self, folder: Path | None) -> Problem:
        """Ground the model with its data; see ``Batch.problem``."""
        from onlinesrl.psl.learning.problem import grounded
        from onlinesrl.psl.query import infer

        model = infer.load(self.model, self.data)
        database = model.database("learn")
        return grounded(model.program, model.functions, database, self.seed, folder)

    def held_out(self) -> Problem | None:
        """Ground the model with the held-out data, for a .json model by default those of its split infer."""
        from onlinesrl.psl.lang.model import load_json, load_psl
        from onlinesrl.psl.learning.problem import grounded

        if self._in_json:
            model = load_json(self.test or self.model)
            if self.test is None and model.files["learn"] == model.files["infer"]:
                return None
        elif self.test is None:
            return None
        else:
            model = load_psl(self.model, self.test)
        return grounded(model.program, model.functions, model.database(), self.seed)
