"""Merging of clauses that are equal once their atoms are rewritten, by hashing."""

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

NONE = -1


class Distinct(Frame):
    """The distinct clauses, in order of first appearance, and the original clauses in terms of them.

    A literal is an atom, from 1, or its negative. The literals of a clause are sorted.
    """

    start: Ints  # [clause + 1]
    literal: Ints32
    row: Ints  # [original clause] its distinct clause, NONE: it is constant
    sign: Ints  # [original clause] -1: it is the negation of the distinct clause, up to a constant
    table: Ints32  # scratch, all NONE: a power of two, at least twice as many as clauses


def distinct(clauses: int, literals: int) -> Distinct:
    """Return memory for so many original clauses and literals."""
    return Distinct(
        np.zeros(clauses + 1, np.int64),
        np.zeros(literals, np.int32),
        np.full(clauses, NONE),
        np.ones(clauses, np.int64),
        np.full(1 << (2 * clauses + 1).bit_length(), NONE, np.int32),
    )


@kernel
def _insert(merged: Distinct, at: int, end: int, x: int) -> int:
    """Insert a literal into the sorted range ``at : end`` unless it is there; returns the new end."""
    q = end
    while q > at and merged.literal[q - 1] > x:
        q -= 1
    if q > at and merged.literal[q - 1] == x:
        return end
    for r in range(end, q, -1):
        merged.literal[r] = merged.literal[r - 1]
    merged.literal[q] = x
    return end + 1


@kernel
def _rewrite(start: Ints, literal: Ints32, name: Ints, c: int, merged: Distinct, at: int) -> int:
    """Write clause ``c`` over the names of its atoms to ``at``; returns its end, NONE: it is true."""
    first, last, end = start[c], start[c + 1], at
    for k in range(2 * (last - first)):  # negative ones from the last to the first, then the others
        negative = k < last - first
        x = literal[last - 1 - k if negative else 2 * first + k - last]
        x = name[x] if x > 0 else -name[-x]
        if x == len(name) - 1:
            return NONE
        if negative == (x < 0) and x != 1 - len(name):
            end = _insert(merged, at, end, x)
    i, j = at, end - 1
    while i < j and merged.literal[i] < 0 < merged.literal[j]:
        if merged.literal[i] == -merged.literal[j]:
            return NONE
        if -merged.literal[i] > merged.literal[j]:
            i += 1
        else:
            j -= 1
    return end


@kernel
def _cell(merged: Distinct, at: int, end: int) -> int:
    """Return the cell of the table that has the clause of the literals ``at : end``, or a free one for it."""
    code = 0
    for q in range(at, end):
        code = (code ^ merged.literal[q]) * 1_000_003
        code ^= code >> 29
    cell = code & (len(merged.table) - 1)
    while merged.table[cell] != NONE:
        first = merged.start[merged.table[cell]]
        equal = merged.start[merged.table[cell] + 1] - first == end - at
        for q in range(end - at if equal else 0):
            equal = equal and merged.literal[first + q] == merged.literal[at + q]
        if equal:
            break
        cell = (cell + 1) & (len(merged.table) - 1)
    return cell


@kernel
def distinguish(start: Ints, literal: Ints32, name: Ints, merged: Distinct) -> int:
    """Rewrite clauses and merge equal ones; returns the number of distinct clauses.

    ``name[atom]``, from 1, is the literal that stands for an atom; the last atom stands for true.
    ``!a`` becomes ``a`` with the sign -1.
    """
    rows = 0
    for c in range(len(start) - 1):
        at = merged.start[rows]
        end = _rewrite(start, literal, name, c, merged, at)
        if end <= at:  # NONE, or no literal
            continue
        if end == at + 1 and merged.literal[at] < 0:
            merged.literal[at], merged.sign[c] = -merged.literal[at], -1
        cell = _cell(merged, at, end)
        if merged.table[cell] == NONE:
            merged.table[cell] = rows
            rows += 1
            merged.start[rows] = end
        merged.row[c] = merged.table[cell]
    return rows
