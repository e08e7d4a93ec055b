"""Calls that may never return, each on a daemon thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from onlinesrl.core.parallel.starting import starting

T = TypeVar("T")


def aside(work: Callable[[], T]) -> Future[T]:
    """Start work on a daemon thread, which is abandoned if the work never returns."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from now on it cannot be cancelled

    def settle() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    with starting():
        Thread(target=settle, daemon=True).start()
    return future
