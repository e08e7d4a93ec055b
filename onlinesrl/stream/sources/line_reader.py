"""Non-blocking reading of one file, pipe or standard input, decompressed."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import StorageError
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.operating_system import open_flags, read_into, readiness
from onlinesrl.core.resources import Closing
from onlinesrl.stream.csv_rows import delimiter_of, is_open

STANDARD_INPUT = "-"
BUFFER_BYTES = 1 << 18
TAIL_BYTES = 1 << 16
"""A file that was read is recognised by so many bytes before the position."""
READ_ERRORS = (OSError, EOFError, zlib.error)
WAIT_SECONDS = 0.1
_GZIP = 31
"""zlib's window bits for a gzip header and its checksum."""


class _Raw(io.RawIOBase):
    """The bytes available from a descriptor; None when there are none yet."""

    def __init__(self, file: str) -> None:
        self.ended = False
        self.owned = file != STANDARD_INPUT
        flags = open_flags("O_NONBLOCK", "O_CLOEXEC")  # opens a pipe without a writer too
        self.descriptor = os.open(file, flags) if self.owned else sys.stdin.fileno()
        self.poll: Any = None
        if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
            self.poll = readiness(self.descriptor)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.poll is not None and not self.poll.poll(0):
            return None
        read = read_into(self.descriptor, buffer)
        self.ended = read == 0
        return read

    def wait(self, seconds: float) -> None:
        """Wait for more, at most so long."""
        if self.poll is None or self.ended:
            time.sleep(seconds)
        else:
            self.poll.poll(1000 * seconds)

    def close(self) -> None:
        if self.owned and not self.closed:
            os.close(self.descriptor)
        super().close()


class _Unpacked(io.RawIOBase):
    """Decompressed gzip data, member after member; zeros between members are skipped.

    Raises EOFError if the data end within a member, unless more may come (``patient``).
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
            data_out = self.member.decompress(data or b"", len(buffer))
            self.rest = self.member.unconsumed_tail or self.member.unused_data
            if self.member.eof:
                self.member = None
            elif not data_out and not data:
                if self.packed.ended and not self.patient:
                    raise EOFError("the compressed data ended before their end-of-stream marker")
                return None
            if data_out:
                buffer[: len(data_out)] = data_out
                return len(data_out)

    def close(self) -> None:
        self.packed.close()
        super().close()


class LastBytes:
    """The last bytes of what was read, by which it is recognised when a run resumes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, piece: bytes | bytearray) -> None:
        """Note what was read next."""
        self._bytes += piece
        if len(self._bytes) > 4 * TAIL_BYTES:
            del self._bytes[:-TAIL_BYTES]

    def take(self, other: LastBytes) -> None:
        """Note what another has, and empty that."""
        self.add(other._bytes)
        other._bytes.clear()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the last ``TAIL_BYTES``, in hexadecimal digits."""
        return hashlib.sha256(self._bytes[-TAIL_BYTES:]).hexdigest()


def size_of(file: str) -> int:
    """Return the size of a file. Raises StorageError."""
    with storage_errors(file, "read"):
        return Path(file).stat().st_size


def tail_of(file: str, end: int) -> str:
    """Return the SHA-256 of the last ``TAIL_BYTES`` before a byte of a file. Raises StorageError."""
    with storage_errors(file, "read"), Path(file).open("rb") as stream:
        stream.seek(max(0, end - TAIL_BYTES))
        return hashlib.sha256(stream.read(min(end, TAIL_BYTES))).hexdigest()


class LineReader(Closing):
    """The lines of one file, or its bytes in pieces.

    ``line`` and ``offset`` count what has been read, decompressed; ``last`` has its last bytes. An
    incomplete line does not count. ``dry``: the last read found nothing; ``ended``: that was the end
    of the file. With ``patient`` the file may grow. Raises StorageError if it cannot be opened, and
    READ_ERRORS if it cannot be read.

    With ``rows`` the lines are rows of CSV, which may have line ends within quotes; ``line`` counts these,
    and ``header`` is the first row, once the caller has set it.
    """

    def __init__(self, file: str, patient: bool = False, rows: bool = False) -> None:
        self.file = file
        self.rows, self.header = rows, b""
        self._checked, self._inner, self._quoted = 0, 0, False
        with storage_errors(file, "read"):
            self._raw = _Raw(file)
        packed = file.endswith(".gz")
        self._unpacked = _Unpacked(self._raw, patient) if packed else None
        self._buffered = io.BufferedReader(self._unpacked or self._raw, BUFFER_BYTES)
        self.last, self._ahead = LastBytes(), LastBytes()
        self.part = b""
        self.waiting = 0
        self.line = self.offset = 0
        self.dry = False
        self.whole = True

    @property
    def ended(self) -> bool:
        """Whether the last read reached the end."""
        return self.dry and self._raw.ended

    @property
    def unfinished(self) -> bool:
        """Whether a line or a gzip member has started and is incomplete."""
        return self.waiting > 0 or bool(self._unpacked and self._unpacked.member)

    @property
    def size(self) -> int:
        """The size of the file as it is now, compressed if it is; 0 for a pipe."""
        return os.fstat(self._raw.descriptor).st_size

    @property
    def size_read(self) -> int:
        """How much of ``size`` has been read."""
        return os.lseek(self._raw.descriptor, 0, os.SEEK_CUR) if self._raw.poll is None else 0

    def next_line(self, limit: int) -> bytes | None:
        """Return the next line with its end, or the first ``limit`` bytes of a longer one.

        None: there is none, or it is incomplete; its part is kept.
        """
        raw = self._buffered.readline(limit)
        self.dry = not raw
        if self.waiting or not raw.endswith(b"\n") or (self.rows and b'"' in raw):
            return self._gather(raw, limit)
        self.last.add(raw)
        self.offset += len(raw)
        self.line += 1
        return raw

    def _gather(self, raw: bytes, limit: int) -> bytes | None:
        """Add to an incomplete line."""
        if not raw:
            return None
        self._ahead.add(raw)
        self.part += raw[: limit - len(self.part)]
        self.waiting += len(raw)
        if self.rows and raw.endswith(b"\n"):
            delimiter = delimiter_of(self.header or self.part)
            self._quoted = is_open(self.part[self._checked :], self._quoted, delimiter)
            self._checked = len(self.part)
            self._inner += self._quoted
        return self.last_line() if raw.endswith(b"\n") and not self._quoted else None

    def last_line(self) -> bytes | None:
        """Return the incomplete line as if complete; None if there is none."""
        if not self.waiting:
            return None
        line, self.part = self.part, b""
        self.offset += self.waiting
        self.waiting = 0
        self.line += 1 + self._inner
        self._checked, self._inner, self._quoted = 0, 0, False
        self.last.take(self._ahead)
        return line

    def pieces(self, stop: int | None = None) -> Iterator[bytes | None]:
        """Yield the bytes up to an offset, or to the end; None: there are no more for now."""
        while stop is None or self.offset < stop:
            most = BUFFER_BYTES if stop is None else min(BUFFER_BYTES, stop - self.offset)
            piece = self._buffered.read1(most)
            self.dry = not piece
            if self.ended:
                return
            self.last.add(piece)
            self.offset += len(piece)
            self.whole = piece.endswith(b"\n") if piece else self.whole
            yield piece or None

    def skip(self, stop: int) -> Iterator[None]:
        """Go to an offset, or to the end if that is before it, waiting where there is no more for now.

        Of a file that is neither compressed nor a pipe only the last bytes are read.
        """
        if self._unpacked is None and self._raw.poll is None and self.offset == 0:
            self.offset = max(0, min(stop, self.size) - TAIL_BYTES)
            os.lseek(self._raw.descriptor, self.offset, os.SEEK_CUR)
        for piece in self.pieces(stop):
            yield None
            if piece is None:
                self.wait(WAIT_SECONDS)

    def wait(self, seconds: float) -> None:
        """Wait for more, at most so long."""
        self._raw.wait(seconds)

    def check(self) -> None:
        """Raise StorageError if the file was replaced or truncated since it was opened."""
        self.check_length()
        try:
            now = Path(self.file).stat()
        except FileNotFoundError:  # removed: its data can still be read
            return
        if not os.path.samestat(os.fstat(self._raw.descriptor), now):
            raise changed(self.file, self.line)

    def check_length(self) -> None:
        """Raise StorageError if the file was truncated since it was opened."""
        if self.size < self.size_read:
            raise changed(self.file, self.line)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._buffered.close()


def unreadable(file: str, line: int, error: Exception) -> StorageError:
    """Return the error for a file that cannot be read, with the line."""
    return StorageError(f"{file}:{line}: cannot be read: {error}")


def changed(file: str, line: int) -> StorageError:
    """Return the error for a file that was changed after so many lines were read."""
    return StorageError(
        f"{file}: was replaced or truncated while it was read (line {line}); "
        "append to the same file, or add a file to the folder"
    )
