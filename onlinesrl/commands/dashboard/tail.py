"""The newest lines of a file that another process writes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from onlinesrl.core.io.atomic_write import plain
from onlinesrl.stream.run_folder import parts

MOST = 1 << 18
"""The most bytes that are read at once: of a file that has grown by more, the newest ones."""
_KNOWN = 64


class Tail:
    """Reads the complete lines that a file has got since the last time, without locking it.

    A last line that is not complete is left for the next time. ``anew`` says whether the last reading
    found another file, or a shorter one: it is read from its start again. What has been read is
    recognised by its last bytes, not by the file's number, which the system gives out again.
    """

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.base = self.path = path
        self.most = most
        self.anew = False
        self._offset = 0
        self._known = b""
        self._midway = False

    def follow(self) -> None:
        """Go on to the last part of the file, where it has parts."""
        last = self.base
        with suppress(OSError):  # the folder may vanish
            last = [last, *parts(last)][-1]
        if last != self.path:
            self._restart()
            self.path, self.anew = last, False

    def lines(self) -> list[bytes]:
        """Return the new lines, without their ends; none where the file cannot be read."""
        self.anew = False
        try:
            with open(self.path, "rb", opener=plain) as file:
                size = file.seek(0, 2)
                file.seek(self._offset - len(self._known))
                if size < self._offset or file.read(len(self._known)) != self._known:
                    self._restart()
                if size - self._offset > self.most:
                    self._offset, self._known, self._midway = size - self.most, b"", True
                file.seek(self._offset)
                data = file.read(self.most)
        except OSError:
            self._restart()
            return []
        end = data.rfind(b"\n") + 1
        if not end:
            return []
        self._offset += end
        self._known = (self._known + data[:end])[-_KNOWN:]
        lines = data[: end - 1].split(b"\n")[self._midway :]
        self._midway = False
        return lines

    def _restart(self) -> None:
        self.anew = self._offset > 0
        self._offset, self._known, self._midway = 0, b"", False
