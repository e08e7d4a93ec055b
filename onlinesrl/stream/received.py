"""What cannot be read a second time, kept in a journal that can: a file of the run folder.

A line is on the disk before the run reads it, so that it is learned again, with the same bits, by a run
that goes on from a checkpoint before it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from onlinesrl.core.errors import FolderError
from onlinesrl.core.storage import storage_errors, sync_folder
from onlinesrl.stream.files import FileSource
from onlinesrl.stream.folder import OutputFile
from onlinesrl.stream.opened import Opened
from onlinesrl.stream.protocols import Setting


class Feed(Protocol):
    """Where what is received comes from."""

    ended: bool
    """Whether no more will come."""

    def take(self, journal: OutputFile, line: int) -> None:
        """Wait, not for long, for more, and write it to the journal, on to the disk.

        All that the journal has, which is so many lines, has been learned.
        """
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class Received(FileSource):
    """The journal of what was received, which goes on with what a feed has.

    Raises FolderError where the run went on from something else, StorageError as files do.
    """

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
        """Tell whether a run may go on from its checkpoint: it is one of this journal."""
        if position is not None and Path(position["path"]).name != self.path.name:
            raise FolderError(
                f"{self.path.parent}: is a run over {position['path']}, not over {self.what}; choose "
                f"another output, and learner.start={self.path.parent} to go on from what it learned"
            )
        return True

    def _wait(self, opened: Opened) -> None:
        self.feed.take(self.journal, opened.line)

    def close(self) -> None:
        """Let go of the feed, and close the journal."""
        self.feed.close()
        self.journal.close()


def _end_line(path: Path, journal: OutputFile) -> None:
    """End a line that was cut short: nobody was told of it, and it is a bad example now."""
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) and stream.seek(-1, os.SEEK_END) and stream.read() != b"\n":
            journal.write(b"\n")
            journal.flush()
