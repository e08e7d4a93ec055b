"""Calls of remote services, which may never answer: each on a daemon thread."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from threading import Condition, Thread
from typing import TypeVar

from onlinesrl.core.io.remote import without_login
from onlinesrl.core.parallel.starting import starting
from onlinesrl.stream.shutdown import Stopped

T = TypeVar("T")
LOOK_SECONDS = 0.1
PAUSE_SECONDS = 60.0
"""From a call that failed to the next one."""
SLOW_SECONDS = 60.0
"""A call that takes longer is warned of."""
END_SECONDS = 60.0
"""How long calls may take at the end of a run."""
STOP_SECONDS = 5.0
"""The same where a signal asked to stop."""


def aside(work: Callable[[], T]) -> Future[T]:
    """Start work on a daemon thread, which is abandoned if the work never returns."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from now on it cannot be cancelled
    context = copy_context()

    def settle() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:
            future.set_exception(error)

    with starting():
        Thread(target=settle, daemon=True).start()
    return future


def attended(
    work: Callable[[], T],
    stopping: Callable[[], bool],
    grace: float = 1.0,
    seconds: float = float("inf"),
) -> T:
    """Return what work returns.

    Raises Stopped if it takes longer than ``grace`` seconds after a request to stop, and TimeoutError if it
    takes longer than ``seconds``.
    """
    future, started, asked_at = aside(work), time.monotonic(), 0.0
    while not wait([future], LOOK_SECONDS).done:
        now = time.monotonic()
        asked_at = (asked_at or now) if stopping() else 0.0
        if asked_at and now - asked_at >= grace:
            raise Stopped("stopped")
        if now - started >= seconds:
            raise TimeoutError(f"no answer within {seconds:g} s")
    return future.result()


class RemoteCalls:
    """Calls of a remote service in turn, on a daemon thread, so that nobody waits for them.

    A call that fails is not repeated. It is counted in ``failures``, and the next one begins after
    ``PAUSE_SECONDS``. ``warn`` gets the first of several failures in succession, or that a call takes longer
    than ``SLOW_SECONDS``, after ``what``. If more than ``most`` calls wait, the oldest are left out.
    """

    def __init__(self, what: str, most: int, warn: Callable[[str], object]) -> None:
        self.failures = 0
        self._what, self._warn = what, warn
        self._since = math.inf
        """When the present call began."""
        self._failing = self._ending = False
        self._calls = deque[Callable[[], object]](maxlen=most)
        self._changed = Condition()
        self._work: Future[None] | None = None

    def begin(self, call: Callable[[], object]) -> None:
        """Have a call made after those that wait."""
        with self._changed:
            self._calls.append(call)
            if time.monotonic() - self._since > SLOW_SECONDS:
                self._tell(f"no answer for {SLOW_SECONDS:.0f} s")
            self._changed.notify_all()
            if self._work is None:
                self._work = aside(self._make)

    def end(self, stopping: Callable[[], bool]) -> bool:
        """Make the calls that wait, without a pause, up to the first that fails.

        Return False if that takes too long.
        """
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        started = time.monotonic()
        while self._work is not None and not wait([self._work], LOOK_SECONDS).done:
            if time.monotonic() - started >= (STOP_SECONDS if stopping() else END_SECONDS):
                return False
        return True

    def _make(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls or self._ending)
                if not self._calls:
                    return
                call, is_last = self._calls.popleft(), self._ending
                self._since = time.monotonic()
            try:
                call()
                self._failing, self._since = False, math.inf
            except Exception as error:
                self._since = math.inf
                self.failures += 1
                self._tell(f"{error}; tried again every {PAUSE_SECONDS:.0f} s")
                if is_last:
                    return
                with self._changed:
                    self._changed.wait_for(lambda: self._ending, PAUSE_SECONDS)

    def _tell(self, reason: str) -> None:
        if not self._failing:
            self._warn(without_login(f"{self._what}: {reason}"))
        self._failing = True
