"""When a run saves, counts and writes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SHARE_EVERY = 128
"""The share of bad examples is looked at after so many, and at the source's end."""


@dataclass(frozen=True)
class Schedule:
    """When to save and when to write a line of metrics; None: by powers of two, or never."""

    checkpoint_examples: int | None
    checkpoint_seconds: float | None
    keep: int
    metrics_every: int | None
    batch: int

    def room(self, examples: int) -> int:
        """Return how many examples may be taken before something is due: at most a batch."""
        due = [self.batch, (1 << examples.bit_length()) - examples]
        due.append(SHARE_EVERY - examples % SHARE_EVERY)
        due += [n - examples % n for n in (self.metrics_every, self.checkpoint_examples) if n]
        return min(due)

    def metrics_due(self, examples: int) -> bool:
        """Tell whether a line of metrics is due after so many examples."""
        power = examples & (examples - 1) == 0
        return power or bool(self.metrics_every and examples % self.metrics_every == 0)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Spare a stream of short-lived examples the search for reference cycles, which has none to find.

    What was there before is left out of it, and it runs once in 100,000 new objects: without this it
    takes more time than the learning.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
