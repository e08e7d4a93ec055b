"""Alerts: probable atoms, written once each, with the rules that speak for and against them.

How many an online rule may raise is known before the period has ended, but not how probable its other atoms
will be. So the threshold of a period is the k-th largest probability of the last period that had k atoms,
and no period has more than k alerts.

By entropy, alerts are of what is most worth a label (uncertainty sampling, Lewis & Gale 1994). In place of
its probability counts how uncertain an atom is, or a group of which at most one atom is true. The most
probable atom stands for a group.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from math import log2
from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, model_validator

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.evaluation.precision_at_k import Budget, PeriodText
from onlinesrl.core.example import Atom, Constant, Example
from onlinesrl.core.explain.counterfactual import CounterfactualQuery
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count
from onlinesrl.core.io.restoring import Misfit, Natural, converted
from onlinesrl.core.learner import Learner, Prediction
from onlinesrl.stream.kafka.config import KafkaSinkSection
from onlinesrl.stream.predictions import Message, Result
from onlinesrl.stream.scored_atoms import scored_atoms
from onlinesrl.stream.sink import Sink
from onlinesrl.stream.sinks import AnySink
from onlinesrl.stream.sinks.file import FileSinkSection

SHOWN = 3
"""The most reasons of an alert."""
FIRST = 0.5
"""The threshold before a period had k atoms."""
Least = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AlertsSection(Section):
    """Which probable atoms are told of, each once; `onlinesrl guide monitoring`."""

    top: Count | None = None
    """at most so many of each predicate in a period: those as probable as the k-th of the last period."""
    by: Literal["probability", "entropy"] = "probability"
    """probability of an atom, or its entropy in bits: which labels to ask a person for."""
    per: PeriodText = "1d"
    """the period of `top`, by the `time` of examples."""
    threshold: Least | dict[str, Least] | None = None
    """the least probability of an alert, or entropy, of all predicates or by predicate."""
    sink: AnySink = FileSinkSection()
    """where alerts go: alerts.jsonl in the run folder, a topic, or a sink of your own."""

    @model_validator(mode="after")
    def _one_rule(self) -> AlertsSection:
        if (self.top is None) == (self.threshold is None):
            raise ValueError("expected either top or threshold")
        if self.sink.kind == "parquet":
            raise ValueError("sink.kind: alerts are lines; expected file or kafka")
        return self

    def check(self, config: Any) -> None:
        """Raise ValueError, with the key, where other sections of a configuration do not go with this one."""
        if self.by == "entropy" and not config.language.probabilistic:
            raise ValueError("alerts.by: PSL's values are no probabilities, and have no entropy")
        self.thresholds(config.query)
        try:
            self.sink.check(config)
        except ValueError as error:
            raise ValueError(f"alerts.{error}") from None
        sinks = self.sink, config.sink
        topics = {sink.topic for sink in sinks if isinstance(sink, KafkaSinkSection)}
        if self.sink.kind == config.sink.kind == "kafka" and len(topics) == 1:
            raise ValueError("alerts.sink.topic: predictions go there; expected another topic")

    def thresholds(self, query: Sequence[str]) -> dict[str, float]:
        """Return the threshold of each predicate that has one. Raises ValueError for another predicate."""
        given = self.threshold
        if given is None:
            return {}
        by_name = given if isinstance(given, dict) else dict.fromkeys(query, given)
        if self.by == "probability" and max(by_name.values(), default=0.0) > 1:
            raise ValueError("alerts.threshold: expected a probability, at most 1, or by: entropy")
        for name in by_name.keys() - set(query):
            names = ", ".join(query)
            raise ValueError(
                f"alerts.threshold.{name}: expected a predicate of the query ({names})"
            )
        return by_name


class Term(msgspec.Struct):
    """A rule of an alert; its ``effect`` is above 0 where it speaks for the atom."""

    rule: str
    effect: float


class Alert(msgspec.Struct, omit_defaults=True):
    """A line of alerts.jsonl: an atom at least as probable as a ``threshold``, and its strongest rules.

    Where it has an ``entropy``, in bits, that reached the threshold.
    """

    id: Constant
    predicate: str
    args: Sequence[str]
    probability: float
    threshold: float
    reasons: Sequence[Term]
    time: float | None = None
    entropy: float | None = None


class Alerted(Result):
    """The alerts of an example, as a sink takes them."""

    __slots__ = ("alerts",)

    def __init__(self, result: Result, alerts: Sequence[Alert]) -> None:
        super().__init__(result.record, result.item, result.outcome)
        self.alerts = alerts

    def messages(self) -> Iterator[Message]:
        """Yield a message for each alert."""
        for alert in self.alerts:
            yield Message(str(alert.id), msgspec.json.encode(alert))


class Quota(msgspec.Struct):
    """The atoms of a predicate in the present ``period``: the k most probable ones, and how many alerts.

    ``largest`` has their probabilities, rising. A time before the period counts in it, as does none.
    """

    period: int | None = None
    raised: Natural = 0
    threshold: float = FIRST
    largest: list[float] = []

    def at(self, period: int | None, k: int) -> Quota:
        """Return the quota when an atom of a period comes."""
        if period is None or (self.period is not None and period <= self.period):
            return self
        full = len(self.largest) == k
        return Quota(period, 0, self.largest[0] if full else self.threshold)

    def least(self, k: int) -> float | None:
        """Return the least probability of an alert; None: there may be no more."""
        return self.threshold if self.raised < k else None

    def add(self, probability: float, k: int, raised: bool) -> None:
        """Count an atom."""
        insort(self.largest, probability)
        del self.largest[:-k]
        self.raised += raised


class Alerts:
    """Raises alerts of predictions, and gives them to a ``sink``; its state is in the checkpoint."""

    def __init__(
        self, section: AlertsSection, query: Sequence[str], sink: Sink, learner: Learner
    ) -> None:
        self.sink, self.learner = sink, learner
        self.sink_state: dict[str, Any] | None = None
        self.by_entropy = section.by == "entropy"
        self.thresholds = section.thresholds(query)
        self.k = section.top or 0
        self.budget = Budget(k=max(self.k, 1), per=section.per)
        self.quotas = {name: Quota() for name in query} if self.k else {}
        self.raised = 0

    def expected(self, example: Example) -> dict[Atom, list[Term]]:
        """Return the alerts that an example would raise, with the reasons by the weights as they are."""
        prediction = self.learner.predict([example])[0].prediction
        if prediction is None:
            return {}
        return {
            (name, args): self._reasons(example, (name, args))
            for name, args, _, score in self._scored(example, prediction)
            if self._least(name, self.budget.period(example.time), score) is not None
        }

    def add(self, result: Result, reasons: Mapping[Atom, list[Term]]) -> Alerted | None:
        """Return the alerts of a prediction, if there are any, and count its atoms.

        Where an atom has no ``reasons``, they are by the weights as they are.
        """
        example, prediction = result.item, result.outcome.prediction
        if not isinstance(example, Example) or prediction is None:
            return None
        alerts, period = list[Alert](), self.budget.period(example.time)
        for name, args, probability, score in self._scored(example, prediction):
            least = self._least(name, period, score)
            if name in self.quotas:
                self.quotas[name] = quota = self.quotas[name].at(period, self.k)
                quota.add(score, self.k, least is not None)
            if least is not None:
                atom = name, args
                terms = reasons[atom] if atom in reasons else self._reasons(example, atom)
                entropy = score if self.by_entropy else None
                alerts.append(
                    Alert(example.id, name, args, probability, least, terms, example.time, entropy)
                )
        self.raised += len(alerts)
        return Alerted(result, alerts) if alerts else None

    def _scored(
        self, example: Example, prediction: Prediction
    ) -> Iterator[tuple[str, tuple[str, ...], float, float]]:
        """Yield atoms with their probabilities, and what counts: that, or the entropy of their units."""
        if not self.by_entropy:
            for name, args, probability, _ in scored_atoms(example, prediction):
                yield name, args, probability, probability
            return
        units: dict[Atom, list[tuple[float, tuple[str, ...]]]] = {}
        for name, args, probability, _ in scored_atoms(example, prediction):
            exclusive = self.learner.exclusive.get(name, ())
            shared = tuple(c for place, c in enumerate(args) if place not in exclusive)
            units.setdefault((name, shared), []).append((probability, args))
        for (name, _), rows in units.items():
            shares = [p for p, _ in rows]
            shares.append(max(0.0, 1.0 - sum(shares)))  # none of them is true
            probability, args = max(rows, key=itemgetter(0))
            yield name, args, probability, round(-sum(p * log2(p) for p in shares if p > 0.0), 6)

    def _least(self, name: str, period: int | None, probability: float) -> float | None:
        """Return the threshold that an atom reaches; None: there is no alert."""
        least = self.thresholds.get(name)
        if name in self.quotas:
            least = self.quotas[name].at(period, self.k).least(self.k)
        return least if least is not None and probability >= least else None

    def _reasons(self, example: Example, atom: Atom) -> list[Term]:
        """Return the strongest rules for and against an atom; none where it cannot be explained."""
        try:
            blind = msgspec.structs.replace(example.whole(), truth=None, unlabelled=None)
            explanation = self.learner.explain(blind, atom, CounterfactualQuery(tries=0))
        except OnlinesrlError:
            return []
        sign = 1.0 if explanation.soft or explanation.value else -1.0
        return [Term(one.rule, sign * one.effect) for one in explanation.reasons[:SHOWN]]

    def save(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        quotas = msgspec.to_builtins(self.quotas)
        return {"raised": self.raised, "quotas": quotas, "sink": self.sink.state()}

    def restore(self, saved: Any) -> None:
        """Restore what ``save`` returned. Raises Misfit."""
        state = converted(saved, _Saved)
        self.raised = state.raised
        self.sink_state = converted(state.sink, self.sink.State) if state.sink else None
        if state.quotas.keys() != self.quotas.keys():
            raise Misfit("alerts of other predicates")
        for quota in state.quotas.values():
            if len(quota.largest) > self.k or quota.largest != sorted(quota.largest):
                raise Misfit("the largest probabilities of a period are not in order, or too many")
        self.quotas = state.quotas


class _Saved(msgspec.Struct):
    raised: Natural
    quotas: dict[str, Quota]
    sink: dict[str, Any]
