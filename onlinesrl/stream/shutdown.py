"""How a signal ends a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import ClassVar

from onlinesrl.core import interrupt
from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.operating_system import HANG_UP


class Stopped(OnlinesrlError):
    """A signal came while the run was waiting for its source, or for Kafka."""

    exit_code = 0


class ShutdownSignal:
    """SIGINT, SIGTERM and SIGHUP. The first asks to stop with a checkpoint, the second stops at once.

    The first also interrupts a search, whose example is then left for the next start (``interrupt``).
    While the run is ``waiting`` for input it raises Stopped. It calls ``acknowledge`` and ``told``.
    """

    leaves_searches: ClassVar[bool] = True

    def __init__(self) -> None:
        self.asked = False
        self.waiting = False
        self.acknowledge: Callable[[], object] = lambda: None
        self.told: Callable[[], object] = lambda: None
        self.stack = ExitStack()

    def __enter__(self) -> ShutdownSignal:
        if threading.current_thread() is not threading.main_thread():
            return self  # where no signal arrives
        if self.leaves_searches:
            self.stack.enter_context(interrupt.noted())
        asking = [signal.SIGINT, signal.SIGTERM]
        if HANG_UP and signal.getsignal(HANG_UP) != signal.SIG_IGN:  # nohup's processes ignore it
            asking.append(HANG_UP)
        for number in asking:
            self.stack.callback(signal.signal, number, signal.signal(number, self._ask))
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self.acknowledge()
        self.told()
        if self.waiting:
            raise Stopped("stopped")
        interrupt.note()
