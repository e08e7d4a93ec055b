"""One file, pipe or standard input while it is read: unpacked, hashed, and never waited for."""

from __future__ import annotations

import hashlib
import io
import os
import select
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onlinesrl.core.closing import Closing
from onlinesrl.core.errors import StorageError
from onlinesrl.core.storage import storage_errors

STANDARD_INPUT = "-"
BUFFER_BYTES = 1 << 18
READ_ERRORS = (OSError, EOFError, zlib.error)
WAIT_SECONDS = 0.1
_GZIP = 31
"""zlib's window bits for a gzip header and its checksum."""


class _Raw(io.RawIOBase):
    """The bytes of a descriptor that are there now: reading what has none yet gives None."""

    def __init__(self, file: str) -> None:
        self.ended = False
        self.owned = file != STANDARD_INPUT
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe without a writer opens, too
        self.descriptor = os.open(file, flags) if self.owned else sys.stdin.fileno()
        self.poll: Any = None
        if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
            self.poll = select.poll()
            self.poll.register(self.descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.poll is not None and not self.poll.poll(0):
            return None
        read = os.readv(self.descriptor, [buffer])
        self.ended = read == 0
        return read

    def wait(self, seconds: float) -> None:
        """Wait for more, if that can be told, and not for long."""
        if self.poll is None or self.ended:
            time.sleep(seconds)
        else:
            self.poll.poll(1000 * seconds)

    def close(self) -> None:
        if self.owned and not self.closed:
            os.close(self.descriptor)
        super().close()


class _Unpacked(io.RawIOBase):
    """What gzip packed, one member after another; zeros between them are passed over.

    Raises EOFError where the data end within a member, unless more of it may come (``patient``).
    """

    def __init__(self, packed: _Raw, patient: bool) -> None:
        self.packed = packed
        self.patient = patient
        self.member: Any = None
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        while True:
            data = self.rest or self.packed.read(BUFFER_BYTES)
            self.rest = b""
            if self.member is None:
                data = data and data.lstrip(b"\0")
                if not data:
                    return None if data is None or not self.packed.ended else 0
                self.member = zlib.decompressobj(_GZIP)
            found = self.member.decompress(data or b"", len(buffer))
            self.rest = self.member.unconsumed_tail or self.member.unused_data
            if self.member.eof:
                self.member = None
            elif not found and not data:
                return self._unfinished()
            if found:
                buffer[: len(found)] = found
                return len(found)

    def _unfinished(self) -> int | None:
        if self.packed.ended and not self.patient:
            raise EOFError("the compressed data ended before their end-of-stream marker")
        return None

    def close(self) -> None:
        self.packed.close()
        super().close()


class Opened(Closing):
    """The lines of one file, or its bytes piece by piece.

    ``line`` and ``offset`` count what has been taken, unpacked; ``digest`` is its SHA-256. A line that
    is not whole yet is none of it. ``dry`` says that there was nothing more, ``ended`` that this was
    the file's end. With ``patient`` the file may grow.
    Raises StorageError where it cannot be opened; what READ_ERRORS holds where it cannot be read.
    """

    def __init__(self, file: str, patient: bool = False) -> None:
        self.file = file
        with storage_errors(file, "read"):
            self._raw = _Raw(file)
        packed = file.endswith(".gz")
        self._unpacked = _Unpacked(self._raw, patient) if packed else None
        self._buffered = io.BufferedReader(self._unpacked or self._raw, BUFFER_BYTES)
        self._hash = hashlib.sha256()
        self._ahead: Any = None
        self.part = b""
        self.waiting = 0
        self.line = self.offset = 0
        self.dry = False
        self.whole = True

    @property
    def ended(self) -> bool:
        """Whether the last reading came to the end."""
        return self.dry and self._raw.ended

    @property
    def unfinished(self) -> bool:
        """Whether a line, or what gzip packed, has begun and not ended."""
        return self.waiting > 0 or bool(self._unpacked and self._unpacked.member)

    @property
    def digest(self) -> str:
        """The SHA-256 of the first ``offset`` bytes, in hexadecimal digits."""
        return self._hash.hexdigest()

    def next_line(self, limit: int) -> bytes | None:
        """Return the next line with its end, or of a longer one the first ``limit`` bytes.

        None: it is not there, or not to its end; what there is of it is held.
        """
        raw = self._buffered.readline(limit)
        self.dry = not raw
        if self.waiting or not raw.endswith(b"\n"):
            return self._gather(raw, limit)
        self._hash.update(raw)
        self.offset += len(raw)
        self.line += 1
        return raw

    def _gather(self, raw: bytes, limit: int) -> bytes | None:
        """Add to a line that does not come in one piece."""
        if not raw:
            return None
        self._ahead = self._ahead or self._hash.copy()
        self._ahead.update(raw)
        self.part += raw[: limit - len(self.part)]
        self.waiting += len(raw)
        return self.last_line() if raw.endswith(b"\n") else None

    def last_line(self) -> bytes | None:
        """Take the part of a line that is held for a whole one, if there is any."""
        if not self.waiting:
            return None
        line, self.part = self.part, b""
        self._hash, self._ahead = self._ahead, None
        self.offset += self.waiting
        self.waiting = 0
        self.line += 1
        return line

    def pieces(self, stop: int | None = None) -> Iterator[bytes | None]:
        """Take all bytes up to an offset, or to the end; None: no more is there now."""
        while stop is None or self.offset < stop:
            most = BUFFER_BYTES if stop is None else min(BUFFER_BYTES, stop - self.offset)
            piece = self._buffered.read1(most)
            self.dry = not piece
            if self.ended:
                return
            self._hash.update(piece)
            self.offset += len(piece)
            self.whole = piece.endswith(b"\n") if piece else self.whole
            yield piece or None

    def wait(self, seconds: float) -> None:
        """Wait for more, so long at most."""
        self._raw.wait(seconds)

    def check(self) -> None:
        """Raise StorageError where the file is not the one that was opened, or has become shorter."""
        mine = os.fstat(self._raw.descriptor)
        try:
            now = Path(self.file).stat()
        except FileNotFoundError:  # removed: what there is of it can still be read
            now = mine
        read = os.lseek(self._raw.descriptor, 0, os.SEEK_CUR) if self._raw.poll is None else 0
        if not os.path.samestat(mine, now) or mine.st_size < read:
            raise StorageError(
                f"{self.file}: was replaced or cut while it was read (line {self.line}); a stream "
                "goes on in the same file, or in another one of the same folder"
            )

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._buffered.close()


def unreadable(file: str, line: int, error: Exception) -> StorageError:
    """Return what says that a file cannot be read, and where."""
    return StorageError(f"{file}:{line}: cannot be read: {error}")
