"""Examples that kill the process that learns from them: noted beforehand, for nothing is raised.

A note in the run folder says which examples are at hand. It need only outlive the process, so it is
written to the system and never waited for. The next process finds in it where the last one died, takes
those examples one at a time, and so on until one is found out or all are passed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.storage import storage_errors

_BYTES = 256


class _Note(msgspec.Struct):
    """Examples are numbered from 0 in the order of the run; a range is its first and its end."""

    run: str
    at_hand: tuple[int, int] | None = None
    suspects: tuple[int, int] = (0, 0)
    deaths: int = 0


class CrashNote:
    """Who died where: the deaths in succession, within the same examples, that were not passed since.

    ``run`` names what the deaths depend on: those of another configuration do not count. ``most`` is
    how many make an example bad; 0: none do, and nothing is written. A process that was asked to
    stop before has not died.
    All methods raise StorageError.
    """

    def __init__(self, path: Path, run: str, most: int) -> None:
        self.path = path
        self.most = most
        self._note = _Note(run)
        self._excused = False
        self._descriptor = -1
        if most:
            with storage_errors(path, "open"):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                self._inherit(os.pread(self._descriptor, _BYTES, 0))
            self._write(None)

    def _inherit(self, text: bytes) -> None:
        """Take over what the last process left; one that died in suspects makes them fewer."""
        with suppress(msgspec.MsgspecError):
            left = msgspec.json.decode(text, type=_Note)
            if left.run == self._note.run:
                self._note.suspects, self._note.deaths = left.suspects, left.deaths
                if left.at_hand is not None:
                    again = _within(left.at_hand, left.suspects)
                    self._note.suspects = left.at_hand
                    self._note.deaths = 1 + (left.deaths if again else 0)

    def room(self, number: int, room: int) -> int:
        """Return how many examples may be taken from ``number`` on: suspects come one at a time."""
        first, end = self._note.suspects
        if number < first:
            return min(room, first - number)
        return 1 if number < end else room

    def condemned(self, number: int) -> str | None:
        """Return why the example ``number`` is not to be tried again, if it is not."""
        deaths = self._note.deaths
        if self.most and deaths >= self.most and self._note.suspects == (number, number + 1):
            return f"{deaths} processes in succession died in this example (limits.crashes)"
        return None

    @contextmanager
    def trying(self, number: int, count: int) -> Iterator[None]:
        """Note that the examples from ``number`` on are at hand; ``passed`` is for afterwards.

        An error on purpose leaves in good order; any other exception ends the process as a crash does.
        """
        self._write((number, number + count))
        try:
            yield
        except (OnlinesrlError, KeyboardInterrupt):
            self._write(None)
            raise

    def passed(self, number: int) -> None:
        """Note that none of the examples before ``number`` is a suspect any more."""
        if self._note.suspects[1] <= number:
            self._note.suspects, self._note.deaths = (0, 0), 0
        self._write(None)

    def excuse(self) -> None:
        """Note that a death from now on is no example's fault."""
        self._excused = True
        self._write(None)

    def _write(self, at_hand: tuple[int, int] | None) -> None:
        if self._descriptor >= 0:
            self._note.at_hand = None if self._excused else at_hand
            with storage_errors(self.path, "write"):
                os.pwrite(self._descriptor, msgspec.json.encode(self._note).ljust(_BYTES), 0)

    def close(self) -> None:
        """End in good order; closing twice is allowed."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def _within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
