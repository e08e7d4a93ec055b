"""The examples of a micro-batch, and the last few, kept for the report."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.evaluation.drift import DriftDetector
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.io.restoring import Misfit, converted
from onlinesrl.core.learner import Answered, Item, Outcome, Prediction
from onlinesrl.stream.late_labels import PendingExample
from onlinesrl.stream.records import Record
from onlinesrl.stream.source import READ_BYTES

SHOWN = 8
SHOWN_BYTES = READ_BYTES // SHOWN
"""The longest example that is kept for the report."""
UNCERTAIN = 0.1
"""An atom is uncertain if its value is nearer to 1/2 than this."""


class EarlyLabel(NamedTuple):
    """The record of a label that came before its example, and the example without it."""

    record: Record
    example: Example


class Work(NamedTuple):
    """An item for the learner, its record, and its entry among those that wait for a label.

    ``early``: the item has a label that came before its example.
    """

    record: Record
    item: Item
    waiting: PendingExample | None = None
    early: EarlyLabel | None = None

    @property
    def example(self) -> Example | ExampleError:
        """The example, with its truth if known."""
        return self.item.example if isinstance(self.item, Answered) else self.item


def drifts(
    outcomes: Sequence[Outcome], work: Sequence[Work], detector: DriftDetector | None
) -> list[int]:
    """Return how many examples there are up to each signal of drift; late labels are none."""
    if detector is None:
        return []
    return [
        sum(not isinstance(entry.item, Answered) for entry in work[: place + 1])
        for place, outcome in enumerate(outcomes)
        if outcome.wrong is not None and detector.add(outcome.wrong)
    ]


class Shown(deque[tuple[Example, Outcome]]):
    """The last labelled examples and their outcomes.

    An example of true negatives only is there as long as there are less than ``SHOWN`` other ones.
    """

    def __init__(self) -> None:
        super().__init__(maxlen=SHOWN)

    def take(self, work: Sequence[Work], outcomes: Sequence[Outcome]) -> None:
        """Keep the last of these examples."""
        labelled = (
            (entry.example, outcome)
            for entry, outcome in zip(reversed(work), reversed(outcomes), strict=True)
            if isinstance(entry.example, Example)
            and entry.example.labelled
            and outcome.prediction is not None
            and len(entry.record.value) <= SHOWN_BYTES
        )
        newest: dict[bool, list[tuple[int, tuple[Example, Outcome]]]] = {True: [], False: []}
        for age, pair in enumerate(chain(labelled, reversed(self))):
            candidates = newest[_notable(pair[1].prediction)]
            if len(candidates) < SHOWN:
                candidates.append((age, pair))
            if len(newest[True]) == SHOWN:
                break
        notable = newest[True]
        chosen = [*notable, *newest[False][: SHOWN - len(notable)]]
        self.clear()
        self.extend(pair for _, pair in sorted(chosen, key=lambda aged: -aged[0]))

    def whole(self) -> list[tuple[Example, Outcome]]:
        """Return them with all atoms in memory."""
        return [
            (example.whole(), replace(outcome, prediction=outcome.prediction.whole()))
            for example, outcome in self
            if outcome.prediction is not None  # so of all of them
        ]

    def save(self) -> msgspec.Raw:
        """Return them as JSON, which is the same after ``restore``."""
        return msgspec.Raw(msgspec.json.encode(self.whole()))

    def restore(self, saved: Any) -> None:
        """Restore what ``save`` returned. Raises Misfit."""
        pairs = converted(saved, list[tuple[Example, Outcome]])
        if any(outcome.prediction is None for _, outcome in pairs):
            raise Misfit("an example to be shown has no prediction")
        self.extend(pairs)


def _notable(prediction: Prediction | None) -> bool:
    """Tell whether an atom is wrong, uncertain or predicted true."""
    return prediction is not None and (
        prediction.hamming != 0
        or any(
            not isinstance(row, ValuedAtom) or row.value > 0.5 - UNCERTAIN
            for rows in prediction.predicted.values()
            for row in rows
        )
    )
