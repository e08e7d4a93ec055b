"""Examples are taken together, as many as memory allows; one that alone takes more than there is is bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onlinesrl.core import interrupt
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.learner import Item, Outcome, Weights

TOO_LARGE = (
    "takes more memory than there is, also by itself; limits.max_atoms and "
    "inference.max_groundings say how large an example may be"
)

Attempt: TypeAlias = Callable[[Sequence[Item]], list[Outcome]]
"""Takes the first of some items, one at least; or raises MemoryError or Apart, and nothing is done.

None where a signal asked to stop.
"""


class Apart(Exception):
    """Some examples are not to be taken together."""


@dataclass
class Together:
    """How many examples are taken at once: half as many where that is too much, then one more each time.

    It makes no difference to what they come to.
    """

    most: int = 1 << 30

    def take(self, items: Sequence[Item], attempt: Attempt, weights: Weights) -> list[Outcome]:
        """Take items in turn; fewer where a signal asked to stop.

        Raises MemoryError where what was learned cannot be told: what is in memory is of no use then.
        """
        outcomes: list[Outcome] = []
        while True:
            some = items[len(outcomes) : len(outcomes) + self.most]
            updates, found = weights.updates, None
            try:
                found = attempt(some)
            except (MemoryError, Apart):
                if weights.updates > updates:
                    raise
            if found is None and len(some) > 1:
                self.most = len(some) // 2
                continue
            if found is None:
                found = attempt([ExampleError(TOO_LARGE, "memory")])
            outcomes += found
            self.most = self.most + 1 if len(found) == len(some) else 1
            left = len(found) < len(some) and interrupt.flag()[0]
            if left or len(outcomes) == len(items):
                return outcomes
