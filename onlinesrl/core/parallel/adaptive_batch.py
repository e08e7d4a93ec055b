"""Batching within the memory limit; an example that alone exceeds it is bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onlinesrl.core import interrupt
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.learner import Item, LearnedWeights, Outcome

TOO_LARGE = (
    "takes more memory than is available, even by itself; limits.max_atoms and "
    "inference.max_groundings limit the size of an example"
)

Attempt: TypeAlias = Callable[[Sequence[Item]], list[Outcome]]
"""Processes the first items, at least one; or raises MemoryError or Apart without any effect.

There are fewer outcomes than items if a signal asks to stop.
"""


class Apart(Exception):
    """These examples must not be in the same batch."""


@dataclass
class AdaptiveBatcher:
    """The adaptive batch size: halved when memory runs out, then increased by one each time.

    It has no effect on the results.
    """

    most: int = 1 << 30

    def take(
        self, items: Sequence[Item], attempt: Attempt, weights: LearnedWeights
    ) -> list[Outcome]:
        """Process items in turn; fewer if a signal asks to stop.

        Raises MemoryError if it comes after an update of weights: the state in memory is then unusable.
        """
        outcomes: list[Outcome] = []
        while True:
            batch = items[len(outcomes) : len(outcomes) + self.most]
            updates, results = weights.updates, None
            try:
                results = attempt(batch)
            except (MemoryError, Apart):
                if weights.updates > updates:
                    raise
            if results is None and len(batch) > 1:
                self.most = len(batch) // 2
                continue
            if results is None:
                results = attempt([ExampleError(TOO_LARGE, "memory")])
            outcomes += results
            self.most = self.most + 1 if len(results) == len(batch) else 1
            stopped = len(results) < len(batch) and interrupt.flag()[0]
            if stopped or len(outcomes) == len(items):
                return outcomes
