"""Takes from a process, and from those that it starts, what Windows lacks, before onlinesrl is imported.

The standard library has chosen before what it uses. In ``msvcrt``'s place is one that locks by ``flock``.
"""

import asyncio  # noqa: F401 - it would need fcntl
import errno
import fcntl
import multiprocessing.popen_spawn_posix
import multiprocessing.resource_tracker  # noqa: F401
import os
import select
import shutil  # noqa: F401
import signal
import subprocess  # noqa: F401 - it would take msvcrt for a proof of Windows
import sys
import tempfile  # noqa: F401
from types import SimpleNamespace

LACKING = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK MFD_CLOEXEC chown fork forkpty geteuid getuid killpg "
    "memfd_create mkfifo nice posix_fallocate pread preadv pwrite pwritev readv register_at_fork "
    "sched_getaffinity set_blocking setsid writev",
    select: "poll epoll POLLIN",
    signal: "SIGALRM SIGCHLD SIGHUP SIGPIPE SIGUSR1 SIGUSR2 alarm setitimer",
}
END = 1 << 20
"""A lock beyond it is behind the content of every locked file."""


def locking(descriptor: int, mode: int, n_bytes: int) -> None:
    assert mode == msvcrt.LK_NBLCK and n_bytes == 1
    assert os.lseek(descriptor, 0, os.SEEK_CUR) > END
    try:
        flock(descriptor, exclusive)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


flock, exclusive = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB
msvcrt = SimpleNamespace(LK_NBLCK=2, locking=locking)
sys.modules["msvcrt"] = msvcrt  # type: ignore[assignment]
for module, names in LACKING.items():
    for name in names.split():
        delattr(module, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # type: ignore[assignment]
