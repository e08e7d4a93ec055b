"""Rows of constants that come and go, of several relations, found by the constants of some columns."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.logic.compiled_joins import spellings
from onlinesrl.logic.kernels import indexed_rows as kernel
from onlinesrl.logic.kernels.join import Relations

LOAD = 4
"""A relation that has so many times the rows of its indexes' making is indexed anew."""
_NO_INTS32: Ints32 = np.empty(0, np.int32)


class IndexedRows:
    """Rows of whole numbers, int32, of relations with so many columns each (``widths``).

    Rows are numbered; the number of a row that went is given out again after ``release``. ``indexes`` are
    pairs of a relation and some of its columns; before them, each relation has an index on all columns.
    Behind the indexes there is one more, ``scratch``, for a list of rows, or of keys in a relation of their
    own, of ``key_width`` columns (``list_keys``).
    """

    def __init__(
        self,
        widths: Sequence[int],
        indexes: Sequence[tuple[int, tuple[int, ...]]] = (),
        key_width: int = 0,
    ) -> None:
        self.relation = np.empty(0, np.int32)
        self.value: Floats = np.empty(0)
        self.variable: Ints32 = _NO_INTS32
        self._cell = np.empty((0, 0), np.int32)
        self._size = np.zeros(0, np.int64)
        """Of relations, and of the keys."""
        self._free, self._gone = list[int](), list[int]()
        self._end = self._places = 0
        self._spellings = spellings(())
        self._set_relations(widths, indexes, key_width)
        self._grow(8, 8)

    def _set_relations(
        self, widths: Sequence[int], indexes: Sequence[tuple[int, tuple[int, ...]]], key_width: int
    ) -> None:
        self.widths = [*widths]
        keys = [*((r, tuple(range(width))) for r, width in enumerate(widths)), *indexes]
        self.scratch = len(keys)
        self._index_relation = np.array([*(r for r, _ in keys), 0], np.int64)
        self._key_start = np.cumsum([0, *(len(columns) for _, columns in keys)], dtype=np.int32)
        self._key_column = np.array([c for _, columns in keys for c in columns], np.int32)
        self._width = max(widths, default=0)
        self._list_width = key_width + 1
        self._size = np.append(self._size, np.zeros(len(widths) + 1 - len(self._size), np.int64))

    def under(
        self,
        widths: Sequence[int],
        indexes: Sequence[tuple[int, tuple[int, ...]]] = (),
        key_width: int = 0,
    ) -> Self:
        """Return a copy with more relations and other indexes; relations without rows may change."""
        other = copy(self)
        other._free, other._gone = [*self._free], [*self._gone]
        other._set_relations(widths, indexes, key_width)
        other._grow(self.room, self._list_room)
        return other

    def __len__(self) -> int:
        return int(self._size.sum())

    @property
    def room(self) -> int:
        """Numbers of rows are below it."""
        return len(self.relation)

    @property
    def relations(self) -> Relations:
        """The rows and indexes, for the kernels."""
        return self._frame.relations

    def size(self, relation: int) -> int:
        """Return the number of a relation's rows."""
        return int(self._size[relation])

    def numbers(self, relation: int) -> Ints:
        """Return the numbers of a relation's rows, ascending."""
        return np.flatnonzero(self.relation == relation)

    def cells(self, numbers: Ints) -> Ints32:
        """Return rows [column, row]; columns that a relation does not have are undefined."""
        cells: Ints32 = self._cell[:, numbers]
        return cells

    def find(self, relation: int, rows: Ints32) -> Ints:
        """Return the numbers of a relation's rows [column, row], -1 for those that are not there."""
        numbers = np.empty(rows.shape[1], np.int64)
        kernel.find(self._frame, relation, np.ascontiguousarray(rows), numbers)
        return numbers

    def add(self, relation: Ints, rows: Ints32) -> Ints:
        """Add rows [column, row] that are not there; return their numbers."""
        n = len(relation)
        again = min(n, len(self._free))
        numbers = np.concatenate(
            (
                np.array(self._free[len(self._free) - again :], np.int64),
                np.arange(self._end, self._end + n - again),
            )
        )
        del self._free[len(self._free) - again :]
        self._end += n - again
        if self._end > self.room:
            self._grow(2 * self._end, self._list_room)
        self._cell[: len(rows), numbers] = rows
        self._insert(numbers, relation)
        return numbers

    def widened(self, rows: Ints32) -> Ints32:
        """Return rows with as many columns as those of the widest relation."""
        wide = np.zeros((self._width, rows.shape[1]), np.int32)
        wide[: len(rows)] = rows
        return wide

    def restore(self, numbers: Ints, relation: Ints) -> None:
        """Put rows back that were removed after the last ``release``."""
        back = {*numbers.tolist()}
        self._gone = [number for number in self._gone if number not in back]
        self._insert(numbers, relation)

    def _insert(self, numbers: Ints, relation: Ints) -> None:
        self.relation[numbers] = relation
        self._size += np.bincount(relation, minlength=len(self._size))
        if not np.any(self._size > self._most):
            self._places = kernel.insert(self._frame, numbers, self._places, self._most_places)
            if self._places >= 0:
                return
        self._grow(self.room, self._list_room)

    def remove(self, numbers: Ints) -> None:
        """Remove rows; their numbers are free after ``release``."""
        kernel.remove(self._frame, numbers)
        self._size -= np.bincount(self.relation[numbers], minlength=len(self._size))
        self.relation[numbers] = -1
        self._gone += numbers.tolist()

    def release(self) -> list[int]:
        """Free the numbers of rows that were removed; return them."""
        gone, self._gone = self._gone, []
        self._free += gone
        return gone

    def list_rows(self, relation: int, numbers: Ints) -> None:
        """Put rows into the index ``scratch``."""
        n = len(numbers)
        if n > self._list_room:
            self._grow(self.room, 2 * n)
        self._row[self._most_places : self._most_places + n] = numbers
        self._index_relation[-1] = relation
        self._stop[-1] = n

    def list_keys(self, keys: Ints32) -> None:
        """Put the rows of keys [column, n], behind a column of their numbers, into ``scratch``."""
        n = keys.shape[1]
        self.list_rows(len(self.widths), np.arange(n))
        cells = self._data[self._cell.size :].reshape(self._list_width, self._list_room)
        cells[0, :n] = np.arange(n)
        cells[1 : 1 + len(keys), :n] = keys

    def spell(self, letters: tuple[Bytes, Ints, Ints, Ints]) -> None:
        """Set the letters and numbers of constants, which joins compare, see ``spellings``."""
        self._spellings = letters
        self._frame = self._framed()

    def _grow(self, room: int, list_room: int) -> None:
        """Make room for rows and the list, and index all rows."""
        old, n, self._list_room = self._cell, self.room, list_room
        self._data = np.empty(self._width * room + self._list_width * list_room, np.int32)
        self._cell = self._data[: self._width * room].reshape(self._width, room)
        self._cell[: len(old), :n] = old[: self._width]
        relation = np.full(room, -1, np.int32)
        relation[:n] = self.relation
        self.relation = relation
        counts = self._size[self._index_relation[:-1]]
        self._mask = np.ones(len(counts) + 1, np.int64)
        self._mask[:-1] = 2 << np.ceil(np.log2(np.maximum(counts, 2))).astype(np.int64)
        single = np.diff(self._key_start) == 0
        self._mask[:-1][single] = self._mask[-1] = 1
        self._mask -= 1
        self._most = LOAD * np.maximum(self._size, 4)
        buckets = self._mask + 1
        self._bucket_offset = np.cumsum(buckets) - buckets
        self._bucket, self._stop = np.zeros((2, int(buckets.sum())), np.int32)
        self._rooms = np.zeros(len(self._bucket) - 1, np.int32)
        self._most_places = 2 * int(counts.sum()) + 2 * len(self._bucket)
        self._row = np.empty(self._most_places + list_room, np.int32)
        self._extend(room)
        self._frame = self._framed()
        self._places = kernel.build(self._frame, self._end)

    def _extend(self, room: int) -> None:
        """Make room in what else there is of each row."""

    def _framed(self) -> kernel.IndexedRows:
        relations = len(self.widths) + 1
        offset, size = np.zeros(relations, np.int64), np.full(relations, self.room)
        offset[-1], size[-1] = self._cell.size, self._list_room
        first = np.zeros(len(self._index_relation), np.int64)
        first[-1] = self._most_places
        frame = Relations(
            self._data,
            offset,
            size,
            np.zeros(relations, np.int64),
            self.value,
            self.variable,
            self._index_relation,
            self._bucket_offset,
            self._mask,
            first,
            self._bucket,
            self._stop,
            self._row,
            *self._spellings,
        )
        return kernel.IndexedRows(
            frame, self.relation, self._key_start, self._key_column, self._rooms
        )


def distinct(rows: Ints32) -> Ints32:
    """Return the distinct columns of an array, sorted."""
    if not len(rows):
        return rows[:, :1]
    order = np.lexsort(rows[::-1])
    ordered = rows[:, order]
    new = np.ones(len(order), np.bool_)
    new[1:] = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    return ordered[:, new]
