"""Rows of hinge-loss models on disk, in pages of fixed size, of which few are in memory."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.arrays import Bytes, Floats
from onlinesrl.core.errors import StorageError, UsageError
from onlinesrl.core.operating_system import read_at, write_at
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.dual import check_constants, check_weights

_HEAD = 2 * 8  # numbers of rows and of entries
_ROW, _ENTRY, _END = 4 * 8 + 4 + 2, 8 + 4, 4
_OF_ROWS = "constant", "weight_index", "power", "kind"


class Page(NamedTuple):
    """Some rows, in ``memory`` until it is needed for another page.

    ``dual`` and ``mark``, an earlier one, are float64[rows], for the engine's own use.
    """

    rows: HingeLossMRF
    dual: Floats
    mark: Floats
    memory: Bytes


class Pages:
    """An anonymous file of pages, of rows over so many variables, in a folder; closing it deletes it.

    A page of ``n_bytes`` has the counts of its rows and entries, then their arrays: 38 bytes for each
    row and 12 for each of its variables. The last ``in_memory`` pages that were filled or read are in
    memory. Use as a context manager. All methods raise StorageError.
    """

    def __init__(self, folder: Path, n_variables: int, n_bytes: int, in_memory: int = 1) -> None:
        self.n_variables, self.n_bytes, self.in_memory = n_variables, n_bytes, in_memory
        self._folder = folder
        self._memory = deque(np.zeros(n_bytes, np.uint8) for _ in range(in_memory))
        self._count = 0
        self._used = 0
        with self._stored():
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._count

    @property
    def bytes_on_disk(self) -> int:
        """The size of the file."""
        return max(self._count - 1, 0) * self.n_bytes + self._used

    def fill(self, chunks: Iterable[HingeLossMRF], weights: Floats) -> Iterator[Page]:
        """Write the rows of chunks in their order; every page is yielded when it is full.

        The chunks have their variables in common. Raises ValueError as ``check_weights``, Infeasible as
        ``check_constants``, UsageError for a row that is larger than a page.
        """
        pieces: list[_Piece] = []
        free = self._room
        for chunk in chunks:
            check_constants(chunk)
            check_weights(chunk, weights)
            size = _ROW * np.arange(chunk.n_rows + 1) + _ENTRY * chunk.start
            first = 0
            while first < chunk.n_rows:
                last = int(np.searchsorted(size, size[first] + free, "right")) - 1
                if last > first:
                    pieces.append(_Piece(chunk, first, last))
                    free -= int(size[last] - size[first])
                    first = last
                elif pieces:
                    yield self._append(pieces)
                    pieces, free = [], self._room
                else:
                    variables = int(np.diff(chunk.start)[first])
                    most = max((self._room - _ROW) // _ENTRY, 0)
                    raise UsageError(
                        f"a ground row has {variables} variables, and a page of {self.n_bytes} bytes holds at"
                        f" most {most}: use another method"
                    )
        if pieces:
            yield self._append(pieces)

    def read(self, index: int) -> Page:
        """Return a page."""
        last = index == self._count - 1
        size = self._used if last else self.n_bytes
        memory = self._oldest()
        with self._stored():
            view, read = memory.data[:size], 0
            while read < size:
                n = read_at(self._file.fileno(), view[read:], index * self.n_bytes + read)
                if not n:
                    raise StorageError(f"a page of ground rows in {self._folder} ends early")
                read += n
        return self._page(memory)

    def keep(self, index: int, page: Page, *, with_mark: bool) -> None:
        """Write the dual, and perhaps the mark, of page ``index``."""
        self._write(index, page.memory, _HEAD + 8 * len(page.dual) * (1 + with_mark))

    @property
    def most_rows(self) -> int:
        """The most rows that a page can have."""
        return max(self._room, 0) // _ROW

    @property
    def _room(self) -> int:
        return self.n_bytes - _HEAD - _END

    def _oldest(self) -> Bytes:
        """Return the memory of the page that was read or filled first of those in memory."""
        self._memory.rotate()
        return self._memory[0]

    def _page(self, memory: Bytes) -> Page:
        """Return the page that some memory holds."""
        rows, entries = map(int, memory[:_HEAD].view(np.int64))
        at = _HEAD

        def array(kind: type[np.generic], n: int) -> NDArray[Any]:
            nonlocal at
            size = n * np.dtype(kind).itemsize
            at += size
            return memory[at - size : at].view(kind)

        dual, mark, constant = (array(np.float64, rows) for _ in range(3))
        index, coefficient = array(np.int64, rows), array(np.float64, entries)
        start, variable = array(np.int32, rows + 1), array(np.int32, entries)
        power, kind = array(np.uint8, rows), array(np.uint8, rows)
        forms = start, variable, coefficient, constant
        model = HingeLossMRF(self.n_variables, *forms, index, power, kind)
        return Page(model, dual, mark, memory)

    def _append(self, pieces: list[_Piece]) -> Page:
        """Write a page of these rows, and return it."""
        starts = [chunk.start[first : last + 1] for chunk, first, last in pieces]
        lengths = np.concatenate([np.diff(start) for start in starts])
        memory = self._oldest()
        memory[:_HEAD].view(np.int64)[:] = len(lengths), lengths.sum()
        page = self._page(memory)
        page.dual[:] = page.mark[:] = 0.0
        page.rows.start[0] = 0
        np.cumsum(lengths, out=page.rows.start[1:])
        row = entry = 0
        for chunk, first, last in pieces:
            low, high = int(chunk.start[first]), int(chunk.start[last])
            for name in ("variable", "coefficient"):
                column = getattr(chunk, name)[low:high]
                getattr(page.rows, name)[entry : entry + high - low] = column
            for name in _OF_ROWS:
                column = getattr(chunk, name)[first:last]
                getattr(page.rows, name)[row : row + last - first] = column
            row, entry = row + last - first, entry + high - low
        self._used = _HEAD + _END + _ROW * row + _ENTRY * entry
        self._count += 1
        self._write(self._count - 1, memory, self._used)
        return page

    def _write(self, index: int, memory: Bytes, size: int) -> None:
        with self._stored():
            view, at = memory.data[:size], index * self.n_bytes
            while view:
                written = write_at(self._file.fileno(), view, at)
                view, at = view[written:], at + written

    @contextmanager
    def _stored(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the pages of ground rows in {self._folder}: {error.strerror}"
            ) from error


class _Piece(NamedTuple):
    """Rows ``first .. last - 1`` of a chunk."""

    chunk: HingeLossMRF
    first: int
    last: int
