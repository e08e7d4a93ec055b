"""How much of which files a run has read, so that it can verify them when it resumes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from onlinesrl.core.errors import StorageError
from onlinesrl.core.io.atomic_write import json_lines
from onlinesrl.stream.run_folder import OutputFile
from onlinesrl.stream.sources.line_reader import (
    READ_ERRORS,
    STANDARD_INPUT,
    WAIT_SECONDS,
    LineReader,
    unreadable,
)

AGAIN = "give the same source again, or start over with --fresh"


class Read(msgspec.Struct, frozen=True):
    """A file and what was read of it: its lines, its bytes (unpacked), and their SHA-256."""

    path: str
    lines: int
    bytes: int
    sha256: str

    @property
    def known(self) -> str:
        """The beginning of an error message about it."""
        return f"{self.path}, of which {self.bytes:,} bytes ({self.lines:,} lines) were read"


class ReadLog:
    """The files read to their end, one per line, in the order read. All methods raise StorageError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def first(self, count: int) -> list[Read]:
        """Return the first entries, and remove the others, which no checkpoint includes."""
        if not self.path.exists() and not count:
            return []
        found = [Read(**line) for line in islice(json_lines(self.path, Read), count)]
        if len(found) < count:
            raise StorageError(
                f"{self.path}: has {len(found)} of the {count} files that were read to their end; "
                "restore the file, or start over with --fresh"
            )
        with OutputFile(self.path) as file:
            file.truncate(sum(map(len, map(_line, found))))
        return found

    def append(self, read: Iterable[Read]) -> None:
        """Add entries, durably."""
        with OutputFile(self.path) as file:
            for entry in read:
                file.write(_line(entry))
            file.flush()


def _line(entry: Read) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def path_of(file: str) -> str:
    """Return the absolute path of a file as text, whatever bytes its name has."""
    path = file if file == STANDARD_INPUT else os.path.abspath(file)  # noqa: PTH100 - links stay
    return os.fsencode(path).decode(errors="backslashreplace")


def taken(opened: LineReader) -> Read:
    """Return how much has been read of a file; of a world all or nothing."""
    path = path_of(opened.file)
    if opened.line == 0:
        return Read(path, 0, 0, hashlib.sha256().hexdigest())
    return Read(path, opened.line, opened.offset, opened.digest)


def compare(opened: LineReader, entry: Read, whole: bool) -> Iterator[None]:
    """Skip what was read of a file. Raises StorageError if that has changed.

    If the ``whole`` file was read, it must not have grown either.
    """
    try:
        for piece in opened.pieces(entry.bytes):
            yield None
            if piece is None:
                opened.wait(WAIT_SECONDS)
        digest = opened.digest
        grown = whole and any(opened.pieces(entry.bytes + 1))
    except READ_ERRORS as error:
        raise unreadable(opened.file, 1, error) from error
    opened.set_line(entry.lines)
    reason = None
    if opened.offset < entry.bytes:
        reason = f"it has only {opened.offset:,} bytes now"
    elif digest != entry.sha256:
        reason = "these bytes are different now: it was changed or replaced"
    elif grown:
        reason = "it has grown after it was read to its end"
    if reason is not None:
        raise StorageError(f"{entry.known}: {reason}; {AGAIN}")
