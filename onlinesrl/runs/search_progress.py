"""What a long search does, shown while somebody waits for its answer."""

from __future__ import annotations

import time

from onlinesrl.core import interrupt
from onlinesrl.runs.progress import Status

SHOWN, ADVISED = 5.0, 60.0
"""Seconds after which a search is shown, and after which there is advice."""


class Search:
    """Shows, whenever it is called, what a search does, once that takes seconds.

    After a minute ``advice`` is told, once.
    """

    def __init__(self, status: Status, advice: str | None) -> None:
        self._status, self._advice = status, advice
        self._begun = time.monotonic()

    def __call__(self) -> None:
        """Show what is being done now."""
        seconds = time.monotonic() - self._begun
        if seconds >= SHOWN:
            self._status(f"{interrupt.done()}: {seconds:.0f} s")
        if seconds >= ADVISED and self._advice is not None:
            self._status.tell(self._advice)
            self._advice = None
