"""Ctrl-C waits for the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def whole() -> Iterator[None]:
    """Do a step whole, for a caller who handles no signals: Ctrl-C takes effect when the step has ended.

    KeyboardInterrupt is raised at the end, when nothing is half done; a second Ctrl-C raises it at once.
    Elsewhere than on the main thread, and where SIGINT has a handler already, nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signals: list[int] = []

    def ask(number: int, frame: object) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signals:
        raise KeyboardInterrupt
