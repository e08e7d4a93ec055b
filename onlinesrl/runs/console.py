"""Messages to people: on standard error, or to a listener."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TextIO

from onlinesrl.core.errors import legible

Say = Callable[[str], object]

_STOPPING = b"stopping, with a checkpoint; a second signal stops at once\n"
_told: ContextVar[Say | None] = ContextVar("told", default=None)


@contextlib.contextmanager
def told_to(listener: Say) -> Iterator[None]:
    """Have messages go to a listener, not to standard error."""
    token = _told.set(listener)
    try:
        yield
    finally:
        _told.reset(token)


def say(message: str) -> None:
    """Write a message to standard error, if anybody is there to read it."""
    listener = _told.get()
    if listener is not None:
        listener(message)
        return
    with contextlib.suppress(OSError):
        print(legible(message), file=sys.stderr)


def warn(message: str) -> None:
    """Write a warning, as ``say`` does."""
    say(f"warning: {message}")


def acknowledge(stream: TextIO | None = None) -> None:
    """Say that a signal has asked to stop; unbuffered, since this is called in signal handlers."""
    with contextlib.suppress(OSError, ValueError):
        os.write((stream or sys.stderr).fileno(), _STOPPING)
