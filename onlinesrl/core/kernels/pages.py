"""Memory of arrays, and that of large ones mapped from a file: what numpy calls to have it and to free it.

Addresses are numbers. Before each stretch of memory there is a head of two words: how much is mapped and
where in the file, or 0. The context has the file's descriptor, and how much of it was used.
"""

from typing import Any

from llvmlite import ir
from numba import cfunc, njit, types
from numba.extending import intrinsic

LEAST = 1 << 20
"""The bytes of the smallest array that is mapped."""
HEAD, PAGE, WORD = 64, 4096, 8
FAILED = -1
READ_AND_WRITE, SHARED, PUNCH_HOLE = 3, 1, 3
"""PROT_READ | PROT_WRITE, MAP_SHARED, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE."""


def _libc(name: str, arguments: int) -> Any:
    return types.ExternalFunction(name, types.int64(*[types.int64] * arguments))


_malloc, _calloc, _realloc, _free = (
    _libc(name, n) for name, n in (("malloc", 1), ("calloc", 2), ("realloc", 2), ("free", 1))
)
_mmap, _munmap, _memcpy = _libc("mmap", 6), _libc("munmap", 2), _libc("memcpy", 3)
_reserve = types.ExternalFunction(
    "posix_fallocate", types.int32(types.int32, types.int64, types.int64)
)
_fallocate = types.ExternalFunction(
    "fallocate", types.int32(types.int32, types.int32, types.int64, types.int64)
)


@intrinsic
def _word(typing: Any, address: Any) -> Any:
    """Return the word at an address."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(builder.inttoptr(given[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), made


@intrinsic
def _put(typing: Any, address: Any, value: Any) -> Any:
    """Write a word to an address."""

    def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[1], builder.inttoptr(given[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), made


@njit(error_model="numpy")
def _mapped(context: int, size: int) -> int:
    """Return memory of zeros, mapped from what is next in the file; 0: there is no room."""
    size = (size + HEAD + PAGE - 1) // PAGE * PAGE
    file, at = _word(context), _word(context + WORD)
    if _reserve(types.int32(file), at, size) != 0:
        return 0
    found = _mmap(0, size, READ_AND_WRITE, SHARED, file, at)
    if found == FAILED:
        _fallocate(types.int32(file), types.int32(PUNCH_HOLE), at, size)
        return 0
    _put(context + WORD, at + size)
    _put(found, size)
    _put(found + WORD, at)
    return found + HEAD


@njit(error_model="numpy")
def _released(context: int, address: int) -> None:
    """Free memory, and its place in the file."""
    head = address - HEAD
    size, at = _word(head), _word(head + WORD)
    if size == 0:
        _free(head)
    else:
        _munmap(head, size)
        _fallocate(types.int32(_word(context)), types.int32(PUNCH_HOLE), at, size)


@njit(error_model="numpy")
def _headed(found: int) -> int:
    """Return what is behind the head of memory that is not mapped; 0: there is none."""
    if found == 0:
        return 0
    _put(found, 0)
    return found + HEAD


@cfunc("int64(int64, int64)", cache=True)
def malloc(context: int, size: int) -> int:
    """Return memory of so many bytes; 0: there is none."""
    return _mapped(context, size) if size >= LEAST else _headed(_malloc(size + HEAD))


@cfunc("int64(int64, int64, int64)", cache=True)
def calloc(context: int, count: int, size: int) -> int:
    """Return memory of zeros; 0: there is none."""
    size *= count
    return _mapped(context, size) if size >= LEAST else _headed(_calloc(1, size + HEAD))


@cfunc("int64(int64, int64, int64)", cache=True)
def realloc(context: int, address: int, size: int) -> int:
    """Return memory with what is at an address, which is freed; 0: there is none."""
    if address == 0:
        return _headed(_malloc(size + HEAD))
    known = _word(address - HEAD)
    if known == 0:
        return _headed(_realloc(address - HEAD, size + HEAD))
    found = _mapped(context, size)
    if found != 0:
        _memcpy(found, address, min(known - HEAD, size))
        _released(context, address)
    return found


@cfunc("void(int64, int64, int64)", cache=True)
def free(context: int, address: int, size: int) -> None:
    """Free memory."""
    if address != 0:
        _released(context, address)
