"""Rows of constants that come and go, in the layout of ``join.Relations``, so that joins run over them.

The rows of a bucket lie together. Where one more has no room, all of them move to the end.
"""

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.logic.kernels.join import Relations, bucket_of, hashed


class IndexedRows(Frame):
    """Rows with their relations, the indexes on some of their columns, and the room of buckets."""

    relations: Relations
    relation: Ints32  # [row] -1 where there is no row
    key_start: Ints32  # [index + 1] into the next
    key_column: Ints32
    room: Ints32  # [bucket] for so many rows


@kernel
def _bucket(rows: IndexedRows, index: int, i: int) -> int:
    """Return the bucket of row i."""
    relations = rows.relations
    r = relations.index_relation[index]
    h = np.uint64(0)
    for k in range(rows.key_start[index], rows.key_start[index + 1]):
        cell = relations.offset[r] + rows.key_column[k] * relations.size[r] + i
        h = hashed(h, relations.data[cell])
    return int(relations.bucket_offset[index] + bucket_of(h, relations.mask[index]))


@kernel
def build(rows: IndexedRows, n: int) -> int:
    """Index the first n rows; return the end of the places of all buckets."""
    relations, indexes, end = rows.relations, len(rows.key_start) - 1, 0
    for b in range(len(rows.room)):
        rows.room[b] = 0
    for i in range(n):
        for index in range(indexes):
            if relations.index_relation[index] == rows.relation[i]:
                rows.room[_bucket(rows, index, i)] += 1
    for b in range(len(rows.room)):
        relations.bucket[b] = relations.stop[b] = end
        end += rows.room[b]
    for i in range(n):
        for index in range(indexes):
            if relations.index_relation[index] == rows.relation[i]:
                b = _bucket(rows, index, i)
                relations.row[relations.stop[b]] = i
                relations.stop[b] += 1
    return end


@kernel
def insert(rows: IndexedRows, numbers: Ints, end: int, most: int) -> int:
    """Index some rows; return the end of the places, -1 if they do not suffice, which are ``most``."""
    relations = rows.relations
    for i in numbers:
        for index in range(len(rows.key_start) - 1):
            if relations.index_relation[index] != rows.relation[i]:
                continue
            b = _bucket(rows, index, i)
            size = relations.stop[b] - relations.bucket[b]
            if size == rows.room[b]:
                room = max(2 * size, 2)
                if end + room > most:
                    return -1
                for k in range(size):
                    relations.row[end + k] = relations.row[relations.bucket[b] + k]
                relations.bucket[b], relations.stop[b], rows.room[b] = end, end + size, room
                end += room
            relations.row[relations.stop[b]] = i
            relations.stop[b] += 1
    return end


@kernel
def remove(rows: IndexedRows, numbers: Ints) -> None:
    """Take rows out of the indexes."""
    relations = rows.relations
    for i in numbers:
        for index in range(len(rows.key_start) - 1):
            if relations.index_relation[index] == rows.relation[i]:
                b = _bucket(rows, index, i)
                place = relations.bucket[b]
                while relations.row[place] != i:
                    place += 1
                relations.stop[b] -= 1
                relations.row[place] = relations.row[relations.stop[b]]


@kernel
def find(rows: IndexedRows, index: int, wanted: Ints32, numbers: Ints) -> None:
    """Find the rows with constants ``wanted`` [column, n] by an index on all columns; -1 for none."""
    relations = rows.relations
    r = relations.index_relation[index]
    for k in range(len(numbers)):
        h = np.uint64(0)
        for c in range(wanted.shape[0]):
            h = hashed(h, wanted[c, k])
        b = relations.bucket_offset[index] + bucket_of(h, relations.mask[index])
        numbers[k] = -1
        for place in range(relations.bucket[b], relations.stop[b]):
            i = relations.row[place]
            equal = True
            for c in range(wanted.shape[0]):
                if relations.data[relations.offset[r] + c * relations.size[r] + i] != wanted[c, k]:
                    equal = False
            if equal:
                numbers[k] = i
