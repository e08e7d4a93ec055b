"""How a signal ends a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.operating_system import HANG_UP


class Stopped(OnlinesrlError):
    """A signal came while the run was compiling, or waiting for its source, workers or Kafka."""

    exit_code = 0


class ShutdownSignal:
    """SIGINT, SIGTERM and SIGHUP. The first asks to stop with a checkpoint, the second stops at once.

    The first raises Stopped in the context ``waiting``, and otherwise only sets ``asked``; before that, its
    handler calls what was given to ``subscribe``.
    """

    def __init__(self) -> None:
        self.asked = False
        self._callbacks = list[Callable[[], object]]()
        self._in_wait = False
        self._stack = ExitStack()

    def __enter__(self) -> ShutdownSignal:
        if threading.current_thread() is not threading.main_thread():
            return self  # where no signal arrives
        asking = [signal.SIGINT, signal.SIGTERM]
        if HANG_UP and signal.getsignal(HANG_UP) != signal.SIG_IGN:  # nohup's processes ignore it
            asking.append(HANG_UP)
        for number in asking:
            self._stack.callback(signal.signal, number, signal.signal(number, self._ask))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def subscribe(self, callback: Callable[[], object]) -> None:
        """Have the handler of the first signal call a function."""
        self._callbacks.append(callback)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Raise Stopped in this context as soon as a signal asks to stop, or has asked."""
        self._in_wait = True
        try:
            if self.asked:
                raise Stopped("stopped")
            yield
        finally:
            self._in_wait = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._tell()
        if self._in_wait:
            raise Stopped("stopped")

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback()
