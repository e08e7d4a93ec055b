"""What the parts of a job took, and its slowest examples.

Seconds are in summaries and checkpoints only, never in results that must be reproducible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onlinesrl.core.example import Constant
from onlinesrl.core.operating_system import peak_bytes


class Clock:
    """Wall-clock and CPU seconds of the parts of a job, and its peak memory."""

    def __init__(self) -> None:
        self._last = time.perf_counter(), time.process_time()
        self._seconds: dict[str, float] = {}
        self._cpu: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Note the end of a part."""
        now = time.perf_counter(), time.process_time()
        self._seconds[part], self._cpu[part] = now[0] - self._last[0], now[1] - self._last[1]
        self._last = now

    def stats(self) -> dict[str, Any]:
        """Return the seconds of each part, and the peak memory in bytes; 0 where the system does not tell."""
        return {"seconds": self._seconds, "cpu_seconds": self._cpu, "peak_bytes": peak_bytes()}


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
            self.add([{"id": example, "seconds": seconds, "atoms": atoms, "route": route()}])

    def restore(self, found: Sequence[dict[str, Any]]) -> None:
        """Have those of an earlier process, or none."""
        self.found = [*found]

    def add(self, found: Sequence[dict[str, Any]]) -> None:
        """Add those of another process."""
        self.found = sorted([*self.found, *found], key=lambda one: -one["seconds"])[:KEPT]

    def tell(self, working: Callable[[str, float], object]) -> None:
        """Call ``working`` with the current example and the seconds it has taken."""
        if self._now is not None:
            example, started = self._now
            working(str(example), time.monotonic() - started)
