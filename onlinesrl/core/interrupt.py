"""A signal that asks a run to stop ends what it is searching, in a kernel or a solver, too.

Python's own handlers wait until a kernel returns. So the system itself writes each signal to a page of
memory (the wakeup descriptor of ``signal``, here a file that is mapped), and kernels look at it.
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

POLL_SECONDS = 0.05
"""How often what waits for another thread or process asks whether to go on."""
Flag: TypeAlias = NDArray[np.uint8]
_PAGE = 4096


class _Now:
    """Where a signal is noted, and whether its handler is to raise."""

    flag: Flag = np.zeros(1, np.uint8)
    raises = False
    polled: Callable[[], object] = staticmethod(lambda: None)


left_behind: list[object] = []
"""Solvers that were left and have not ended yet: the process must end without waiting for them."""


class Interrupted(OnlinesrlError):
    """A search was left because a signal asked to stop."""


def flag() -> Flag:
    """Return bytes of which the first is not 0 once a signal has asked to stop."""
    return _Now.flag


def check() -> None:
    """Raise Interrupted if a signal has asked to stop; call what is ``polled``."""
    _Now.polled()
    if _Now.flag[0]:
        raise Interrupted("the search was left")


@contextmanager
def polled(each: Callable[[], object]) -> Iterator[None]:
    """Call a function now and then while a search goes on."""
    _Now.polled = staticmethod(each)
    try:
        yield
    finally:
        _Now.polled = staticmethod(lambda: None)


@contextmanager
def noted() -> Iterator[None]:
    """Have the signals that have a handler noted in a ``flag`` of their own; for the main thread.

    Where there can be no such page, only ``note`` does so.
    """
    before = _Now.flag
    with ExitStack() as stack:
        try:
            _Now.flag = _page(stack)
        except (AttributeError, OSError):
            _Now.flag = np.zeros(1, np.uint8)
        stack.callback(setattr, _Now, "flag", before)
        yield


def _page(stack: ExitStack) -> Flag:
    """Return memory that the system writes signals to."""
    descriptor = os.memfd_create("signals", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.truncate(descriptor, _PAGE)
    os.set_blocking(descriptor, False)
    page = mmap.mmap(descriptor, _PAGE)
    stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(descriptor))
    return np.frombuffer(page, np.uint8)


@contextmanager
def leavable() -> Iterator[None]:
    """Do a search of which nothing but its answer is used: raises Interrupted where a signal asks to stop.

    On the main thread that may be anywhere in it (see ``note``), elsewhere where it looks.
    """
    check()
    _Now.raises = threading.current_thread() is threading.main_thread()
    try:
        yield
    except Exception:
        check()  # a kernel that was left has no answer, and what follows from it is none
        raise
    finally:
        _Now.raises = False
    check()


def note() -> None:
    """Note a signal that asks to stop, for its handler; raises Interrupted if that is in a search."""
    _Now.flag[0] = 1
    if _Now.raises:
        raise Interrupted("the search was left")
