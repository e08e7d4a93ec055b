"""The order in which records of several partitions were read, so that it can be repeated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from onlinesrl.core.io.atomic_write import json_lines, read_plain, storage_errors
from onlinesrl.stream.run_folder import OutputFile

Stretch: TypeAlias = tuple[str, int, int]
"""A partition, and the first and the last offset of consecutive records of it."""


class Journal:
    """A file with one stretch per line, in the order read.

    A stretch is on disk before its first record is learned from. All methods raise StorageError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = OutputFile(path)
        with storage_errors(path, "read"):
            written = read_plain(path)
        self._file.truncate(written.rfind(b"\n") + 1)  # an incomplete line was never used

    def append(self, stretches: Iterable[Stretch]) -> None:
        """Add stretches, durably."""
        for stretch in stretches:
            self._file.write(json.dumps(stretch).encode() + b"\n")
        self._file.flush()

    def after(self, offsets: Mapping[str, int]) -> Iterator[Stretch]:
        """Yield the stretches that end after a position, which is each partition's next offset."""
        for name, first, last in json_lines(self.path, Stretch):
            if last >= offsets.get(name, 0):
                yield name, first, last

    def close(self) -> None:
        """Close the file."""
        self._file.close()
