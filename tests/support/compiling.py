"""Several processes that need the same kernel: one compiles it, the others wait and load it."""

import fcntl
import threading
import zlib
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher


def once(lock: Path) -> None:
    """Let one process at a time compile a kernel, or load it; to be called before kernels are imported."""
    lock.parent.mkdir(exist_ok=True)
    file, compiling, inside = lock.open("wb"), Dispatcher.compile, threading.local()

    def alone(self: Any, kinds: Any) -> Any:
        if getattr(inside, "kernel", False):  # a part of it
            return compiling(self, kinds)
        kernel = zlib.crc32(f"{self.__module__}.{self.__name__}".encode())
        fcntl.lockf(file, fcntl.LOCK_EX, 1, kernel)
        inside.kernel = True
        try:
            return compiling(self, kinds)
        finally:
            inside.kernel = False
            fcntl.lockf(file, fcntl.LOCK_UN, 1, kernel)

    Dispatcher.compile = alone
