"""The size of micro-batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 1.0
"""How long a micro-batch should take, so that slow examples delay no progress, checkpoint or signal."""


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
