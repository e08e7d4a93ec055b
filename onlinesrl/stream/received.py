"""Input that cannot be read twice, kept in a journal: a file of the run folder.

A line is on disk before the run reads it, so that a run that resumes from an earlier checkpoint learns
from it again, with bit-identical results.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from onlinesrl.core.errors import FolderError
from onlinesrl.core.storage import plain, storage_errors, sync_folder
from onlinesrl.stream.files import FileSource
from onlinesrl.stream.folder import OutputFile
from onlinesrl.stream.opened import Opened
from onlinesrl.stream.protocols import Setting


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


class Received(FileSource):
    """A journal file, which grows by what a feed delivers.

    Raises FolderError for a checkpoint of another source, StorageError like FileSource.
    """

    ahead = False

    def __init__(self, feed: Feed, path: Path, what: str, setting: Setting) -> None:
        self.feed = feed
        self.path = path
        self.what = what
        self.journal = OutputFile(path)
        with storage_errors(path, "write"):
            _end_line(path, self.journal)
            sync_folder(path.parent)
        ledger = setting.folder.files if setting.folder else None
        super().__init__([path], setting.max_bytes, True, ledger, setting.say)

    @property
    def over(self) -> bool:
        """Whether there is no more than has come."""
        return self.feed.ended

    def accepts(self, position: dict[str, Any] | None, number: int) -> bool:
        """Tell whether a run may resume from its checkpoint, which must be of this journal."""
        if position is not None and Path(position["path"]).name != self.path.name:
            raise FolderError(
                f"{self.path.parent}: is a run over {position['path']}, not over {self.what}; choose "
                f"another output, with learner.start={self.path.parent} to keep what it learned"
            )
        return True

    def _wait(self, opened: Opened) -> None:
        self.feed.take(self.journal, opened.line)

    def close(self) -> None:
        """Close the feed and the journal."""
        self.feed.close()
        self.journal.close()


def _end_line(path: Path, journal: OutputFile) -> None:
    """End an incomplete line: it was not acknowledged, and becomes a bad example."""
    with open(path, "rb", opener=plain) as stream:
        if stream.seek(0, os.SEEK_END) and stream.seek(-1, os.SEEK_END) and stream.read() != b"\n":
            journal.write(b"\n")
            journal.flush()
