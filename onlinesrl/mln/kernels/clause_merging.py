"""Clauses that are equal once their atoms are rewritten, found by hashing: what simplification merges."""

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

NONE = -1


class Distinct(Frame):
    """The clauses that differ, in the order in which they first appear, and what each of all became.

    A literal is an atom, from 1, or its negative; those of a clause are sorted.
    """

    start: Ints  # [clause + 1]
    literal: Ints32
    row: Ints  # [clause of all] which of these it is, NONE: it is constant
    sign: Ints  # [clause of all] -1: it is that one's negation, up to a constant
    table: Ints32  # scratch, all NONE: a power of two, at least twice as many as clauses


def distinct(clauses: int, literals: int) -> Distinct:
    """Return room for so many clauses and literals in all."""
    return Distinct(
        np.zeros(clauses + 1, np.int64),
        np.zeros(literals, np.int32),
        np.full(clauses, NONE),
        np.ones(clauses, np.int64),
        np.full(1 << (2 * clauses + 1).bit_length(), NONE, np.int32),
    )


@kernel
def _insert(rows: Distinct, at: int, end: int, x: int) -> int:
    """Put a literal into the sorted ones ``at : end`` unless it is there; returns their end."""
    q = end
    while q > at and rows.literal[q - 1] > x:
        q -= 1
    if q > at and rows.literal[q - 1] == x:
        return end
    for r in range(end, q, -1):
        rows.literal[r] = rows.literal[r - 1]
    rows.literal[q] = x
    return end + 1


@kernel
def _rewrite(start: Ints, literal: Ints32, name: Ints, c: int, rows: Distinct, at: int) -> int:
    """Write clause ``c`` over the names of its atoms to ``at``; returns its end, NONE: it is true."""
    first, last, end = start[c], start[c + 1], at
    for k in range(2 * (last - first)):  # negative ones from the last to the first, then the others
        negative = k < last - first
        x = literal[last - 1 - k if negative else 2 * first + k - last]
        x = name[x] if x > 0 else -name[-x]
        if x == len(name) - 1:
            return NONE
        if negative == (x < 0) and x != 1 - len(name):
            end = _insert(rows, at, end, x)
    i, j = at, end - 1
    while i < j and rows.literal[i] < 0 < rows.literal[j]:
        if rows.literal[i] == -rows.literal[j]:
            return NONE
        if -rows.literal[i] > rows.literal[j]:
            i += 1
        else:
            j -= 1
    return end


@kernel
def _cell(rows: Distinct, at: int, end: int) -> int:
    """Return the cell of the table that has the clause of the literals ``at : end``, or that is its."""
    code = 0
    for q in range(at, end):
        code = (code ^ rows.literal[q]) * 1_000_003
        code ^= code >> 29
    cell = code & (len(rows.table) - 1)
    while rows.table[cell] != NONE:
        first = rows.start[rows.table[cell]]
        same = rows.start[rows.table[cell] + 1] - first == end - at
        for q in range(end - at if same else 0):
            same = same and rows.literal[first + q] == rows.literal[at + q]
        if same:
            break
        cell = (cell + 1) & (len(rows.table) - 1)
    return cell


@kernel
def distinguish(start: Ints, literal: Ints32, name: Ints, distinct: Distinct) -> int:
    """Rewrite clauses and merge the equal ones; returns how many are left.

    ``name[atom]``, from 1, is the literal that stands for an atom; the last one is its own and is true.
    ``!a`` becomes ``a`` with the sign -1.
    """
    rows = 0
    for c in range(len(start) - 1):
        at = distinct.start[rows]
        end = _rewrite(start, literal, name, c, distinct, at)
        if end <= at:  # NONE, or no literal
            continue
        if end == at + 1 and distinct.literal[at] < 0:
            distinct.literal[at], distinct.sign[c] = -distinct.literal[at], -1
        cell = _cell(distinct, at, end)
        if distinct.table[cell] == NONE:
            distinct.table[cell] = rows
            rows += 1
            distinct.start[rows] = end
        distinct.row[c] = distinct.table[cell]
    return rows
