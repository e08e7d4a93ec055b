"""Large pages: a fork copies the page table of its parent, which for a big one takes longer than a run."""

import ctypes
import gc
import os
from pathlib import Path

LARGE = 2 << 20
HUGEPAGE, COLLAPSE = 14, 25
"""Linux's numbers of these pieces of advice; the second is known from 6.1 on."""


def allocate_large() -> None:
    """Let processes that are started from now on have large pages from the C library."""
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")


def enlarge() -> None:
    """Move what this process has to large pages, where the system has them; its garbage is kept."""
    gc.collect()
    gc.freeze()
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in maps.read_text().splitlines():
        area, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(at, 16) for at in area.split("-"))
            start, end = -(-start // LARGE) * LARGE, end // LARGE * LARGE
            if start < end:
                advise(start, end - start, HUGEPAGE)
                advise(start, end - start, COLLAPSE)
