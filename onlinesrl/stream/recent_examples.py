"""The last few examples of a run, kept for the report, and signals of drift."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from onlinesrl.core.evaluation.drift import DriftDetector
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.io.restoring import Misfit, converted
from onlinesrl.core.learner import Answered, Outcome, Prediction
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.source import READ_BYTES

SHOWN = 8
SHOWN_BYTES = READ_BYTES // SHOWN
"""The longest example that is kept for the report."""
UNCERTAIN = 0.1
"""An atom is uncertain if its value is nearer to 1/2 than this."""


def drifts(results: Sequence[Result], detector: DriftDetector | None) -> list[int]:
    """Return how many examples there are up to each signal of drift; late labels are none."""
    if detector is None:
        return []
    return [
        sum(not isinstance(one.item, Answered) for one in results[: place + 1])
        for place, result in enumerate(results)
        if result.outcome.wrong is not None and detector.add(result.outcome.wrong)
    ]


class Shown(deque[tuple[Example, Outcome]]):
    """The last labelled examples and their outcomes.

    An example of true negatives only is there as long as there are less than ``SHOWN`` other ones.
    """

    def __init__(self) -> None:
        super().__init__(maxlen=SHOWN)

    def take(self, results: Sequence[Result]) -> None:
        """Keep the last of these examples."""
        labelled = (
            (result.example, result.outcome)
            for result in reversed(results)
            if isinstance(result.example, Example)
            and result.example.labelled
            and result.outcome.prediction is not None
            and len(result.record.value) <= SHOWN_BYTES
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
