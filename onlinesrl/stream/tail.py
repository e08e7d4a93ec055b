"""The new lines of a file that grows, such as one that another process writes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from onlinesrl.core.io.atomic_write import plain
from onlinesrl.stream.run_folder import part_of, parts

MOST = 1 << 18
"""So many bytes are read at once, or one line if it is longer."""
_KNOWN = 64


class Tail:
    """Reads the whole lines that a file has got since the last time, without locking it.

    The file may have parts (see ``run_folder.parts``). ``part`` and ``offset``, in bytes, are the place where
    it is read on. A last line that is not whole is left for the next time. At once ``most`` bytes are
    read, and one line at least, however long. With ``newest``, these are the last lines of the last part.

    ``anew`` says whether the last reading could not go on: the part was removed, or what was read is no
    longer there. It has then begun at the first line that is left. What was read is recognised by its last
    bytes, not by the file's number, which the system gives out again.
    """

    def __init__(
        self, path: Path, most: int = MOST, newest: bool = True, part: int = 0, offset: int = 0
    ) -> None:
        self.base = self.path = path
        self.most, self.newest = most, newest
        self.part, self.offset = part, offset
        self.anew = False
        self._known = b"\n" if offset else b""

    def lines(self) -> list[bytes]:
        """Return new lines, without their ends; none where the file cannot be read."""
        self.anew = False
        try:
            while files := {part_of(path): path for path in parts(self.base)}:
                first = (max if self.newest else min)(files)
                if self.newest and self.part in files and self.part != first:
                    self._move(first)
                try:
                    lines = self._read(files[self.part]) if self.part in files else None
                except FileNotFoundError:
                    continue  # it was removed just now
                later = [number for number in files if number > self.part]
                if lines or (lines is not None and not later):
                    return lines
                self.anew |= lines is None
                self._move(first if lines is None else min(later))
        except FileNotFoundError:
            pass  # the folder was removed
        except OSError:
            return []
        self.anew |= self.offset > 0
        self._move(0)
        return []

    def _move(self, part: int) -> None:
        self.part, self.offset, self._known = part, 0, b""

    def _read(self, path: Path) -> list[bytes] | None:
        """Return the next lines of a part; None if what was read is not there. Raises OSError."""
        self.path = path
        with open(path, "rb", opener=plain) as file:
            size = file.seek(0, 2)
            file.seek(max(0, self.offset - len(self._known)))
            if size < self.offset or file.read(len(self._known)) != self._known:
                return None
            return self._next(file, size)

    def _next(self, file: BinaryIO, size: int) -> list[bytes]:
        if self.newest and size - self.offset > self.most:
            self.offset = self._begin_newest(file, size)
        file.seek(self.offset)
        lines, end = [], self.offset + self.most
        while self.offset < end and (line := file.readline()).endswith(b"\n"):
            lines.append(line[:-1])
            self.offset += len(line)
        start = max(0, self.offset - _KNOWN)
        file.seek(start)
        self._known = file.read(self.offset - start)
        return lines

    def _begin_newest(self, file: BinaryIO, size: int) -> int:
        """Return where the lines in the last ``most`` bytes begin, or the last whole line if it is longer."""
        length = self.most
        while size - length > self.offset:
            file.seek(size - length - 1)
            file.readline()  # the end of a line
            start = file.tell()
            if file.readline().endswith(b"\n"):
                return start
            length *= 2
        return self.offset
