"""Examples from files and from standard input, with the position to resume from after each.

Kinds, by name: `.db` is one world a file; `.csv` and `.tsv` hold rows under a header, `.parquet` and
`.avro` rows with a schema, and a mapping makes examples of these; everything else holds one JSON
example a line. With `.gz` after it the same, compressed, except for Parquet and Avro. `-` is standard
input, JSON lines. A folder stands for all its `*.jsonl`, `*.jsonl.gz` and `*.db`, a pattern (`*`, `?`,
`[...]`, `**`) for all files that match, sorted by name. New files in a folder or pattern are sorted by
name among the files that have not been started yet, so they are read after all that have been.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import msgspec
from pydantic import field_validator

from onlinesrl.core.errors import ExampleError, StorageError
from onlinesrl.core.io.atomic_write import json_lines, storage_errors
from onlinesrl.core.io.config_types import STDIN, Inputs, Name
from onlinesrl.core.io.restoring import Natural
from onlinesrl.stream.csv_rows import SUFFIXES, UTF_8, columns
from onlinesrl.stream.kafka.config import Brokers
from onlinesrl.stream.linked_source import linked_source
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import OutputFile
from onlinesrl.stream.source import IteratedSource, Sections, Source, SourceContext, SourceSection
from onlinesrl.stream.sources.line_reader import (
    READ_ERRORS,
    STANDARD_INPUT,
    WAIT_SECONDS,
    LineReader,
    size_of,
    unreadable,
)
from onlinesrl.stream.sources.row_files import check_packages, is_row_file, rows_of

AGAIN = "give the same source again, or start over with --fresh"
MAX_BYTES = 16 << 20
LOOK_SECONDS = 1.0
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FOLDER_KINDS = (".jsonl", ".jsonl.gz", ".db")
_BLANK_LINES = 4096
_ASCII = bytes(range(128))


class Ended(msgspec.Struct, frozen=True):
    """A file that was read to its end, and its size then, compressed if it is."""

    path: str
    size: int


class ReadLog:
    """The files read to their end, one per line, in the order read. All methods raise StorageError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def first(self, count: int) -> list[Ended]:
        """Return the first entries, and remove the others, which no checkpoint includes."""
        exists = self.path.exists()
        lines = json_lines(self.path, Ended) if exists else ()
        entries = [Ended(**line) for line in islice(lines, count)]
        if len(entries) < count:
            raise StorageError(
                f"{self.path}: has {len(entries)} of the {count} files that were read to their end; "
                "restore the file, or start over with --fresh"
            )
        if exists:
            with OutputFile(self.path) as file:
                file.truncate(sum(map(len, map(_line, entries))))
        return entries

    def append(self, read: Iterable[Ended]) -> None:
        """Add entries, durably."""
        with OutputFile(self.path) as file:
            for entry in read:
                file.write(_line(entry))
            file.flush()


def _line(entry: Ended) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def path_of(file: str) -> str:
    """Return the absolute path of a file as text, whatever bytes its name has."""
    path = file if file == STANDARD_INPUT else os.path.abspath(file)  # noqa: PTH100 - links stay
    return os.fsencode(path).decode(errors="backslashreplace")


class FilePosition(TypedDict):
    """How far files have been read: the number of the last one, its lines, and its bytes (unpacked).

    ``tail`` is the SHA-256 of the last ``TAIL_BYTES`` of these; None if it is not known.
    """

    file: Natural
    path: str
    lines: Natural
    bytes: Natural
    tail: str | None


class FileSource(IteratedSource):
    """Records from files, folders, patterns and standard input, in the order given.

    Blank lines are skipped. A line (or world) of more than `max_bytes` comes as a Record that is
    `too_long`; its rest is read but not kept. A ``live`` source does not stop at the end: it waits for
    more lines and files, and moves to the next file once the last line is complete. Files read to the
    end are noted in ``ledger``. ``say`` gets messages about the order of files.
    Raises StorageError for paths that do not exist and, unless live, for those without examples.
    """

    Position = FilePosition | None

    def __init__(
        self,
        paths: Sequence[Path | str],
        max_bytes: int = MAX_BYTES,
        live: bool = False,
        ledger: Path | None = None,
        say: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.paths = paths
        self.max_bytes = max_bytes
        self.live = live
        self.ledger = None if ledger is None else ReadLog(ledger)
        self.say = say
        self.files: list[str] = self._listed()
        check_packages(self.files)
        self.said: set[str] = set()
        self._ended: dict[int, Ended] = {}
        self._noted = 0
        self._index = -1
        self._opened: LineReader | None = None
        self._looked = time.monotonic()

    def read(self, position: dict[str, Any] | None = None) -> Iterator[Record | None]:
        """Yield the records after `position` (see `after`; None: from the start).

        None: there are no more for now, or finding the next takes long. Files are recognised by their
        sizes, and the last one by the bytes before the position; standard input must be fed again from
        its start. Raises StorageError, with the place, when a file cannot be read or is damaged, or is
        not recognised.
        """
        yield from self._resume(position)
        while self._opened is not None or (yield from self._next()):
            opened = self._opened
            assert opened is not None
            with opened:
                yield from self._records(opened)
                self._ended[self._index] = Ended(path_of(opened.file), opened.size_read)
                self._last = self._place(opened)
            self._opened = None

    def _place(self, opened: LineReader) -> FilePosition:
        """Return how far the last file has been read; of a world all or nothing."""
        return FilePosition(
            file=self._index,
            path=path_of(opened.file),
            lines=opened.line,
            bytes=opened.offset if opened.line else 0,
            tail=opened.last.sha256 if opened.line else None,
        )

    def after(self, records: Sequence[Record]) -> dict[str, Any]:
        """See ``IteratedSource.after``; files that were read to their end are noted in the ledger."""
        now = self._last if self._opened is None else self._place(self._opened)
        ended = [self._ended.pop(n) for n in range(self._noted, now["file"])]
        if self.ledger is not None and ended:
            self.ledger.append(ended)
        self._noted = now["file"]
        return dict(now)

    @property
    def over(self) -> bool:
        """Whether no more lines or files will come."""
        return not self.live or STANDARD_INPUT in self.files

    # the order of files ---------------------------------------------------------------------------

    def _listed(self) -> list[str]:
        """Return the current files, in the order of the paths and by name within a path."""
        return [file for path in self.paths for file in expand(path, empty=self.live)]

    def _look(self) -> None:
        """List the files again; new ones follow those that have been started."""
        self._looked = time.monotonic()
        listed, begun = self._listed(), self.files[: self._index + 1]
        counts_left, later, last = Counter(begun), [], 0
        for place, file in enumerate(listed):
            if counts_left[file]:
                counts_left[file] -= 1
                last = place
            else:
                later.append(file)
        self.files = begun + later
        for file in sorted(set(listed[:last]).intersection(later)):
            self._tell(file, "sorts before what has been read, and is read after it")

    def _tell(self, file: str, message: str) -> None:
        """Say something about a file, once."""
        if file not in self.said:
            self.said.add(file)
            self.say(f"{file}: {message}")

    def _next(self) -> Generator[None, None, bool]:
        """Open the next file, waiting for it if need be; return False if there is none."""
        while self._index + 1 >= len(self.files):
            if self.over:
                return False
            yield None
            time.sleep(WAIT_SECONDS)
            if time.monotonic() - self._looked >= LOOK_SECONDS:
                self._look()
        self._index += 1
        self._opened = self._open(self.files[self._index])
        return True

    def _open(self, file: str) -> LineReader:
        return LineReader(file, self.live, is_rows(file))

    # the records of a file ------------------------------------------------------------------------

    def _records(self, opened: LineReader) -> Iterator[Record | None]:
        """Yield the rest of a file's records."""
        try:
            if is_row_file(opened.file):
                yield from self._rows(opened)
            elif not is_world(opened.file):
                yield from self._lines(opened)
            elif opened.line == 0:
                yield from self._world(opened)
        except READ_ERRORS as error:
            raise unreadable(opened.file, opened.line + 1, error) from error

    def _lines(self, opened: LineReader) -> Iterator[Record | None]:
        limit, next_line, followed = self.max_bytes + 1, opened.next_line, False
        file = opened.file
        while True:
            raw = next_line(limit)
            if raw is None and opened.ended:
                if self.over:
                    break
                if followed and not opened.unfinished:
                    return
                if time.monotonic() - self._looked >= LOOK_SECONDS:
                    opened.check()
                    self._look()
                followed = self._index + 1 < len(self.files)
                if followed and not opened.unfinished:
                    continue  # lines written to this file before the next one appeared
                if followed:
                    self._tell(file, f"waiting for the end of line {opened.line + 1}")
            if raw is None:
                yield None
                if opened.dry:
                    self._wait(opened)
            elif (value := self._value(raw, opened)) is not None:
                yield value
            elif opened.line % _BLANK_LINES == 0:
                yield None
        opened.check_length()
        raw = opened.last_line()
        value = None if raw is None else self._value(raw, opened)
        if value is not None:
            yield value

    def _wait(self, opened: LineReader) -> None:
        """Wait briefly for more lines."""
        opened.wait(WAIT_SECONDS)

    def _value(self, raw: bytes, opened: LineReader) -> Record | None:
        """Return the record of a line; None for a blank line, or the line end of a line taken without one."""
        if not opened.whole:
            if raw.strip(b"\r\n"):
                raise StorageError(
                    f"{opened.file}: line {opened.line - 1} was read without a line end, and "
                    f"has since become longer; {AGAIN}"
                )
            opened.whole = True
            opened.line -= 1
            return None
        line, too_long = opened.line, len(raw) > self.max_bytes and not raw.endswith(b"\n")
        first = opened.rows and not opened.header
        value = line_value(raw, 1 if first else line, too_long)
        if first:
            opened.header = value or b""
        if first or value is None:
            return None
        return Record(
            value,
            opened.file,
            line,
            self._index,
            opened.offset,
            "json",
            too_long,
            header=opened.header,
            is_row=opened.rows,
        )

    def _world(self, opened: LineReader) -> Iterator[Record | None]:
        value = b""
        for piece in opened.pieces():
            if piece is None:
                yield None
                opened.wait(WAIT_SECONDS)
            else:
                value += piece[: self.max_bytes + 1 - len(value)]
        opened.check_length()
        opened.line = 1
        too_long = len(value) > self.max_bytes
        value = value[: self.max_bytes].removeprefix(BYTE_ORDER_MARK)
        yield Record(value, opened.file, 1, self._index, opened.offset, "db", too_long)

    def _rows(self, opened: LineReader) -> Iterator[Record | None]:
        """Yield the rows of a file that cannot grow; all of its bytes count as read before the first."""
        yield from opened.skip(opened.size)
        for value in rows_of(opened.file, opened.line):
            opened.line += 1
            yield Record(
                value[: self.max_bytes],
                opened.file,
                opened.line,
                self._index,
                opened.offset,
                too_long=len(value) > self.max_bytes,
                is_row=True,
            )

    # resuming ------------------------------------------------------------------------------------

    def _resume(self, position: dict[str, Any] | None) -> Iterator[None]:
        """Compare the files with what was read of them, and open the last one at the position."""
        self._ended = {}
        self._noted, self._index, self._opened = 0, -1, None
        ended = (
            [] if self.ledger is None else self.ledger.first(position["file"] if position else 0)
        )
        if position is None:
            return
        *before, last = self._find([*(entry.path for entry in ended), position["path"]])
        for file, entry in zip(before, ended, strict=True):
            if file is None:
                self.say(f"{entry.path}: was read, and is no longer a file of the source")
            elif (size := size_of(file)) != entry.size:
                raise StorageError(
                    f"{entry.path}: was read to its end when it had {entry.size:,} bytes, and has "
                    f"{size:,} now; {AGAIN}"
                )
        if last is None:
            raise changed_since(position, "is no longer a file of the source")
        opened = self._open(last)
        try:
            yield from self._recognise(opened, position)
        except BaseException:
            opened.close()
            raise
        self._index, self._opened = len(ended), opened
        self._noted = self._index
        self.files = [
            *(file or entry.path for file, entry in zip(before, ended, strict=True)),
            last,
        ]
        self._look()

    def _recognise(self, opened: LineReader, position: dict[str, Any]) -> Iterator[None]:
        """Go to a position in a file. Raises StorageError if it is another, or was changed."""
        whole = position["lines"] > 0 and (is_world(opened.file) or is_row_file(opened.file))
        try:
            yield from opened.skip(position["bytes"])
            tail = opened.last.sha256
            grown = whole and any(opened.pieces(position["bytes"] + 1))
        except READ_ERRORS as error:
            raise unreadable(opened.file, 1, error) from error
        if opened.offset < position["bytes"]:
            raise changed_since(position, f"it has only {opened.offset:,} bytes now")
        if position["tail"] not in {None, tail}:
            raise changed_since(
                position, "the last of these bytes are different now: it was changed or replaced"
            )
        if grown:
            raise changed_since(position, "it has grown after it was read to its end")
        opened.line = position["lines"]
        begun = opened.rows and opened.line
        opened.header = header_of(opened.file, self.max_bytes) if begun else b""

    def _find(self, paths: Sequence[str]) -> list[str | None]:
        """Find files that were read before, by path, or by name if they were moved."""
        unmatched: dict[str, list[str | None]] = {}
        for file in self.files:
            unmatched.setdefault(path_of(file), []).append(file)
        files = [unmatched[path].pop(0) if unmatched.get(path) else None for path in paths]
        if files[-1] is None:
            named: dict[str, list[str | None]] = {}
            for other in chain.from_iterable(unmatched.values()):
                named.setdefault(Path(other or "").name, []).append(other)
            for place, path in enumerate(paths):
                if files[place] is None:
                    files[place] = (named.get(Path(path).name) or [None]).pop(0)
        return files


def changed_since(position: dict[str, Any], reason: str) -> StorageError:
    """Return the error for a file that is not as it was at a position."""
    return StorageError(
        f"{position['path']}, of which {position['bytes']:,} bytes ({position['lines']:,} lines) were "
        f"read: {reason}; {AGAIN}"
    )


def line_value(raw: bytes, line: int, too_long: bool) -> bytes | None:
    """Return the value of a line, or of the first part of one ``too_long``; None if it is blank."""
    value = raw[:-1] if too_long else raw.rstrip(b"\r\n")
    if line == 1:
        value = value.removeprefix(BYTE_ORDER_MARK)
    return None if not value or value.isspace() else value


def header_of(file: str, max_bytes: int) -> bytes:
    """Return the first row of a file; empty where it has none."""
    with LineReader(file, rows=True) as opened:
        header = None
        while header is None and not opened.ended:
            raw = opened.next_line(max_bytes + 1)
            header = None if raw is None else line_value(raw, 1, False)
        return header or b""


def is_world(file: str) -> bool:
    """Tell whether a file is a database, one world."""
    return file.removesuffix(".gz").endswith(".db")


def is_rows(file: str) -> bool:
    """Tell whether a file has rows of CSV."""
    return file.removesuffix(".gz").endswith(SUFFIXES)


def expand(path: Path | str, empty: bool) -> list[str]:
    """Return the files that a path stands for, sorted by name for a folder or pattern.

    Raises StorageError if there are none, unless they may be ``empty``.
    """
    text = str(path)
    if text == STANDARD_INPUT:
        return [STANDARD_INPUT]
    path = Path(path)
    if glob.has_magic(text) and not path.exists():
        matches = glob.glob(text, recursive=True)  # noqa: PTH207 - of absolute paths, too
        files = sorted(file for file in matches if not Path(file).is_dir())
        missing = "no file matches this pattern"
    else:
        with storage_errors(path, "read"):
            if not stat.S_ISDIR(path.stat().st_mode):
                return [text]
            files = sorted(str(f) for f in path.iterdir() if f.name.endswith(_FOLDER_KINDS))
        missing = f"no *{', *'.join(_FOLDER_KINDS)} file in this folder"
    if not files and not empty:
        raise StorageError(f"{path}: {missing}")
    return files


class FileSection(Brokers, SourceSection):
    """Files and standard input."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"path"}
    served: ClassVar[bool] = True
    links: ClassVar[bool] = True

    name = "file"
    path: Inputs
    """a file of examples, a folder, a pattern such as "day*.jsonl" or a list of them, read in this
    order; "-" (quoted): standard input."""
    encoding: Name = UTF_8
    """the encoding of rows of CSV, such as cp1252; lines of JSON are in UTF-8."""

    @field_validator("path")
    @classmethod
    def _alone(cls, path: tuple[Path, ...]) -> tuple[Path, ...]:
        if STDIN in path and len(path) > 1:
            raise ValueError("- (standard input) cannot be one of several")
        return path

    @field_validator("encoding")
    @classmethod
    def _has_ascii(cls, encoding: str) -> str:
        try:
            has_ascii = _ASCII.decode(encoding).encode() == _ASCII
        except (LookupError, UnicodeError):
            has_ascii = False
        if not has_ascii:
            raise ValueError("expected an encoding with ASCII in it, such as cp1252 or latin-1")
        return encoding

    @property
    def has_rows(self) -> bool:
        """Whether some files have rows and not lines."""
        return any(is_rows(path) or is_row_file(path) for path in map(str, self.path))

    def check(self, config: Sections) -> None:
        """Raise ValueError, with the key, where rows have no mapping."""
        super().check(config)
        if self.mapping is None and self.linked is None and self.has_rows:
            raise ValueError("source.mapping: missing; expected how a row becomes an example")
        if self.linked is not None:
            for path in map(str, self.path):
                if is_world(path) or Path(path).is_dir() or glob.has_magic(path):
                    raise ValueError(
                        f"source.path: rows that are linked are in files, and {path} is none"
                    )
        if self.encoding != UTF_8 and not any(is_rows(str(path)) for path in self.path):
            raise ValueError("source.encoding: of rows of CSV; leave it out where there are none")

    @property
    def rows_encoding(self) -> str:
        """See ``SourceSection.rows_encoding``."""
        return self.encoding

    def columns(self) -> Iterator[list[str]]:
        """See ``SourceSection.columns``."""
        for file in chain.from_iterable(expand(path, empty=True) for path in self.path):
            with suppress(ExampleError, StorageError, *READ_ERRORS):
                if is_row_file(file):
                    yield from ([*msgspec.json.decode(row)] for row in islice(rows_of(file, 0), 1))
                elif is_rows(file):
                    yield columns(header_of(file, self.max_bytes), self.encoding)

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        if self.linked is not None:
            return "distribute: rows are linked across shards; leave it out"
        if self.has_rows:
            return "distribute: files of rows cannot be cut into shards; leave it out"
        stdin = STDIN in self.path
        return "distribute: standard input cannot be cut; leave it out" if stdin else None

    def make(self, setting: SourceContext) -> Source:
        """Return the files' records."""
        live = setting.until == "forever"
        if self.linked is not None:
            sources = [
                FileSource([path], self.max_bytes, live, None, setting.say) for path in self.path
            ]
            return linked_source(self.linked, sources, self.encoding, setting.folder)
        return FileSource(
            self.path,
            self.max_bytes,
            live=live,
            ledger=setting.folder.files if setting.folder else None,
            say=setting.say,
        )
