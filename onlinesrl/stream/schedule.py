"""How many records a micro-batch has, and when a run writes checkpoints and metrics."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import parent_process

SHARE_EVERY = 500
"""The share of bad examples is checked after so many examples, and at the end."""
WEIGH_EVERY = 128
"""The size of the queue of late labels is computed after so many examples and labels."""
SECONDS = 1.0
"""How long a micro-batch should take, so that slow examples delay no progress, checkpoint or signal."""


@dataclass(frozen=True)
class Schedule:
    """When to write checkpoints and metrics.

    Without ``metrics_every`` and ``metrics_seconds`` a line of metrics is written at powers of two.
    """

    checkpoint_examples: int | None
    checkpoint_seconds: float | None
    metrics_every: int | None
    metrics_seconds: float | None
    batch: int

    def room(self, examples: int) -> int:
        """Return how many examples may be taken before something is due: at most a batch."""
        metrics = self.metrics_every
        power = [] if metrics or self.metrics_seconds else [(1 << examples.bit_length()) - examples]
        every = [n for n in (SHARE_EVERY, metrics, self.checkpoint_examples) if n]
        return min(self.batch, *power, *(n - examples % n for n in every))

    def metrics_due(self, examples: int) -> bool:
        """Tell whether a line of metrics is due after so many examples, whatever their times."""
        if self.metrics_every:
            return examples % self.metrics_every == 0
        if self.metrics_seconds:
            return False
        return examples & (examples - 1) == 0


class Pace:
    """Finds ``most``, the number of examples that take about a second. It begins with one.

    Results do not depend on the size of micro-batches.
    """

    def __init__(self) -> None:
        self.most = 1

    @contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """Return a context that measures how long a micro-batch of this size takes."""
        began = time.monotonic()
        yield
        self.heed(size, time.monotonic() - began)

    def heed(self, size: int, seconds: float) -> None:
        """Halve the size of a micro-batch that took too long; quadruple that of one that took far less."""
        if seconds > SECONDS:
            self.most = max(size // 2, 1)
        elif seconds < SECONDS / 8:
            self.most = max(self.most, 4 * size)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Make garbage collection rare: examples are short-lived and have no reference cycles.

    Existing objects are frozen, and a collection runs once per million new objects; by default
    collection would take more time than learning. In a child of `multiprocessing` nothing is frozen
    or unfrozen here: see `core.parallel.task_result.depend_on`.
    """
    thresholds, child = gc.get_threshold(), parent_process() is not None
    if not child:
        gc.freeze()
    gc.set_threshold(1_000_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not child:
            gc.unfreeze()
