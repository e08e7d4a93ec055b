"""Work divided among threads, for kernels that do not hold Python's lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from onlinesrl.core.parallel.starting import starting

T = TypeVar("T")


TRIES, NAP_SECONDS = 2_000, 5e-5
"""The number of checks for other threads, some 2 ms in all, before a thread naps between checks."""


class _LeftError(Exception):
    """Another thread has failed, and raises its own error."""


class ThreadTeam:
    """The caller's thread and ``threads - 1`` others, which end with the context."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._others = ThreadPoolExecutor(max(threads - 1, 1), "part")
        self._met, self._left = [0], False

    def __enter__(self) -> ThreadTeam:
        return self

    def __exit__(self, *_: object) -> None:
        self._others.shutdown(cancel_futures=True)

    def run(self, part: Callable[..., object], *arguments: Any) -> None:
        """Call ``part(*arguments, rank, threads)`` for all ranks at once; raises what a part raises."""
        self._met, self._left = [0] * self.threads, False
        futures: list[Future[None]] = []
        try:
            for rank in range(1, self.threads):
                with starting():
                    futures.append(self._others.submit(self._do, part, *arguments, rank))
            self._do(part, *arguments, 0)
        except BaseException:
            self._left = True
            raise
        finally:
            wait(futures)
        for future in futures:
            future.result()

    def _do(self, part: Callable[..., object], *arguments: Any) -> None:
        try:
            part(*arguments, self.threads)
        except _LeftError:
            pass
        except BaseException:
            self._left = True
            raise

    def barrier(self, rank: int) -> None:
        """Wait in a part until all threads have called this as often; all parts must call it equally often.

        A waiting thread polls, because that takes less time than being woken.
        """
        self._met[rank] += 1
        tries = 0
        while min(self._met) < self._met[rank]:
            if self._left:
                raise _LeftError
            time.sleep(0.0 if tries < TRIES else NAP_SECONDS)
            tries += 1


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items; another thread prepares the next one while the caller is busy.

    An error is raised in place of its item. Closing waits for the item in preparation.
    """
    end = object()
    with ThreadPoolExecutor(1, "ahead") as other:
        with starting():
            coming = other.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = other.submit(next, items, end)
            yield item  # type: ignore[misc]
