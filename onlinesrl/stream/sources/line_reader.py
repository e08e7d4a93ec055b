"""Non-blocking reading of one file, pipe or standard input, decompressed and hashed."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onlinesrl.core.errors import StorageError
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.operating_system import open_flags, read_into, readiness
from onlinesrl.core.resources import Closing
from onlinesrl.stream.csv_rows import delimiter_of, is_open

STANDARD_INPUT = "-"
BUFFER_BYTES = 1 << 18
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


class Span(NamedTuple):
    """Lines after line ``line``, as bytes, and the SHA-256 of all bytes before them."""

    line: int
    hash: Any
    lines: list[bytes]

    def until(self, line: int) -> Any:
        """Return the SHA-256 of the bytes up to the end of a line, as hashlib has it."""
        digest = self.hash.copy()
        digest.update(b"".join(self.lines[: line - self.line]))
        return digest


def digest_at(spans: Sequence[Span], line: int) -> str:
    """Return the SHA-256, in hexadecimal digits, of a file up to the end of a line that ``spans`` have."""
    span = next(span for span in reversed(spans) if span.line <= line)
    return str(span.until(line).hexdigest())


class LineReader(Closing):
    """The lines of one file, or its bytes in pieces.

    ``spans`` are what was read since they were last taken by ``settle``; they have lines only with ``kept``.

    ``line`` and ``offset`` count what has been read, decompressed; ``digest`` is its SHA-256. An
    incomplete line does not count. ``dry``: the last read found nothing; ``ended``: that was the end
    of the file. With ``patient`` the file may grow. Raises StorageError if it cannot be opened, and
    READ_ERRORS if it cannot be read.

    With ``rows`` the lines are rows of CSV, which may have line ends within quotes; ``line`` counts these,
    and ``header`` is the first row, once the caller has set it.
    """

    def __init__(
        self, file: str, patient: bool = False, keep_lines: bool = False, rows: bool = False
    ) -> None:
        self.file = file
        self.kept = keep_lines
        self.rows, self.header = rows, b""
        self._checked, self._inner, self._quoted = 0, 0, False
        with storage_errors(file, "read"):
            self._raw = _Raw(file)
        packed = file.endswith(".gz")
        self._unpacked = _Unpacked(self._raw, patient) if packed else None
        self._buffered = io.BufferedReader(self._unpacked or self._raw, BUFFER_BYTES)
        self.spans = [Span(0, hashlib.sha256(), [])]
        self._ahead: Any = None
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
    def digest(self) -> str:
        """The SHA-256 of the first ``offset`` bytes, in hexadecimal digits."""
        return str(self.spans[-1].until(sys.maxsize).hexdigest())

    def settle(self) -> list[Span]:
        """Return the spans, and begin anew."""
        spans, self.spans = self.spans, [Span(self.line, self.spans[-1].until(sys.maxsize), [])]
        return spans

    def next_line(self, limit: int) -> bytes | None:
        """Return the next line with its end, or the first ``limit`` bytes of a longer one.

        None: there is none, or it is incomplete; its part is kept.
        """
        raw = self._buffered.readline(limit)
        self.dry = not raw
        if self.waiting or not raw.endswith(b"\n") or (self.rows and b'"' in raw):
            return self._gather(raw, limit)
        if self.kept:
            self.spans[-1].lines.append(raw)
        else:
            self.spans[-1].hash.update(raw)
        self.offset += len(raw)
        self.line += 1
        return raw

    def _gather(self, raw: bytes, limit: int) -> bytes | None:
        """Add to an incomplete line."""
        if not raw:
            return None
        self._ahead = self._ahead or self.spans[-1].until(sys.maxsize)
        self._ahead.update(raw)
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
        hashed, self._ahead = self._ahead, None
        self.spans.append(Span(self.line, hashed, []))
        return line

    def pieces(self, stop: int | None = None) -> Iterator[bytes | None]:
        """Yield the bytes up to an offset, or to the end; None: there are no more for now."""
        while stop is None or self.offset < stop:
            most = BUFFER_BYTES if stop is None else min(BUFFER_BYTES, stop - self.offset)
            piece = self._buffered.read1(most)
            self.dry = not piece
            if self.ended:
                return
            self.spans[-1].hash.update(piece)
            self.offset += len(piece)
            self.whole = piece.endswith(b"\n") if piece else self.whole
            yield piece or None

    def set_line(self, line: int) -> None:
        """Set the number of lines read so far."""
        self.line = line
        self.settle()

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
        descriptor = self._raw.descriptor
        read = os.lseek(descriptor, 0, os.SEEK_CUR) if self._raw.poll is None else 0
        if os.fstat(descriptor).st_size < read:
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
