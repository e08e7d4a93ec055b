"""Rows of a sorted column that have the same text."""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel


@kernel
def _same(byte: Bytes, start: Ints32, row: int) -> bool:
    """Tell whether a row has the text of the row before it."""
    size = start[row + 1] - start[row]
    if start[row] - start[row - 1] != size:
        return False
    for k in range(size):
        if byte[start[row] + k] != byte[start[row - 1] + k]:
            return False
    return True


@kernel
def first_rows(byte: Bytes, start: Ints32, first: Ints) -> int:
    """Write to ``first`` the rows, from 0, that have another text than the row before; return how many.

    Row i has the text from ``start[i]`` to ``start[i + 1]``.
    """
    n = 0
    for row in range(len(start) - 1):
        if row == 0 or not _same(byte, start, row):
            first[n] = row
            n += 1
    return n
