"""Sources cut into shards; files: every shard has a share of the bytes, cut where lines start.

A source is cut into several times as many pieces as there are shards, and these are dealt in turn, so that
all shards go through it together: learning does not meet what is late in a stream before what is early.
The cut depends on the files alone. A file that cannot be cut, compressed or a world, belongs whole to the
piece in whose share of the bytes it begins.
"""

from __future__ import annotations

import gzip
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar

from onlinesrl.core.errors import StorageError
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.io.restoring import Natural
from onlinesrl.core.parallel.executors import Pool
from onlinesrl.stream.records import Record
from onlinesrl.stream.source import IteratedSource, Source, SourcePosition
from onlinesrl.stream.sources.files import AGAIN, BYTE_ORDER_MARK, expand, is_world, line_value
from onlinesrl.stream.sources.line_reader import READ_ERRORS, changed, size_of, tail_of, unreadable

BLOCK = 1 << 20
DEALT = 16
"""How many pieces each shard has, or more where files end."""
START: SourcePosition = {"piece": 0, "offset": None, "line": 0}
"""The position of a shard before its first piece; later the offset in a piece, and the lines before it."""
P = TypeVar("P")
N = TypeVar("N")
Stamp: TypeAlias = list[list[Any]]
"""What pieces are known by, as JSON can hold it; the first of each is its shard."""


class At(TypedDict, Generic[N]):
    """The position of a shard."""

    piece: Natural
    offset: N | None
    line: Natural


class CutPosition(TypedDict, Generic[P, N]):
    """The rounds so far, gamma of the last merge, the pieces' stamp, and where each shard is."""

    rounds: Natural
    share: float | None
    pieces: list[P]
    shards: list[At[N] | None]


class Cut(Source):
    """A source cut into shards, as the run sees it; the records are read where they are learned from."""

    pieces: Sequence[Any]
    """All pieces, in the order of the source; each has a ``shard``, its number."""

    def next_batch(self, room: int) -> Sequence[Record] | None:
        """Return None: rounds are learned elsewhere."""
        return None

    def snapshot(self) -> None:
        """Return None: rounds note where each shard is."""

    def begin(self, known_stamp: Stamp | None, pool: Pool) -> Stamp:
        """Set the pieces; ``known_stamp`` is their stamp where the run has begun.

        Raises StorageError, DataError where they have changed since then.
        """
        raise NotImplementedError


class Pieces(IteratedSource):
    """The records of a shard's pieces, in order, where they are learned from."""

    def __init__(self, pieces: Sequence[Any], max_bytes: int) -> None:
        self.pieces = pieces
        self.max_bytes = max_bytes

    def read(self, position: Any = None) -> Iterator[Record]:
        """Yield the records after a position."""
        at = position or START
        for number, piece in enumerate(self.pieces[at["piece"] :], at["piece"]):
            start = at if number == at["piece"] else START
            yield from self.records(number, piece, start["offset"], start["line"])

    def records(self, number: int, piece: Any, offset: Any, line: int) -> Iterator[Record]:
        """Yield the records of a piece after an offset, None: all; their ``index`` is its number."""
        raise NotImplementedError

    def after(self, records: Sequence[Record]) -> SourcePosition:
        """See ``IteratedSource.after``."""
        last = records[-1]
        return {"piece": last.index, "offset": last.offset, "line": last.line}


# files -------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """The bytes of a file from ``start`` to ``stop``; ``stop`` None: all of a file that cannot be cut."""

    shard: int
    number: int  # of the file
    file: str  # as it was given
    path: str  # absolute
    start: int
    stop: int | None
    lines: int = 0  # of the file before it


class Shards(Cut):
    """The shards of some files.

    Raises StorageError for paths that do not exist or have no examples.
    """

    Position = CutPosition[tuple[int, str, int, Natural, str], Natural] | None

    def __init__(self, paths: Sequence[Path], max_bytes: int, count: int) -> None:
        self.files = [file for path in paths for file in expand(path, empty=False)]
        self.max_bytes = max_bytes
        self.pieces: list[Piece] = cut(self.files, count)

    def begin(self, known_stamp: Stamp | None, pool: Pool) -> Stamp:
        """Count the lines of the files once, and compare their last bytes. Raises StorageError."""
        lines = (
            list(pool.map(count_lines, None, self.pieces))
            if known_stamp is None
            else [*(entry[3] for entry in known_stamp), *[0] * len(self.pieces)]
        )
        # as JSON can hold it; files may be moved, not changed
        stamp: Stamp = [
            [
                piece.shard,
                Path(piece.file).name,
                piece.start,
                count,
                tail_of(piece.path, end_of(piece)),
            ]
            for piece, count in zip(self.pieces, lines, strict=False)
        ]
        if known_stamp is not None:
            check_same(known_stamp, stamp)
        self.number(lines)
        return stamp

    def number(self, lines: Sequence[int]) -> None:
        """Set which line each piece begins with; the numbers of lines of all are given in order."""
        before = dict[int, int]()
        for n, (piece, count) in enumerate(zip(self.pieces, lines, strict=False)):
            self.pieces[n] = piece._replace(lines=before.get(piece.number, 0))
            before[piece.number] = before.get(piece.number, 0) + count


def check_same(before: Stamp, after: Stamp) -> None:
    """Raise StorageError where pieces are no longer those of this ``stamp``."""
    for was, is_ in zip_longest(before, after):
        if was != is_:
            name = (was or is_)[1]
            raise StorageError(f"{name}: its bytes have changed since the run began; {AGAIN}")


def cut(files: Sequence[str], count: int) -> list[Piece]:
    """Cut files into so many shards, each in the order of the files; shards may be empty."""
    sizes, pieces = [size_of(file) for file in files], count * DEALT
    ends = [sum(sizes) * n // pieces for n in range(1, pieces)]
    all_pieces, first = list[Piece](), 0
    for index, (file, size) in enumerate(zip(files, sizes, strict=True)):
        path = str(Path(file).absolute())
        place = bisect_right(ends, first)
        if not is_world(file) and not file.endswith(".gz"):
            inside = [end - first for end in ends if first < end < first + size]
            starts = [0, *(_line_start(path, at) for at in inside), size]
            all_pieces += [
                Piece((place + n) % count, index, file, path, start, stop)
                for n, (start, stop) in enumerate(pairwise(starts))
                if start < stop
            ]
        else:
            all_pieces.append(Piece(place % count, index, file, path, 0, None))
        first += size
    return all_pieces


def _line_start(path: str, at: int) -> int:
    """Return where the first line starts at or after a byte."""
    with storage_errors(path, "read"), Path(path).open("rb") as stream:
        stream.seek(at - 1)
        while (part := stream.readline(BLOCK)) and not part.endswith(b"\n"):
            pass
        return stream.tell()


def end_of(piece: Piece) -> int:
    """Return the byte that a piece ends before. Raises StorageError."""
    return size_of(piece.path) if piece.stop is None else piece.stop


def count_lines(common: None, piece: Piece) -> int:
    """Count the lines of a piece; a part of ``Pool.map``. Raises StorageError."""
    lines = 0
    with storage_errors(piece.path, "read"), Path(piece.path).open("rb") as stream:
        stream.seek(piece.start)
        bytes_left = end_of(piece) - piece.start
        while bytes_left and (block := stream.read(min(BLOCK, bytes_left))):
            lines += block.count(b"\n")
            bytes_left -= len(block)
    return lines


class FilePieces(Pieces):
    """Pieces of files. Raises StorageError where one cannot be read."""

    def records(self, number: int, piece: Piece, offset: int | None, line: int) -> Iterator[Record]:
        """See ``Pieces.records``."""
        if offset is None:
            offset, line = piece.start, piece.lines
        try:
            opener: Any = gzip.open if piece.file.endswith(".gz") else open
            with storage_errors(piece.path, "read"), opener(piece.path, "rb") as stream:
                stream.seek(offset)
                yield from self._records(stream, number, piece, line)
        except READ_ERRORS as error:
            raise unreadable(piece.path, line + 1, error) from error

    def _records(self, stream: BinaryIO, number: int, piece: Piece, line: int) -> Iterator[Record]:
        if is_world(piece.file):
            if line == piece.lines:
                yield self._world(stream, number, piece)
            return
        offset = stream.tell()
        while (piece.stop is None or offset < piece.stop) and (
            raw := stream.readline(self.max_bytes + 1)
        ):
            line += 1
            too_long = len(raw) > self.max_bytes and not raw.endswith(b"\n")
            end = raw
            while end and not end.endswith(b"\n"):
                end = stream.readline(BLOCK)
            offset = stream.tell()
            value = line_value(raw, line, too_long)
            if value is not None:
                yield Record(value, piece.file, line, number, offset, "json", too_long)
        if piece.stop is not None and offset < piece.stop:
            raise changed(piece.file, line)

    def _world(self, stream: BinaryIO, number: int, piece: Piece) -> Record:
        value = stream.read(self.max_bytes + 1)
        too_long = len(value) > self.max_bytes
        value = value[: self.max_bytes].removeprefix(BYTE_ORDER_MARK)
        return Record(value, piece.file, 1, number, stream.tell(), "db", too_long)
