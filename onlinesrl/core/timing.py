"""What the parts of a job took."""

from __future__ import annotations

import resource
import time
from typing import Any


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
        """Return the seconds of each part, and the peak memory in bytes."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"seconds": self._seconds, "cpu_seconds": self._cpu, "peak_bytes": peak}
