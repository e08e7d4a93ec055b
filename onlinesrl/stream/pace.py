"""How large micro-batches are: what takes long an example still shows, saves and stops in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 1.0


class Pace:
    """Finds how many examples take about a second: ``most``, at first one.

    Results are the same for all sizes.
    """

    def __init__(self) -> None:
        self.most = 1

    @contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """Heed how long a micro-batch of this size takes."""
        began = time.monotonic()
        yield
        self.heed(size, time.monotonic() - began)

    def heed(self, size: int, seconds: float) -> None:
        """Take half as many as took too long, more than took far less."""
        if seconds > SECONDS:
            self.most = max(size // 2, 1)
        elif seconds < SECONDS / 8:
            self.most = max(self.most, 4 * size)
