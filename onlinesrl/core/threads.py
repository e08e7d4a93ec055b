"""Work divided among threads, for kernels that do not hold Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Team:
    """The caller's thread and ``threads - 1`` others, which end with the context."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._others = ThreadPoolExecutor(max(threads - 1, 1), "part")

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self._others.shutdown(cancel_futures=True)

    def run(self, part: Callable[..., object], *arguments: Any) -> None:
        """Call ``part(*arguments, rank, threads)`` for all ranks at once; raises what a part raises."""
        ranks = range(1, self.threads)
        asked = [self._others.submit(part, *arguments, rank, self.threads) for rank in ranks]
        part(*arguments, 0, self.threads)
        for each in asked:
            each.result()
