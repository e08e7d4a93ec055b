"""The code of a learner as a model of MLflow, which keeps a copy of this file with the model and runs it."""

from __future__ import annotations

from typing import Any

import mlflow.models
from mlflow.pyfunc import PythonModel

from onlinesrl.library.learner import OnlineLearner
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.records import Record


class LearnerModel(PythonModel):
    """Predicts examples, each a line of JSON; it answers as `onlinesrl predict` does."""

    def load_context(self, context: Any) -> None:
        """Load the learner's checkpoint."""
        self.learner = OnlineLearner.load(context.artifacts["checkpoint"]).learned

    def predict(self, context: Any, model_input: list[str], params: Any = None) -> list[str]:
        """Return an answer for each example, in their order; of a bad one it says what is wrong."""
        items = self.learner.decode_all([line.encode() for line in model_input])
        outcomes = self.learner.predict(items)
        numbered = enumerate(zip(model_input, items, outcomes, strict=True), 1)
        return [
            Result(Record(line.encode(), "", number, 0, 0), item, outcome).answer.decode()
            for number, (line, item, outcome) in numbered
        ]


mlflow.models.set_model(LearnerModel())
