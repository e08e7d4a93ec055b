"""Metrics of somebody's own: a figure over the labelled examples of a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, TypeAlias

from onlinesrl.core.example import Rows, arguments, number_of
from onlinesrl.core.io.config_section import Kinds, Section


def true_atoms(atoms: Rows | None, predicate: str) -> set[tuple[str, ...]]:
    """Return the true atoms of a predicate in a prediction or a truth, their constants as text.

    A whole number and its text are one constant. In PSL those above 1/2 are true.
    """
    return {
        tuple(map(str, arguments(atom)))
        for atom in (atoms or {}).get(predicate, ())
        if (number_of(atom) or 0.0) > 0.5 or number_of(atom) is None
    }


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
