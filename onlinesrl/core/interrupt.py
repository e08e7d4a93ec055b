"""A signal that asks a run to stop also ends its current search, in a kernel or in a solver.

Python calls signal handlers only when a kernel has returned. Therefore the wakeup descriptor of
``signal`` is a memory-mapped file: the system notes each signal there, and kernels poll it.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.operating_system import memory_file

POLL_SECONDS = 0.05
"""Seconds between two checks for a signal while waiting for another thread or process."""
Flag: TypeAlias = NDArray[np.uint8]
_PAGE = 4096


class _Now:
    """Where signals are noted, and whether the handler raises."""

    flag: Flag = np.zeros(1, np.uint8)
    raises = False
    polled: Callable[[], object] = staticmethod(lambda: None)
    doing: Callable[[], str] = staticmethod(lambda: "searching")


left_behind: list[object] = []
"""Abandoned solvers that still run: the process must exit without waiting for them."""


class Interrupted(OnlinesrlError):
    """A search was abandoned because a signal asked to stop."""


def flag() -> Flag:
    """Return an array whose first byte is not 0 once a signal has asked to stop."""
    return _Now.flag


def check() -> None:
    """Call the function given to ``polled``; raise Interrupted if a signal has asked to stop."""
    _Now.polled()
    if _Now.flag[0]:
        raise Interrupted("the search was interrupted")


@contextmanager
def polled(callback: Callable[[], object]) -> Iterator[None]:
    """Have ``check`` call a function now and then during a search."""
    _Now.polled = staticmethod(callback)
    try:
        yield
    finally:
        _Now.polled = staticmethod(lambda: None)


@contextmanager
def doing(description: Callable[[], str]) -> Iterator[None]:
    """Have ``done`` return what a function says, during a search."""
    before, _Now.doing = _Now.doing, staticmethod(description)
    try:
        yield
    finally:
        _Now.doing = staticmethod(before)


def done() -> str:
    """Return what is being done, in words, for who is ``polled``."""
    return _Now.doing()


@contextmanager
def noted() -> Iterator[None]:
    """Note signals that have a handler in a new ``flag``; main thread only.

    Where the system has no memory files, only ``note`` sets the flag.
    """
    before = _Now.flag
    with ExitStack() as stack:
        try:
            descriptor = memory_file("signals", _PAGE)
            stack.callback(os.close, descriptor)
            page = mmap.mmap(descriptor, _PAGE)
            stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(descriptor))
            _Now.flag = np.frombuffer(page, np.uint8)
        except OSError:
            _Now.flag = np.zeros(1, np.uint8)
        stack.callback(setattr, _Now, "flag", before)
        yield


@contextmanager
def leavable() -> Iterator[None]:
    """Run a search without side effects; raises Interrupted when a signal asks to stop.

    On the main thread it may be raised anywhere in the search (see ``note``), elsewhere by ``check``.
    """
    check()
    _Now.raises = threading.current_thread() is threading.main_thread()
    try:
        yield
    except Exception:
        check()  # the error may only follow from an abandoned kernel
        raise
    finally:
        _Now.raises = False
    check()


@contextmanager
def whole() -> Iterator[None]:
    """Do a step whole or not at all, for a caller who handles no signals: Ctrl-C ends a search in it.

    KeyboardInterrupt is raised at the end, when nothing is half done. Elsewhere than on the main thread,
    and where SIGINT has a handler already, nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signals = []

    def ask(number: int, frame: object) -> None:
        signals.append(number)
        note()

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signals:
            _Now.flag[0] = 0
            raise KeyboardInterrupt


def note() -> None:
    """Note, in its handler, a signal that asks to stop; raises Interrupted during a search."""
    _Now.flag[0] = 1
    if _Now.raises:
        raise Interrupted("the search was interrupted")
