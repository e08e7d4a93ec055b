"""Faults of the storage, in this process: its system calls end, fail or interrupt a run at the n-th write."""

import fcntl
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

WRITING = ("write", "pwrite", "fsync", "replace", "ftruncate", "unlink")
"""The calls by which a run changes its folder."""


class PowerCut(BaseException):
    """The process is over: nothing that it does afterwards reaches the disk."""


class Storage:
    """Counts the calls that change a folder; at the ``at``-th something happens.

    ``event``: "before", "within" and "after" end the process there, as a kill does: no later call reaches
    the disk. A number is that of an error, which the call raises once, and "signal" or
    "two signals" ask the run to stop.
    """

    def __init__(
        self,
        folder: Path,
        at: int = 0,
        event: str | int = "before",
        calls: tuple[str, ...] = WRITING,
    ) -> None:
        self.folder = str(folder)
        self.at = at
        self.event = event
        self.real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in calls}
        self.count = 0
        self.over = False

    def __enter__(self) -> "Storage":
        for name, call in self.real.items():
            setattr(os, name, self._counting(name, call))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        for name, call in self.real.items():
            setattr(os, name, call)
        if kind is not PowerCut:
            return False
        for link in list(Path("/proc/self/fd").iterdir()):  # as the end of a process does
            with suppress(OSError):
                written = fcntl.fcntl(int(link.name), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
                if written and str(link.readlink()).startswith(self.folder):
                    os.close(int(link.name))
        return True

    def _counting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(target: Any, *arguments: Any, **options: Any) -> Any:
            if not self._is_here(target):
                return call(target, *arguments, **options)
            if self.over:
                raise PowerCut
            self.count += 1
            if self.count != self.at:
                return call(target, *arguments, **options)
            if isinstance(self.event, int):
                raise OSError(self.event, os.strerror(self.event))
            if "signal" in self.event:
                for _ in range(2 if self.event == "two signals" else 1):
                    os.kill(os.getpid(), signal.SIGTERM)
                return call(target, *arguments, **options)
            self.over = True
            if self.event == "within" and name == "write":
                call(target, bytes(arguments[0][: len(arguments[0]) // 2]))
            elif self.event == "after":
                call(target, *arguments, **options)
            raise PowerCut

        return counting

    def _is_here(self, target: Any) -> bool:
        try:
            path = (
                str(Path(f"/proc/self/fd/{target}").readlink())
                if isinstance(target, int)
                else target
            )
        except OSError:
            return False
        return str(path).startswith(self.folder)
