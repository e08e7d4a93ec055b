"""The configuration of batch learning of PSL."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from onlinesrl.core.io.config_types import File
from onlinesrl.psl.inference.registry import AdmmSection, AnyPslEngine
from onlinesrl.psl.learning.mle import Mle
from onlinesrl.psl.learning.registry import AnyPslLearner
from onlinesrl.runs.config.schema import Batch


class PslBatch(Batch):
    """Batch learning of PSL: the keys outside of sections."""

    data: File | None = None
    """the .data file of a .psl model; PSL's .json names its data itself (the split learn is used)."""
    test: File | None = None
    """held-out data, like data: the learned weights are scored there."""
    learner: AnyPslLearner = Mle()
    inference: AnyPslEngine = AdmmSection()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.in_json and self.data is not None:
            raise ValueError("data: not for a .json model, which says itself where its data are")
        if not self.in_json and self.data is None:
            raise ValueError("data: missing; expected the .data file of the .psl model")
        for key in sorted(self.inference.model_fields_set & {"max_groundings", "unsolved"}):
            raise ValueError(f"inference.{key}: for runs only; leave it out")
        return self

    @property
    def in_json(self) -> bool:
        """Whether the model is one of PSL's .json files, which name their data themselves."""
        return self.model.suffix == ".json"
