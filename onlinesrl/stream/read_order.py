"""The order in which records of several partitions were read, so that it can be repeated."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from onlinesrl.core.io.atomic_write import json_lines, plain, storage_errors
from onlinesrl.stream.run_folder import OutputFile

Stretch: TypeAlias = tuple[str, float, int]
"""A partition, and the first and the last offset of consecutive records of it.

Of linked rows, which need no order, it is a time, and the offset from which on none is earlier.
"""
_TAIL = 1 << 16
"""More bytes than a line has."""


class Journal:
    """A file with one stretch per line, in the order read.

    A stretch is on disk before its first record is learned from. The file is read from the byte ``start``
    on, which ``past`` has told for the position that is gone on from; it may lack what comes before.
    All methods raise StorageError.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path = path
        self.start = start
        with storage_errors(path, "read"), open(path, "ab+", opener=plain) as stream:
            tail = stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL))
            whole = tail + stream.read().rfind(b"\n") + 1  # an incomplete line was never used
            stream.truncate(max(whole, start))
        self._file = OutputFile(path)
        self._ahead = deque[tuple[str, int, int]]()
        """The stretches that no position is past: partition, last offset, and the byte after its line."""

    def append(self, stretches: Iterable[Stretch]) -> None:
        """Add stretches, durably."""
        for stretch in stretches:
            self._file.write(_line(stretch))
            self._ahead.append((stretch[0], stretch[2], self._file.length))
        self._file.flush()

    def after(self, offsets: Mapping[str, int]) -> Iterator[Stretch]:
        """Yield the stretches that end after a position, which is each partition's next offset."""
        end = self.start
        for name, first, last in json_lines(self.path, Stretch, self.start):
            end += len(_line((name, first, last)))
            self._ahead.append((name, last, end))
            if last >= offsets.get(name, 0):
                yield name, first, last

    def past(self, offsets: Mapping[str, int]) -> int:
        """Return how many bytes of the file have only stretches that end before a position."""
        while self._ahead and self._ahead[0][1] < offsets.get(self._ahead[0][0], 0):
            self.start = self._ahead.popleft()[2]
        return self.start

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _line(stretch: Stretch) -> bytes:
    return json.dumps(stretch).encode() + b"\n"
