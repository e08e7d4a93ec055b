"""A bound on the memory of a command that answers once: what is too large ends with a message.

Systems promise more memory than they have, and kill whoever takes it. With a bound allocation fails instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onlinesrl.core.errors import OnlinesrlError

GROUPS = Path("/sys/fs/cgroup")
KIB, GIB = 2**10, 2**30


class OutOfMemory(OnlinesrlError):
    """A command needs more memory than there is."""

    exit_code = 69


def free() -> int | None:
    """Return the bytes that are free on this machine and in this control group; None: unknown."""
    found = [*_of_machine(), *_of_groups()]
    return min(found) if found else None


@contextmanager
def bounded(advice: str) -> Iterator[None]:
    """Within this, let allocation fail once all free memory is used. Raises OutOfMemory, with ``advice``."""
    try:
        import resource
    except ImportError:  # no such system
        yield
        return
    most, kind = free(), resource.RLIMIT_DATA
    soft, hard = resource.getrlimit(kind)
    own = _number(Path("/proc/self/status"), r"VmData:\s+(\d+) kB")
    limits = [x for x in (soft, hard) if x != resource.RLIM_INFINITY]
    if most is not None and own is not None:
        resource.setrlimit(kind, (min([own * KIB + most, *limits]), hard))
    try:
        yield
    except MemoryError:
        has = "there is" if most is None else f"the {most / GIB:.1f} GiB that are free"
        raise OutOfMemory(f"this takes more memory than {has}: {advice}") from None
    finally:
        resource.setrlimit(kind, (soft, hard))


def _of_machine() -> Iterator[int]:
    kib = _number(Path("/proc/meminfo"), r"MemAvailable:\s+(\d+) kB")
    if kib is not None:
        yield kib * KIB


def _of_groups() -> Iterator[int]:
    """Yield what control groups leave, of version 2 and of version 1."""
    text = _text(Path("/proc/self/cgroup"))
    second, first = re.search(r"^0::(.*)$", text, re.M), re.search(r"^\d+:memory:(.*)$", text, re.M)
    folders = [
        (GROUPS / (second[1] if second else "").strip("/"), "memory.max", "memory.current"),
        *(
            (GROUPS / "memory" / part, "memory.limit_in_bytes", "memory.usage_in_bytes")
            for part in ((first[1] if first else "").strip("/"), "")
        ),
    ]
    for folder, most, used in folders:
        limit, usage = (_number(folder / name, r"\A(\d+)\s*\Z") for name in (most, used))
        if limit is not None and usage is not None:
            yield max(limit - usage, 0)


def _number(path: Path, pattern: str) -> int | None:
    found = re.search(pattern, _text(path))
    return int(found[1]) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
