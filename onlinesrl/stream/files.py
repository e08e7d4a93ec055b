"""Examples from files and from standard input, with the place to go on from after each.

Kinds, by name: `.db` is one world a file; everything else holds one JSON example a line. With
`.gz` after it the same, compressed. `-` is standard input, JSON lines. A folder stands for all
its `*.jsonl`, `*.jsonl.gz` and `*.db`, sorted by name.
"""

import gzip
import io
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import msgspec

from onlinesrl.errors import StorageError
from onlinesrl.stream.folder import storage_errors

MAX_BYTES = 16 << 20
STANDARD_INPUT = "-"
_BUFFER_BYTES = 1 << 18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FOLDER_KINDS = (".jsonl", ".jsonl.gz", ".db")
_READ_ERRORS = (OSError, EOFError, zlib.error)


class Record(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one example and where they stood.

    `value` is the line without its end (`kind` "json") or the whole file ("db"), without a UTF-8
    byte order mark at the start of the file; of Kafka it is the message, and "tombstone" one without
    a value, `file` its topic and partition, `line` its offset. Else `line` counts from 1, blank lines
    too. Where the example is longer than the source's limit, `too_long` is set and `value` is its
    first part.
    `index` is the file's number in the source, `offset` the bytes of it consumed so far.
    """

    value: bytes
    file: str
    line: int
    index: int
    offset: int
    kind: Literal["json", "db", "tombstone"] = "json"
    too_long: bool = False

    @property
    def position(self) -> dict[str, Any]:
        """The place after this record, for `FileSource.read`, as JSON can hold it."""
        name = Path(self.file).name
        return {"file": self.index, "name": name, "line": self.line, "offset": self.offset}


class FileSource:
    """Records from files, folders and standard input, in the order given.

    Blank lines are skipped. A line (or world) of more than `max_bytes` comes as a Record that is
    `too_long`; its rest is read but not held. Raises StorageError for paths that do not exist and
    folders without examples.
    """

    live, shared = False, False

    def __init__(self, paths: Sequence[Path | str], max_bytes: int = MAX_BYTES) -> None:
        self.files = [file for path in paths for file in _expand(path)]
        self.max_bytes = max_bytes

    def read(self, position: dict[str, Any] | None = None) -> Iterator[Record]:
        """Yield the records after `position` (of an earlier record; None: from the start).

        A plain file is entered at its offset; a compressed one is read again up to it, and so is
        standard input, which must be fed again from its start: as many lines as were consumed are
        passed over. Lines added to a file since then are read.
        Raises StorageError, with the place, when a file cannot be read or is damaged, when it has
        become shorter than the position, or when the position is of another list of files.
        """
        first, line, offset = self._start(position)
        for index in range(first, len(self.files)):
            yield from self._file(index, line, offset)
            line = offset = 0

    def open(self, position: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return where reading begins: at the position, None at the start."""
        return position

    def after(self, position: dict[str, Any] | None, records: Sequence[Record]) -> dict[str, Any]:
        """Return the position after records that stood next."""
        return records[-1].position

    def during(self, work: Callable[[], Any]) -> Any:
        """Do work of the run's."""
        return work()

    def lag(self) -> dict[str, int]:
        """Return how far the ends of live partitions are ahead: there are none."""
        return {}

    def accepts(self, position: dict[str, Any] | None, number: int) -> bool:
        """Tell whether a run may go on from its checkpoint."""
        return True

    def acknowledge(self, position: dict[str, Any] | None, number: int) -> None:
        """Take note that a checkpoint holds the position."""

    def close(self) -> None:
        """Let go of what is open: files are closed when they have been read."""

    def _start(self, position: dict[str, Any] | None) -> tuple[int, int, int]:
        if position is None:
            return 0, 0, 0
        index = position["file"]
        name = Path(self.files[index]).name if index < len(self.files) else None
        if name != position["name"]:
            raise StorageError(
                f"the list of source files has changed: file {index + 1} was {position['name']}, "
                f"now it is {name or 'missing'}; give the same files, or start over with --fresh"
            )
        return index, position["line"], position["offset"]

    def _file(self, index: int, line: int, offset: int) -> Iterator[Record]:
        """Yield the records of one file after `line` and `offset`."""
        file = self.files[index]
        with storage_errors(file, "read"):
            opened = _open(file)
        with opened as stream:
            _advance(file, stream, line, offset)
            if not file.removesuffix(".gz").endswith(".db"):
                yield from self._lines(index, stream, line, offset)
            elif line == 0:
                yield self._world(index, stream)

    def _lines(self, index: int, stream: BinaryIO, line: int, offset: int) -> Iterator[Record]:
        file, limit, readline = self.files[index], self.max_bytes + 1, stream.readline
        try:
            while raw := readline(limit):
                line += 1
                offset += len(raw)
                too_long = len(raw) == limit and not raw.endswith(b"\n")
                if too_long:
                    offset += _finish_line(stream)
                value = raw[:-1] if too_long else raw.rstrip(b"\r\n")
                if line == 1:
                    value = value.removeprefix(_BYTE_ORDER_MARK)
                if value and not value.isspace():
                    yield Record(value, file, line, index, offset, "json", too_long)
        except _READ_ERRORS as error:
            raise _unreadable(file, line + 1, error) from error

    def _world(self, index: int, stream: BinaryIO) -> Record:
        file = self.files[index]
        try:
            value = stream.read(self.max_bytes + 1)
            offset = len(value) + sum(map(len, iter(lambda: stream.read(_BUFFER_BYTES), b"")))
        except _READ_ERRORS as error:
            raise _unreadable(file, 1, error) from error
        too_long = len(value) > self.max_bytes
        value = value[: self.max_bytes].removeprefix(_BYTE_ORDER_MARK)
        return Record(value, file, 1, index, offset, "db", too_long)


def _expand(path: Path | str) -> list[str]:
    """Return the files that a path stands for, sorted by name when it is a folder."""
    if str(path) == STANDARD_INPUT:
        return [STANDARD_INPUT]
    path = Path(path)
    with storage_errors(path, "read"):
        if not stat.S_ISDIR(path.stat().st_mode):
            return [str(path)]
        files = sorted(str(file) for file in path.iterdir() if file.name.endswith(_FOLDER_KINDS))
    if not files:
        raise StorageError(f"{path}: no *{', *'.join(_FOLDER_KINDS)} file in this folder")
    return files


def _open(file: str) -> AbstractContextManager[BinaryIO]:
    if file == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    if file.endswith(".gz"):
        unpacked = cast(io.RawIOBase, gzip.open(file))  # noqa: SIM115 (closed with its reader)
        return io.BufferedReader(unpacked, _BUFFER_BYTES)
    return Path(file).open("rb", buffering=_BUFFER_BYTES)


def _advance(file: str, stream: BinaryIO, line: int, offset: int) -> None:
    """Pass over the first `offset` bytes (`line` lines): by seeking where bytes are as on disk."""
    try:
        if file != STANDARD_INPUT and not file.endswith(".gz") and stream.seekable():
            missing = offset - stream.seek(0, io.SEEK_END)
            stream.seek(offset)
        else:
            missing = offset
            while missing > 0 and (passed := stream.read(min(missing, _BUFFER_BYTES))):
                missing -= len(passed)
    except _READ_ERRORS as error:
        raise _unreadable(file, 1, error) from error
    if missing > 0:
        raise StorageError(
            f"{file}: has only {offset - missing} bytes, but {offset} ({line} lines) were read "
            f"from it before; give the same source again, or start over with --fresh"
        )


def _finish_line(stream: BinaryIO) -> int:
    """Read to the end of the line, holding one buffer of it; return the number of bytes."""
    total = 0
    while part := stream.readline(_BUFFER_BYTES):
        total += len(part)
        if part.endswith(b"\n"):
            break
    return total


def _unreadable(file: str, line: int, error: Exception) -> StorageError:
    return StorageError(f"{file}:{line}: cannot be read: {error}")
