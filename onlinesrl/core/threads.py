"""Work divided among threads, for kernels that do not hold Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
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


class Aside:
    """Another thread, where one is wanted, that does one task at a time."""

    def __init__(self, threaded: bool) -> None:
        self._other = ThreadPoolExecutor(1, "aside") if threaded else None
        self._coming: Future[Any] | None = None

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *_: object) -> None:
        if self._other is not None:
            self._other.shutdown(cancel_futures=True)

    @property
    def busy(self) -> bool:
        """Whether a task was begun whose result was not taken."""
        return self._coming is not None

    def begin(self, task: Callable[..., T], *arguments: Any) -> None:
        """Begin a task, if there is another thread; the result of the one before must have been taken."""
        assert self._coming is None
        if self._other is not None:
            self._coming = self._other.submit(task, *arguments)

    def wait(self) -> None:
        """Wait for the end of the task, if there is one."""
        if self._coming is not None:
            wait([self._coming])

    def take(self) -> Any:
        """Wait for the result of the task; raises what it raised."""
        coming, self._coming = self._coming, None
        assert coming is not None
        return coming.result()


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
