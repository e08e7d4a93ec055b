"""Atomic writes, and readable errors of the file system."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.errors import StorageError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def storage_errors(path: Path | str, action: str) -> Iterator[None]:
    """Turn an OSError into a StorageError: path, what was tried, the system's reason, what to do.

    `action` completes the sentence "cannot ...". A broken pipe is not turned into one.
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


def write_atomic(path: Path, *chunks: bytes | memoryview) -> None:
    """Replace the file at `path` by the chunks, durably, or leave it as it was.

    A temporary file beside it (`.NAME.tmp`), fsync, rename, fsync of the folder. A failure before
    the rename removes the temporary file; a crash leaves it, and the next write replaces it.
    Raises StorageError.
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


def json_lines(path: Path, kind: Any) -> Iterator[Any]:
    """Yield the values of a file of JSON lines, each of the msgspec type ``kind``.

    Raises StorageError, with the line number, for any other line.
    """
    with storage_errors(path, "read"):
        lines = path.read_bytes().splitlines()
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
    """Make the names in `folder` durable: renames and removals survive a power cut. OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_synced(path: Path, chunks: tuple[bytes | memoryview, ...]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
