"""The examples with the slowest inference, and the example being solved now.

Seconds are in the summary and in checkpoints only, never in results that must be reproducible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onlinesrl.core.example import Constant

KEPT = 5


class Slowest:
    """The ``KEPT`` slowest examples so far, slowest first: id, seconds, open atoms and route."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._now: tuple[Constant, float] | None = None

    @contextmanager
    def timing(self, example: Constant, atoms: int, route: Callable[[], str]) -> Iterator[None]:
        """Time the inference of an example; ``route`` is called afterwards to tell how it was solved."""
        started = time.monotonic()
        self._now = (example, started)
        try:
            yield
        finally:
            self._now = None
        seconds = round(time.monotonic() - started, 3)
        if len(self.found) < KEPT or seconds > self.found[-1]["seconds"]:
            found = {"id": example, "seconds": seconds, "atoms": atoms, "route": route()}
            self.found = sorted([*self.found, found], key=lambda each: -each["seconds"])[:KEPT]

    def tell(self, working: Callable[[str, float], object]) -> None:
        """Call ``working`` with the current example and the seconds it has taken."""
        if self._now is not None:
            example, started = self._now
            working(str(example), time.monotonic() - started)
