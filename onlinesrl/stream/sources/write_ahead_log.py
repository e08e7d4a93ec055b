"""Input that cannot be read twice, kept in a journal: a file of the run folder.

A line is on disk before the run reads it, so that a run that resumes from an earlier checkpoint learns
from it again, with bit-identical results. The journal has parts: beyond a limit the oldest are removed
that no checkpoint needs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from onlinesrl.core.errors import FolderError
from onlinesrl.core.io.atomic_write import plain, storage_errors, sync_folder
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.run_folder import PARTS, OutputFile, RunFolder, part_of, parts
from onlinesrl.stream.source import SourceContext
from onlinesrl.stream.sources.files import FileSource
from onlinesrl.stream.sources.line_reader import LineReader
from onlinesrl.stream.sources.read_log import Read


class Feed(Protocol):
    """Where the received data come from."""

    ended: bool
    """Whether no more will come."""

    def take(self, journal: OutputFile, line: int) -> None:
        """Wait briefly for more, and write it to the journal, on disk.

        All lines in the journal, whose number is ``line``, have been learned from.
        """
        ...

    def close(self) -> None:
        """Release what is open."""
        ...


class WriteAheadLog(FileSource):
    """A journal file, which grows by what a feed delivers.

    Raises FolderError for a checkpoint of another source, StorageError like FileSource.
    """

    ahead = False
    folder: RunFolder

    def __init__(self, feed: Feed, path: Path, setting: SourceContext) -> None:
        self.feed = feed
        self.path = path
        assert setting.folder is not None
        self.folder, self.retention = setting.folder, setting.retention
        self.journal = OutputFile(path)
        with storage_errors(path, "write"):
            _end_line(self.journal)
            sync_folder(path.parent)
        self._parts: dict[int, int] = {}
        super().__init__([path], setting.max_bytes, True, self.folder.files, setting.say)

    @property
    def over(self) -> bool:
        """Whether there is no more than has come."""
        return self.feed.ended

    def accepts(self, position: dict[str, Any] | None, number: int) -> bool:
        """Tell whether a run may resume from its checkpoint, which must be of this journal."""
        if position is not None and not Path(position["path"]).name.startswith(self.path.name):
            raise FolderError(
                f"{self.path.parent}: is a run over {position['path']}, not over requests; choose "
                f"another output, with learner.start={self.path.parent} to keep what it learned"
            )
        self._parts[number] = _part_at(position)
        return True

    def owes(self, position: dict[str, Any] | None) -> bool:
        """Tell whether the journal has lines after a position."""
        return self.journal.part > _part_at(position) or (
            self.journal.length > (0 if position is None else position["bytes"])
        )

    def open(self, position: dict[str, Any] | None) -> dict[str, Any] | None:
        """See ``Source.open``; say so if the beginning of the journal has been removed."""
        if position is None and part_of(Path(self.files[0])):
            self.say(
                f"{self.path}: its oldest lines were removed (limits.retention_bytes), and are not "
                "learned from again"
            )
        return position

    def acknowledge(self, position: dict[str, Any] | None, number: int) -> None:
        """Remove the oldest parts, if there are too many, that no checkpoint needs."""
        if self.retention is None:
            return
        self._parts[number] = _part_at(position)
        needed = [*checkpoints_module.numbered(self.folder.checkpoints)]
        self._parts = {each: self._parts[each] for each in needed if each in self._parts}
        if len(self._parts) == len(needed):
            self.journal.forget(min(self._parts.values()), self.retention)

    def _listed(self) -> list[str]:
        return [str(path) for path in parts(self.path)]

    def _gone(self, entry: Read) -> None:
        """Pass over a part that was removed."""

    def _wait(self, opened: LineReader) -> None:
        if self.retention is not None and self.journal.length > self.retention // PARTS:
            self.journal.begin_part()
            self._look()
        else:
            self.feed.take(self.journal, opened.line)

    def close(self) -> None:
        """Close the feed and the journal."""
        self.feed.close()
        self.journal.close()


def _part_at(position: dict[str, Any] | None) -> int:
    """Return the part of the journal at a position."""
    return 0 if position is None else part_of(Path(position["path"]))


def _end_line(journal: OutputFile) -> None:
    """End an incomplete line: it was not acknowledged, and becomes a bad example."""
    with open(journal.path, "rb", opener=plain) as stream:
        if stream.seek(0, os.SEEK_END) and stream.seek(-1, os.SEEK_END) and stream.read() != b"\n":
            journal.write(b"\n")
            journal.flush()
