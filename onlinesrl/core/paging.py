"""Large arrays in pages on disk: memory that the system writes out where it needs it for something else.

numpy takes the memory of arrays from a handler (NEP 49). The one here maps what is large from a file
without a name, and takes the rest from where it came before; what works on arrays does not notice. Its
functions are compiled, since one written in Python could not say that there is no memory left.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from onlinesrl.core.kernels import pages

_SET_HANDLER = 304
"""The place of PyDataMem_SetHandler in numpy's table of functions (``__multiarray_api.h``)."""


class _Handler(ctypes.Structure):
    """numpy's PyDataMem_Handler, with its PyDataMemAllocator."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


@cache
def _pages() -> tuple[Any, Any, Any]:
    """Return numpy's function that sets a handler, ours as a capsule, and what that needs."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    numpy_ = import_module("numpy._core._multiarray_umath")
    table = api.PyCapsule_GetPointer(numpy_._ARRAY_API, None)
    place = ctypes.c_void_p.from_address(table + _SET_HANDLER * ctypes.sizeof(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(place.value or 0)
    with tempfile.TemporaryFile(buffering=0) as file:
        used = np.array([os.dup(file.fileno()), 0], np.int64)
    functions = (pages.malloc, pages.calloc, pages.realloc, pages.free)
    addresses = [each.address for each in functions]
    handler = _Handler(b"onlinesrl_pages", 1, used.ctypes.data, *addresses)
    return (
        set_handler,
        api.PyCapsule_New(ctypes.addressof(handler), b"mem_handler", None),
        (used, handler),
    )


@contextmanager
def paged() -> Iterator[None]:
    """Within this, have large new arrays in pages, in a file of the system's temporary folder."""
    set_handler, ours, _ = _pages()
    before = set_handler(ours)
    try:
        yield
    finally:
        set_handler(before)
