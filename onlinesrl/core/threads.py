"""Work divided among threads, for kernels that do not hold Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


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


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items, each next one made by another thread while the caller is busy with one.

    An error comes where its item would have. Closing waits for the item that is being made.
    """
    end = object()
    with ThreadPoolExecutor(1, "ahead") as other:
        coming = other.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = other.submit(next, items, end)
            yield item  # type: ignore[misc]
