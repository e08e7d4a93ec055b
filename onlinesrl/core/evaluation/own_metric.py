"""Metrics of somebody's own: a figure over the labelled examples of a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, TypeAlias

from onlinesrl.core.io.config_section import Kinds, Section


class Metric(Section, ABC):
    """A figure over labelled examples, each predicted before its truth was seen.

    Its state is a value that JSON holds exactly: it is written into checkpoints, and goes on from there.
    """

    kind: str = ""
    """the metric, as module:Class or by the name of an installed one."""

    @abstractmethod
    def start(self) -> Any:
        """Return the state before the first example."""

    @abstractmethod
    def add(self, state: Any, prediction: Any, example: Any) -> Any:
        """Return the state after one more example.

        ``prediction`` is a ``core.learner.Prediction`` and ``example`` a ``core.example.Example``.
        """

    @abstractmethod
    def value(self, state: Any) -> float | None:
        """Return the figure; None where it is undefined."""


AnyMetric: TypeAlias = Annotated[Metric, Kinds("onlinesrl.metrics", Metric, {})]
