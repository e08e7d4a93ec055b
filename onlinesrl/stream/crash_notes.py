"""Detection of examples that crash the process.

A note in the run folder names the examples being processed. It only has to outlive the process, so it
is written without fsync. The next process reads in the note at which examples the last process died. It
processes those one at a time, until it knows which of them crashes, or all have passed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.io.atomic_write import plain, read_plain, storage_errors, write_atomic
from onlinesrl.core.operating_system import head, write_at
from onlinesrl.core.version import __version__

_BYTES = 256


class _Note(msgspec.Struct):
    """Examples are numbered from 0 in the order of the run; a range is (first, end)."""

    run: str
    at_hand: tuple[int, int] | None = None
    suspects: tuple[int, int] = (0, 0)
    deaths: int = 0


def run_of(fingerprint: Mapping[str, Any]) -> str:
    """Return the text that identifies a configuration and this version in a note."""
    text = json.dumps([__version__, dict(fingerprint)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class CrashNote:
    """Counts successive crashes within the same examples.

    ``run`` identifies the configuration: crashes under another one do not count. An example in which
    ``most`` processes died is bad; 0 disables this, and nothing is written. A process that ends after
    it was asked to stop does not count as crashed. All methods raise StorageError.
    """

    def __init__(self, path: Path, run: str, most: int) -> None:
        self.path = path
        self.most = most
        self._note = _Note(run)
        self._excused = False
        self._descriptor = -1
        if most:
            with storage_errors(path, "open"):
                self._descriptor = plain(path, os.O_RDWR | os.O_CREAT)
                self._inherit(head(self._descriptor, _BYTES))
            self._write(None)

    def _inherit(self, text: bytes) -> None:
        """Read the note of the last process; a crash among the suspects narrows them down."""
        with suppress(msgspec.MsgspecError):
            previous = msgspec.json.decode(text, type=_Note)
            if previous.run == self._note.run:
                self._note.suspects, self._note.deaths = previous.suspects, previous.deaths
                if previous.at_hand is not None:
                    (first, end), (low, high) = previous.at_hand, previous.suspects
                    again = low <= first and end <= high
                    self._note.suspects = previous.at_hand
                    self._note.deaths = 1 + (previous.deaths if again else 0)

    def room(self, number: int, room: int) -> int:
        """Return how many examples may be taken from ``number`` on; suspects are taken one at a time."""
        first, end = self._note.suspects
        if number < first:
            return min(room, first - number)
        return 1 if number < end else room

    def condemned(self, number: int) -> str | None:
        """Return why the example ``number`` must not be tried again; None if it may."""
        deaths = self._note.deaths
        if self.most and deaths >= self.most and self._note.suspects == (number, number + 1):
            return f"{deaths} processes in succession died in this example (limits.crashes)"
        return None

    @contextmanager
    def trying(self, number: int, count: int) -> Iterator[None]:
        """Note that examples from ``number`` on are being processed; call ``passed`` afterwards.

        A deliberate error clears the note; any other exception counts as a crash.
        """
        self._write((number, number + count))
        try:
            yield
        except (OnlinesrlError, KeyboardInterrupt):
            self._write(None)
            raise

    def passed(self, number: int) -> None:
        """Note that the examples before ``number`` are no longer suspects."""
        if self._note.suspects[1] <= number:
            self._note.suspects, self._note.deaths = (0, 0), 0
        self._write(None)

    def excuse(self) -> None:
        """Count no crash from now on, since the process was asked to stop."""
        self._excused = True
        self._write(None)

    def _write(self, at_hand: tuple[int, int] | None) -> None:
        if self._descriptor >= 0:
            self._note.at_hand = None if self._excused else at_hand
            with storage_errors(self.path, "write"):
                write_at(self._descriptor, msgspec.json.encode(self._note).ljust(_BYTES), 0)

    def close(self) -> None:
        """Close the note; closing twice is allowed."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class CrashNotes(CrashNote):
    """A note for processes that all begin with the same example. It also contains the examples put aside."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path, "", most)
        self._aside = path.with_suffix(".aside")
        self._reasons: dict[int, str] = {}
        if self._aside.exists():
            with storage_errors(self._aside, "read"):
                self._reasons = msgspec.json.decode(read_plain(self._aside), type=dict[int, str])

    def room(self, number: int, room: int) -> int:
        """Return how many examples may be taken; those put aside are taken one at a time."""
        if number in self._reasons:
            return 1
        later = [example - number for example in self._reasons if example > number]
        return min([super().room(number, room), *later])

    def condemned(self, number: int) -> str | None:
        """See ``CrashNote.condemned``."""
        if number not in self._reasons and (reason := super().condemned(number)) is not None:
            self._reasons[number] = reason
            write_atomic(self._aside, msgspec.json.encode(self._reasons))
        return self._reasons.get(number)
