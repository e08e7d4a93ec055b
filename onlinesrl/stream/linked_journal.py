"""The changes of what is remembered of rows, one a line, in a file whose parts go when they are not needed.

A checkpoint has how long the file was, so that it costs what changed since the one before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from onlinesrl.core.io.atomic_write import read_plain, storage_errors
from onlinesrl.core.io.restoring import Misfit, Natural
from onlinesrl.stream.checkpoints import NeededParts
from onlinesrl.stream.run_folder import OutputFile, RunFolder, part_path

PART_BYTES = 8 << 20
"""A part that is longer is followed by another."""


class Part(msgspec.Struct):
    """A part of the file: how long it is, its SHA-256, and the number of the last change before it."""

    number: Natural
    length: Natural
    sha256: str
    before: Natural


class LinkedJournal:
    """The file of changes of a run, opened by ``begin``; outside a run there is none.

    Methods raise StorageError.
    """

    def __init__(self, folder: RunFolder | None) -> None:
        self.folder = folder
        self.file: OutputFile | None = None
        self.parts = [Part(0, 0, "", 0)]
        """Those that are not removed, the oldest first."""

    def begin(self, parts: Sequence[Part] = ()) -> None:
        """Go on after parts, or begin anew, unless that was done."""
        if self.folder is None or self.file is not None:
            return
        self.parts, self.file = [*parts] or self.parts, OutputFile(self.folder.linked)
        self.needed = NeededParts(self.folder.checkpoints)
        last = self.parts[-1]
        self.file.resume(last.number, last.length)
        with storage_errors(self.file.path, "read"):
            self._digest = hashlib.sha256(read_plain(self.file.path))

    def write(self, line: bytes) -> None:
        """Add a change."""
        if self.file is not None:
            self.file.write(line)
            self._digest.update(line)

    def save(self, number: int, oldest: int) -> list[Part]:
        """Return the parts that have changes from the number ``oldest`` on, all on disk.

        The last change has this ``number``.
        """
        assert self.file is not None, "a run has a journal"
        self._seal()
        if self.file.length > PART_BYTES:
            self.file.begin_part()
            self.parts.append(Part(self.file.part, 0, "", number))
            self._digest = hashlib.sha256()
            self._seal()
        while len(self.parts) > 1 and self.parts[1].before < oldest:
            del self.parts[0]
        return self.parts

    def _seal(self) -> None:
        """Wait until all changes are on disk, and note what the last part is now."""
        assert self.file is not None, "a run has a journal"
        self.file.flush()
        self.parts[-1].length, self.parts[-1].sha256 = self.file.length, self._digest.hexdigest()

    def committed(self, number: int) -> None:
        """Remove the parts that no checkpoint needs, after the one with this number."""
        assert self.file is not None, "a run has a journal"
        self.needed.note(number, self.parts[0].number)
        for part in self.needed.oldest():
            self.file.forget(part, 0)

    def lines(self, parts: Sequence[Part]) -> Iterator[bytes]:
        """Yield the changes in parts. Raises Misfit for a part that is not as it was written."""
        assert self.folder is not None, "a run has a journal"
        for part in parts:
            path = part_path(self.folder.linked, part.number)
            with storage_errors(path, "read"):
                data = read_plain(path)[: part.length]
            if hashlib.sha256(data).hexdigest() != part.sha256:
                raise Misfit(
                    f"{path}: its first {part.length:,} bytes are not those that were written"
                )
            yield from data.splitlines()

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()
