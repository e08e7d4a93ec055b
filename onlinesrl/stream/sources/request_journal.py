"""The journal of a server: the examples that clients sent to be learned from, one a line.

It is the source of the run: `requests.jsonl` in its folder. A line is on disk before the run learns from it,
so that a run that resumes from an earlier checkpoint learns from it again, with bit-identical results.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import FolderError
from onlinesrl.core.io.atomic_write import plain, storage_errors, sync_folder
from onlinesrl.stream import checkpoints
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import PARTS, OutputFile, part_of, parts
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.files import FilePosition, FileSource, path_of
from onlinesrl.stream.sources.line_reader import TAIL_BYTES, LastBytes
from onlinesrl.stream.sources.request_queue import Answerer, Requests


class RequestJournal(Source):
    """A journal file, which grows by what clients send; other lines of theirs are answered meanwhile.

    What it has when a run opens it is read from the file. What comes later is written to it, and then given
    to the run from memory. Raises FolderError for a checkpoint of another source, and StorageError.
    """

    Position = FilePosition | None
    live = answers = True

    def __init__(self, requests: Requests, answerer: Answerer, setting: SourceContext) -> None:
        assert setting.folder is not None
        self.requests, self.answerer = requests, answerer
        self.path, self.predictions = setting.folder.requests, setting.folder.predictions
        self.retention = setting.retention
        self.max_bytes, self.most, self.say = setting.max_bytes, setting.batch, setting.say
        self.journal = OutputFile(self.path)
        with storage_errors(self.path, "write"):
            _end_line(self.journal)
            sync_folder(self.path.parent)
        self.files = [str(path) for path in parts(self.path)]
        self._needed = checkpoints.NeededParts(setting.folder.checkpoints)
        self._old: FileSource | None = None
        self._lines, self._last = 0, LastBytes()

    def accepts(self, position: dict[str, Any] | None, number: int) -> bool:
        """Tell whether a run may resume from its checkpoint, which must be of this journal."""
        if position is not None and not Path(position["path"]).name.startswith(self.path.name):
            raise FolderError(
                f"{self.path.parent}: is a run over {position['path']}, not over requests; choose "
                f"another output, with learner.start={self.path.parent} to keep what it learned"
            )
        self._needed.note(number, _part_at(position))
        return True

    def has_more(self, position: dict[str, Any] | None) -> bool:
        """See ``Source.has_more``."""
        return self.journal.part > _part_at(position) or (
            self.journal.length > (0 if position is None else position["bytes"])
        )

    def open(self, position: dict[str, Any] | None) -> None:
        """See ``Source.open``; say so if the beginning of the journal has been removed."""
        if position is None and part_of(Path(self.files[0])):
            self.say(
                f"{self.path}: its oldest lines were removed (limits.retention_bytes), and are not "
                "learned from again"
            )
        left = [path for path in parts(self.path) if part_of(path) >= _part_at(position)]
        self._old = FileSource(left, self.max_bytes)
        self._old.open(position)

    def next_batch(self, room: int) -> Sequence[Record] | None:
        """See ``Source.next_batch``; it ends when the server has closed and all requests are answered."""
        if self._old is not None:
            if (batch := self._old.next_batch(room)) is not None:
                return batch
            self._lines = self._old.after([])["lines"]
            self._old.close()
            self._old = None
            self.answerer.recall(self.path, self.predictions)
            with storage_errors(self.journal.path, "read"), self.journal.path.open("rb") as stream:
                stream.seek(max(0, self.journal.length - TAIL_BYTES))
                self._last.add(stream.read())
        elif self.retention is not None and self.journal.length > self.retention // PARTS:
            self.journal.begin_part()
            self._lines, self._last = 0, LastBytes()
        lines = self.requests.take(self.most, room)
        if not lines and self.requests.closed:
            return None
        self.answerer.answer([line for line in lines if not line.request.learn])
        learned = [line for line in lines if line.request.learn]
        records = [self._append(line.text) for line in learned]
        if records:
            self.journal.flush()
        self.answerer.expect(records, learned)
        return records

    def snapshot(self) -> dict[str, Any] | None:
        """See ``Source.snapshot``."""
        if self._old is not None:
            before: dict[str, Any] | None = self._old.snapshot()
            return before
        position = FilePosition(
            file=0,
            path=path_of(str(self.journal.path)),
            lines=self._lines,
            bytes=self.journal.length,
            tail=self._last.sha256 if self._lines else None,
        )
        return dict(position)

    def _append(self, text: bytes) -> Record:
        """Write a line to the journal, and return its record."""
        self.journal.write(text + b"\n")
        self._last.add(text + b"\n")
        self._lines += 1
        file, too_long = str(self.journal.path), len(text) > self.max_bytes
        value = text[: self.max_bytes] if too_long else text
        return Record(value, file, self._lines, 0, self.journal.length, too_long=too_long)

    def committed(self, position: dict[str, Any] | None, number: int) -> None:
        """Remove the oldest parts, if there are too many, that no checkpoint needs."""
        if self.retention is None:
            return
        self._needed.note(number, _part_at(position))
        for part in self._needed.oldest():
            self.journal.forget(part, self.retention)

    def close(self) -> None:
        """Close the journal."""
        if self._old is not None:
            self._old.close()
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
