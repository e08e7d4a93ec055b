"""Batch learning of weights: what a learner gets, what it gives, and what it reports on the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.evaluation.metrics import Scored
from onlinesrl.core.io.config_section import Section


class LearningError(OnlinesrlError):
    """The weights of this model cannot be learned from these data in this way."""

    exit_code = 65


class UnfitError(LearningError):
    """What a ``key`` of a learner says does not fit the model or its data, for a ``reason``."""

    exit_code = 78

    def __init__(self, key: str, reason: str):
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class Step(NamedTuple):
    """The objective, which is minimised, after a step of a learner; ``number`` counts from 0."""

    number: int
    objective: float


Watch: TypeAlias = Callable[[Step], object]
"""Called after each step of a learner."""


class Trace:
    """The steps of a learner so far; each is also told to ``watch``."""

    def __init__(self, watch: Watch):
        self._watch = watch
        self.steps: list[Step] = []

    def add(self, objective: float) -> None:
        """Add a step. Raises LearningError for an objective that is not finite."""
        if not isfinite(objective):
            raise LearningError(
                f"the objective is {objective} at step {len(self.steps)}: "
                "start from smaller weights, or make smaller steps"
            )
        self.steps.append(Step(len(self.steps), float(objective)))
        self._watch(self.steps[-1])


@dataclass(frozen=True, eq=False)
class Learned:
    """Learned weights, in the order of the problem's, the objective by step, and what to be told of.

    ``stats`` is plain JSON.
    """

    weights: Floats
    trace: Sequence[Step]
    stats: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


class Problem(Protocol):
    """A model whose weights are to be learned from data with their truth, in a language of its own."""

    @property
    def names(self) -> Sequence[str]:
        """What each weight is a weight of, such as the text of its rule."""

    @property
    def start(self) -> Floats:
        """The weights in the model, float64[weights]; 0 for one that is not given."""

    def trained(self, weights: Floats) -> str:
        """Return the text of the model with these weights."""

    def predicted(self, weights: Floats, test: Self | None = None) -> Mapping[str, Scored]:
        """Predict the data of ``test``, or its own; by predicate, the atoms whose truth is known."""


class BatchLearner(Section, ABC):
    """How weights are learned from a batch."""

    kind: str = ""
    """how weights are learned."""

    @abstractmethod
    def learn(self, problem: Any, watch: Watch) -> Learned:
        """Return the weights learned of a ``Problem``. Raises LearningError."""
