"""Atomic writes, and readable errors of the file system."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.errors import StorageError
from onlinesrl.core.operating_system import open_flags

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def storage_errors(path: Path | str, action: str) -> Iterator[None]:
    """Turn an OSError into a StorageError with the path, the action, the system's reason and advice.

    `action` completes the sentence "cannot ...". A BrokenPipeError passes unchanged.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        advice = "; free some space and run it again" if error.errno in _NO_SPACE else ""
        raise StorageError(f"{path}: cannot {action}: {reason}{advice}") from error
    except UnicodeEncodeError as error:  # a lone surrogate, in the path too
        raise StorageError(f"{path}: cannot {action}: {error}") from error


def plain(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open a file of an untrusted folder; return its descriptor. Raises OSError.

    Links are not followed, and only plain files are opened: a pipe would block. An opener for ``open``.
    """
    links = open_flags("O_NOFOLLOW")
    try:
        if not links and os.path.islink(path):  # noqa: PTH114 - may be text
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        flags |= links | open_flags("O_NONBLOCK", "O_CLOEXEC")
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):  # noqa: PTH114 - may be text
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed") from None
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise OSError(errno.EINVAL, "it is not a plain file") from None
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is not a plain file")


def read_plain(path: Path) -> bytes:
    """Return the content of a file, opened as ``plain`` does. Raises OSError."""
    with open(path, "rb", opener=plain) as stream:
        return stream.read()


def is_plain(path: Path) -> bool:
    """Tell whether the path is a plain file and no link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def check_folder(path: Path) -> None:
    """Raise OSError if a folder in a run folder is a link to another place."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, f"{path.name} is a symbolic link, which is not followed")


def write_atomic(path: Path, *chunks: bytes | memoryview) -> None:
    """Replace the file at `path` by the chunks, durably, or leave it as it was.

    The steps are a temporary file beside it (`.NAME.tmp`), fsync, rename, fsync of the folder. A failure
    before the rename removes the temporary file. A crash leaves it, and the next write replaces it. Raises
    StorageError.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with storage_errors(path, "write"):
        try:
            _write_synced(temporary, chunks)
            os.replace(temporary, path)  # noqa: PTH105 (one place to inject faults: os)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def json_lines(path: Path, kind: Any, start: int = 0) -> Iterator[Any]:
    """Yield the values of a file of JSON lines from a byte on, each of the msgspec type ``kind``.

    Raises StorageError, with the line number from there, for any other line.
    """
    with storage_errors(path, "read"), open(path, "rb", opener=plain) as stream:
        stream.seek(start)
        lines = stream.read().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            msgspec.json.decode(line, type=kind)
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StorageError(
                f"{path}:{number}: damaged: {error}; restore the file, or start over with --fresh"
            ) from error
        yield value


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: renames and removals survive a power cut. OSError.

    Windows opens no folders; there the system decides when names are durable.
    """
    if not open_flags("O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | open_flags("O_DIRECTORY", "O_CLOEXEC"))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_synced(path: Path, chunks: tuple[bytes | memoryview, ...]) -> None:
    descriptor = plain(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
