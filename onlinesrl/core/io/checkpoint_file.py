r"""Files of checkpoints: a header and named arrays in one file, which is whole or not there.

The format does not depend on learners. Its layout, with little-endian numbers:

    offset  bytes
    0       8      magic, b"OSRLCKPT"
    8       8      version of the format
    16      32     SHA-256 of everything after it
    48      8      length of the JSON text
    56      8      length of the file
    64             JSON text {"number", "header", "arrays": {name: {"dtype", "shape", "offset"}}},
                   filled with spaces to a multiple of 64
    ...            the arrays, raw, C order, each filled with zeros to a multiple of 64, one after
                   another; `offset` counts from the end of the JSON text

The SHA-256 shows damage, but not who wrote the file. So sizes and places are checked before memory is
allocated, and reading executes nothing. Neither writing nor reading holds a second copy of an array, except
that writing copies an array that is not contiguous.
"""

import errno
import hashlib
import io
import json
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from onlinesrl.core.errors import StorageError, printable, shortened
from onlinesrl.core.io.atomic_write import plain, storage_errors, write_atomic

MAGIC = b"OSRLCKPT"
VERSION = 1
ALIGNMENT = 64
_HEAD = struct.Struct("<8sQ32sQQ")
_LENGTHS = struct.Struct("<QQ")
_NUMBERS = "biufc"
_LACKS = errno.EMFILE, errno.ENFILE, errno.ENOMEM
"""Errors of a process that lacks memory or files; they do not mean that the checkpoint is damaged."""
_DTYPE = re.compile(rf"[<|][{_NUMBERS}][0-9]{{1,2}}")
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Array(msgspec.Struct, forbid_unknown_fields=True):
    """The type, shape and place of an array."""

    dtype: str
    shape: list[Natural]
    offset: Natural


class _Content(msgspec.Struct):
    """The JSON text."""

    number: Natural
    header: dict[str, Any]
    arrays: dict[str, _Array]


class DamagedCheckpoint(StorageError):
    """A checkpoint file whose bytes are not those that were written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint file; the arrays are writable and independent of each other."""

    path: Path
    number: int
    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(
    path: Path, number: int, header: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a checkpoint file durably; a crash or an error leaves the old file.

    The header holds JSON values without NaN and infinity, the arrays numbers. Raises StorageError, and
    ValueError or TypeError for a header or array that cannot be written.
    """
    body: list[bytes | memoryview] = []  # the arrays as views of their memory
    table, offset = {}, 0
    for name, array in arrays.items():
        if array.dtype.kind not in _NUMBERS:
            raise TypeError(
                f"array {name!r} has dtype {array.dtype}; a checkpoint holds numbers only"
            )
        raw = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
        table[name] = {"dtype": raw.dtype.str, "shape": raw.shape, "offset": offset}
        padding = bytes(-raw.nbytes % ALIGNMENT)
        body += [np.ascontiguousarray(raw).reshape(-1).view(np.uint8).data, padding]
        offset += raw.nbytes + len(padding)
    text = _json({"number": number, "header": header, "arrays": table})
    text += b" " * (-len(text) % ALIGNMENT)
    body = [_LENGTHS.pack(len(text), _HEAD.size + len(text) + offset), text, *body]
    digest = hashlib.sha256()
    for piece in body:
        digest.update(piece)
    write_atomic(path, MAGIC + VERSION.to_bytes(8, "little") + digest.digest(), *body)


def load(path: Path) -> Checkpoint:
    """Read and verify a checkpoint file.

    Raises DamagedCheckpoint when any byte is not as written, bytes are missing or too many, or the
    file is of another kind or version; StorageError when it cannot be opened, or the process has too few
    files or too little memory to read it.
    """
    with storage_errors(path, "open"):
        stream = os.fdopen(plain(path), "rb")
    with stream:
        try:
            start = _verify(path, stream)
            stream.seek(_HEAD.size)
            text = json.loads(stream.read(start - _HEAD.size), parse_constant=_refuse)
            content = msgspec.convert(text, _Content)
            arrays = dict(_arrays(stream, start, content.arrays))
            return Checkpoint(path, content.number, content.header, arrays)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            reason = shortened(printable(str(error)))
            lacks = getattr(error, "errno", None) in _LACKS
            kind = StorageError if lacks else DamagedCheckpoint
            raise kind(f"{path}: cannot be read: {reason}") from error


def _json(value: dict[str, Any]) -> bytes:
    """Return JSON text; ``msgspec.Raw`` is inserted as it is.

    Raises ValueError for NaN and infinity, TypeError for values that JSON cannot hold.
    """
    _check(value)
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError):  # of file names that are no text, and numpy's floats
        return json.dumps(value, default=msgspec.json.decode).encode()


def _check(value: object) -> None:
    """Raise ValueError or TypeError for values that JSON cannot hold, but msgspec would write."""
    if isinstance(value, dict):
        for part in value.values():
            _check(part)
    elif isinstance(value, list | tuple):
        if not {*map(type, value)} <= {str, int}:
            for part in value:
                _check(part)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"the header of a checkpoint cannot hold {value}")
    elif not (value is None or isinstance(value, str | int | msgspec.Raw)):
        raise TypeError(f"the header of a checkpoint cannot hold {type(value).__name__}")


def _verify(path: Path, stream: io.BufferedReader) -> int:
    """Return the offset of the first array of an intact file. Raises DamagedCheckpoint."""
    size = stream.seek(0, 2)
    stream.seek(0)
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise DamagedCheckpoint(f"{path}: has {size} bytes, fewer than its head: cut off")
    magic, version, digest, text_length, length = _HEAD.unpack(head)
    if magic != MAGIC:
        raise DamagedCheckpoint(f"{path}: byte 0: not a checkpoint of onlinesrl (magic {magic!r})")
    if version != VERSION:
        raise DamagedCheckpoint(
            f"{path}: byte 8: format version {version}; this program reads version {VERSION}"
        )
    if size != length:
        damage = "cut off" if size < length else "bytes after its end"
        raise DamagedCheckpoint(f"{path}: has {size} bytes, its head says {length}: {damage}")
    stream.seek(_HEAD.size - _LENGTHS.size)
    if hashlib.file_digest(stream, "sha256").digest() != digest:
        raise DamagedCheckpoint(f"{path}: bytes 16 to {size}: SHA-256 does not match its content")
    start = _HEAD.size + int(text_length)
    if start > size:
        raise DamagedCheckpoint(f"{path}: byte 48: a text of {text_length} bytes: cut off")
    return start


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"a checkpoint cannot hold {constant}")


def _arrays(
    stream: io.BufferedReader, start: int, table: Mapping[str, _Array]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays, which follow each other to the end of the file. Raises ValueError, TypeError."""
    offset, end = 0, stream.seek(0, 2) - start
    for name, array in table.items():
        if not _DTYPE.fullmatch(array.dtype):
            raise ValueError(f"{name} is an array of dtype {array.dtype}")
        kind, count = np.dtype(array.dtype), math.prod(array.shape)
        if array.offset != offset or offset + count * kind.itemsize > end:
            raise ValueError(f"the array {name} of {array.shape} is not at its place, {offset}")
        stream.seek(start + offset)
        yield name, np.fromfile(stream, kind, count).reshape(array.shape)
        offset += -(-count * kind.itemsize // ALIGNMENT) * ALIGNMENT
    if offset != end:
        raise ValueError(f"{end - offset} bytes are of no array")
