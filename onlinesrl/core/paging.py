"""Large arrays in pages on disk: memory that the system writes out where it needs it for something else.

numpy takes the memory of an array from a handler (NEP 49). The one here maps what is large from files
without a name; all else comes from where it came before. What works on arrays does not notice.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import c_char, c_int, c_long, c_size_t, c_uint8, c_void_p
from functools import cache
from importlib import import_module
from typing import Any

LEAST = 1 << 20
"""The bytes of the smallest array in pages."""
_SET_HANDLER = 304
"""The place of PyDataMem_SetHandler in numpy's table of functions (``__multiarray_api.h``)."""
_CAPSULE = b"mem_handler"
_MALLOC = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)
_CALLOC = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_size_t)
_REALLOC = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
_FREE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class _Handler(ctypes.Structure):
    """numpy's PyDataMem_Handler, with its PyDataMemAllocator."""

    _fields_ = (
        ("name", c_char * 127),
        ("version", c_uint8),
        ("context", c_void_p),
        ("malloc", _MALLOC),
        ("calloc", _CALLOC),
        ("realloc", _REALLOC),
        ("free", _FREE),
    )


class _Pages:
    """Maps memory from files in a folder; ``size`` has the bytes of what is mapped, by address."""

    def __init__(self) -> None:
        self.size: dict[int, int] = {}
        libc = self.libc = ctypes.CDLL(None, use_errno=True)
        for name, result, *arguments in (
            ("malloc", c_void_p, c_size_t),
            ("calloc", c_void_p, c_size_t, c_size_t),
            ("realloc", c_void_p, c_void_p, c_size_t),
            ("free", None, c_void_p),
            ("mmap", c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_long),
            ("munmap", c_int, c_void_p, c_size_t),
        ):
            function = getattr(libc, name)
            function.restype, function.argtypes = result, arguments
        self.handler = _Handler(
            b"onlinesrl_pages", 1, None,
            _MALLOC(self.malloc), _CALLOC(self.calloc), _REALLOC(self.realloc), _FREE(self.free),
        )  # fmt: skip

    def malloc(self, context: int | None, size: int) -> int | None:
        """Return memory; None: there is none."""
        return self._mapped(size) if size >= LEAST else self.libc.malloc(size)

    def calloc(self, context: int | None, count: int, size: int) -> int | None:
        """Return memory of zeros; a new file has nothing else."""
        return (
            self._mapped(count * size) if count * size >= LEAST else self.libc.calloc(count, size)
        )

    def realloc(self, context: int | None, at: int | None, size: int) -> int | None:
        """Return memory with what is at an address, which is freed."""
        known = self.size.get(at or 0)
        if known is None:
            moved: int | None = self.libc.realloc(at, size)
            return moved
        found = self.malloc(None, size)
        if found is not None and at is not None:
            ctypes.memmove(found, at, min(known, size))
            self.free(None, at, known)
        return found

    def free(self, context: int | None, at: int | None, size: int) -> None:
        """Free memory."""
        known = self.size.pop(at or 0, None)
        if known is None:
            self.libc.free(at)
        else:
            self.libc.munmap(at, known)

    def _mapped(self, size: int) -> int | None:
        """Return memory that is mapped from a file; None: there is no room, or no such function."""
        with suppress(OSError, AttributeError), tempfile.TemporaryFile(buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            access = mmap.PROT_READ | mmap.PROT_WRITE
            at = self.libc.mmap(None, size, access, mmap.MAP_SHARED, file.fileno(), 0)
            if at is not None and at != c_void_p(-1).value:
                self.size[at] = size
                return int(at)
        return None


@cache
def _pages() -> tuple[_Pages, Any, Any]:
    """Return the pages, numpy's function that sets a handler, and the handler as a capsule."""
    pages, api = _Pages(), ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = c_void_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = (c_void_p, ctypes.c_char_p, c_void_p)
    table_of_numpy = import_module("numpy._core._multiarray_umath")
    table = api.PyCapsule_GetPointer(table_of_numpy._ARRAY_API, None)
    place = c_void_p.from_address(table + _SET_HANDLER * ctypes.sizeof(c_void_p))
    function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(place.value or 0)
    return pages, function, api.PyCapsule_New(ctypes.addressof(pages.handler), _CAPSULE, None)


@contextmanager
def paged() -> Iterator[None]:
    """Within this, have large new arrays in pages, in files of the system's temporary folder."""
    _, set_handler, ours = _pages()
    before = set_handler(ours)
    try:
        yield
    finally:
        set_handler(before)
