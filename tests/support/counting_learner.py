"""A learner without kernels or search, for tests of what goes on around learning.

It counts which constant is last in the true atoms of each place (a predicate and its other constants), and
predicts the one that counts most. Each example counts more than the one before, so that an example that is
left out, learned twice or out of order changes all that follows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from msgspec import structs

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import (
    Atom,
    Constant,
    Example,
    Rows,
    arguments,
    decode,
    decoded,
    named_atoms,
)
from onlinesrl.core.explain.explanation import ExplanationError
from onlinesrl.core.learner import Answered, Item, Outcome, Prediction, Tally
from onlinesrl.core.timing import Slowest


class Vote(NamedTuple):
    """How much a constant has counted at a place; see ``WeightEntry``."""

    text: str
    key: tuple[str, ...]
    weight: float
    uses: int = 1
    standard_error: None = None

    @property
    def instance(self) -> str:
        return " ".join(self.key)


class Votes(Counter[tuple[Any, ...]]):
    """How much each atom has counted, by its predicate and constants; see ``LearnedWeights``."""

    dropped = updates = 0

    def entries(self) -> Iterator[Vote]:
        for (name, *constants), votes in self.items():
            yield Vote(name, tuple(map(str, constants)), float(votes))


class CountingLearner:
    """Learns by counting; see the module."""

    valued = False
    exclusive: ClassVar[Mapping[str, Sequence[int]]] = {}
    monitor = temperature = None

    def __init__(self, update: Any, query: Sequence[str], program: Any) -> None:
        self.update, self.query, self.program = update, query, program
        self.model_text = program.text
        self.weights, self.slowest, self.seen = Votes(), Slowest(), 0
        self.decode = decode

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        return [*map(decoded, lines)]

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        outcomes, tally = [], Tally()
        for item in items:
            try:
                outcomes.append(Outcome(self._step(item, learning, tally)))
            except ExampleError as error:
                tally.errors[error.kind] += 1
                outcomes.append(Outcome(None, error.reason))
        return outcomes, tally

    def predict(
        self, items: Sequence[Item], marginals: bool = False, best: int | None = None
    ) -> list[Outcome]:
        return self.step(items, learning=False)[0]

    def _step(self, item: Item, learning: bool, tally: Tally) -> Prediction:
        if isinstance(item, ExampleError):
            raise item
        example = item.example if isinstance(item, Answered) else item
        for name in [*example.evidence, *(example.truth or {})]:
            if name not in self.program.predicates:
                raise ExampleError(f"unknown predicate {name}", "schema")
        if isinstance(item, Answered):
            prediction = item.prediction
        else:
            prediction = Prediction(example.id, self._best(), 0.0, True, example.group)
            tally.predicted, tally.certified = tally.predicted + 1, (tally.certified or 0) + 1
        self.seen += learning
        if example.truth is None:
            return prediction
        truth, predicted = named_atoms(example.truth), named_atoms(prediction.predicted)
        _score(tally, truth, predicted)
        self.weights.updates += learning
        for name, rows in example.truth.items() if learning else ():
            for row in rows:
                self.weights[name, *map(str, arguments(row))] += 1000 + self.weights.updates
        return structs.replace(prediction, hamming=len(truth ^ predicted))

    def _best(self) -> Rows:
        best = dict[tuple[Any, ...], tuple[int, Any]]()
        for (*place, last), votes in self.weights.items():
            if votes > best.get(tuple(place), (0,))[0]:
                best[tuple(place)] = votes, last
        rows = [(name, [*map(_plain, (*rest, last))]) for (name, *rest), (_, last) in best.items()]
        return {name: [row for other, row in rows if other == name] for name in self.query}

    # from one run to the next ------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        header = {"seen": self.seen, "updates": self.weights.updates}
        votes = [[*atom, n] for atom, n in self.weights.items()]
        return header | {"votes": votes}, {"votes": np.array([*self.weights.values()], np.int64)}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self.weights, self.seen = Votes(), 0
        self._add(header)

    def _add(self, saved: Mapping[str, Any]) -> None:
        self.seen += saved["seen"]
        self.weights.updates += saved["updates"]
        for *atom, votes in saved["votes"]:
            self.weights[tuple(atom)] += votes

    def gain(self, start: Any) -> Any:
        saved, before = self.save()[0], start[0]
        already = {tuple(atom): n for *atom, n in before["votes"]}
        votes = [[*atom, n - already.get(tuple(atom), 0)] for *atom, n in saved["votes"]]
        return {name: saved[name] - before[name] for name in ("seen", "updates")} | {"votes": votes}

    def merge(self, gains: Sequence[Any], by_dual: bool) -> float:
        for gained in gains:
            self._add(gained)
        return 1 / len(gains)

    def weights_text(self, averaged: str, by: str) -> str:
        votes = "".join(f"// {n} {atom}\n" for atom, n in self.weights.items())
        return f"// {averaged}\n// {by}\n{votes}{self.model_text}"

    # what it does without ----------------------------------------------------------------------

    def compile(self) -> float:
        return 0.0

    def certificate(self) -> dict[str, float | None]:
        return {}

    def start(self, program: Any) -> list[str]:
        return []

    def explain(self, *arguments: Any) -> Any:
        raise ExplanationError("it only counts")

    def least_certain(self, *arguments: Any) -> list[Any]:
        return []

    advice = complaints = least_certain

    def words(self, evidence: Any) -> dict[str, str]:
        return {}


def _plain(constant: str) -> Constant:
    """A constant as it is given: a whole number where it can be."""
    return (
        int(constant)
        if str(constant).isdecimal() and (constant == "0" or constant[0] != "0")
        else constant
    )


def _score(tally: Tally, truth: set[Atom], predicted: set[Atom]) -> None:
    right, extra, missed = truth & predicted, predicted - truth, truth - predicted
    counts = [*map(len, (right, extra, missed, truth | predicted, right, truth ^ predicted))]
    tally.labelled += 1
    tally.counts = tally.counts + np.array([*counts, truth == predicted])
    for n, atoms in enumerate((right, extra, missed)):
        for name, constants in sorted(atoms):
            for scores, key in ((tally.predicates, name), (tally.by_class, constants[-1])):
                scores.setdefault(key, np.zeros(3, np.int64))[n] += 1
