"""What operating systems do differently: files, locks, processes, signals and limits.

Windows has no fcntl, no resource, no fork, no positional reads and no SIGHUP.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from importlib import import_module
from operator import or_
from typing import Any


def _module(name: str) -> Any:
    """Import a module of some systems; None on others."""
    with suppress(ImportError):
        return import_module(name)
    return None


_fcntl, _msvcrt, _resource, _select = map(_module, ("fcntl", "msvcrt", "resource", "select"))
_os: Any = os
_LOCKED = 1 << 30
"""The byte that is locked on Windows, where a locked byte cannot be read: it is behind the content."""
_POSITION = threading.Lock()

HANG_UP: Any = getattr(signal, "SIGHUP", getattr(signal, "SIGBREAK", None))
"""The signal that the terminal was closed; None where there is none."""


# files -------------------------------------------------------------------------------------------


def open_flags(*names: str) -> int:
    """Return those flags for opening files that the system has; Windows must be asked not to change lines."""
    return reduce(or_, (getattr(os, name, 0) for name in ("O_BINARY", *names)))


def read_into(descriptor: int, buffer: Any) -> int:
    """Read into a buffer; return the number of bytes. Raises OSError."""
    if hasattr(_os, "readv"):
        return int(_os.readv(descriptor, [buffer]))
    data = os.read(descriptor, len(buffer))
    buffer[: len(data)] = data
    return len(data)


def read_at(descriptor: int, buffer: Any, position: int) -> int:
    """Read into a buffer from a position of the file; return the number of bytes. Raises OSError."""
    if hasattr(_os, "preadv"):
        return int(_os.preadv(descriptor, [buffer], position))
    with _POSITION:
        os.lseek(descriptor, position, os.SEEK_SET)
        return read_into(descriptor, buffer)


def write_at(descriptor: int, data: Any, position: int) -> int:
    """Write at a position of the file; return the number of bytes. Raises OSError."""
    if hasattr(_os, "pwrite"):
        return int(_os.pwrite(descriptor, data, position))
    with _POSITION:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)


def head(descriptor: int, size: int) -> bytes:
    """Return the first bytes of an open file, at most ``size``. Raises OSError."""
    buffer = bytearray(size)
    return bytes(buffer[: read_at(descriptor, buffer, 0)])


USER: int | None = _os.geteuid() if hasattr(_os, "geteuid") else None
"""The number of the user of this process; None where files have neither owners nor modes."""


def lock(descriptor: int) -> None:
    """Lock a file until it is closed, however the process ends.

    Raises BlockingIOError if another process has locked it, and OSError.
    """
    if _fcntl is not None:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        return
    os.lseek(descriptor, _LOCKED, os.SEEK_SET)
    try:
        _msvcrt.locking(descriptor, _msvcrt.LK_NBLCK, 1)
    except PermissionError as error:
        raise BlockingIOError(error.errno, error.strerror) from error


class _Waiting:
    """In place of a poll object, where there is none: a read itself waits for data."""

    def poll(self, milliseconds: float) -> bool:
        return True


def readiness(descriptor: int) -> Any:
    """Return an object whose poll tells whether a pipe has data, after at most some milliseconds."""
    if not hasattr(_select, "poll"):
        return _Waiting()
    poll = _select.poll()
    poll.register(descriptor, _select.POLLIN)
    return poll


# processes ---------------------------------------------------------------------------------------


def process_context() -> Any:
    """Return how `multiprocessing` starts processes: by forks, where the system's libraries bear them.

    On macOS they do not, as Python's manual says, and Windows has none: new processes are started there.
    """
    from multiprocessing import get_context

    forks = hasattr(os, "fork") and sys.platform != "darwin"
    return get_context("fork" if forks else "spawn")


def in_forks(function: Callable[[], None]) -> None:
    """Call a function at the start of every fork of this process."""
    if hasattr(_os, "register_at_fork"):
        _os.register_at_fork(after_in_child=function)


def step_back(nice: int, seconds: int) -> None:
    """Give this process a lower priority, and have the system end it after some seconds, if it can."""
    if hasattr(_os, "nice"):
        _os.nice(nice)
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


# limits ------------------------------------------------------------------------------------------


def peak_bytes() -> int:
    """Return the peak memory of this process; 0 where the system does not tell."""
    if _resource is None:
        return 0
    peak: int = _resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def limits_memory() -> bool:
    """Tell whether the memory of this process is limited."""
    return _limit("RLIMIT_AS") is not None or _limit("RLIMIT_DATA") is not None


def _limit(name: str) -> int | None:
    if _resource is None:
        return None
    limit: int = _resource.getrlimit(getattr(_resource, name))[0]
    return None if limit == _resource.RLIM_INFINITY else limit


def limit_unreceived(opened: socket.socket, seconds: float) -> None:
    """Have connections end whose other end has vanished, and receives nothing for so long; Linux only.

    Elsewhere the system decides, after some ten minutes.
    """
    if sys.platform == "linux":
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))
