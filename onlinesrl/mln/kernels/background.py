"""The facts of all worlds, packed and indexed once, in numbers that no world changes.

A world numbers its constants as if it had copies of the facts. The order is that of first appearance,
relation by relation and argument by argument, facts before the world's tuples. The constants of facts have
shared numbers in the order of their own first appearance.

So a world's numbers are the shared ones with two changes. *Own* constants, which the world's tuples name
first, are inserted. *Early* ones, own constants that facts name in a later column, are removed. Both lists
are short and sorted, so each number follows from the other by binary search.
"""

from typing import Any

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame


class Facts(Frame):
    """Relations of shared numbers, row after row, and the constants that they bring."""

    data: Ints32
    start: Ints  # [slot] into data
    count: Ints  # [slot]
    order_start: Ints  # [slot] into order
    order: Ints32  # the rows of a slot, sorted
    column_start: Ints32  # [slot]
    column_type: Ints32  # [column] -1: a number here is the same in every world
    index_start: Ints  # [index] into cell, for the constants of the index's type and one more
    cell: Ints32  # into row
    row: Ints32  # the rows of each index's slot by constant
    constants: Ints32  # [type] how many shared constants are those of facts; they come last

    @classmethod
    def _without(cls, values: dict[str, Any]) -> tuple[str, ...]:
        return () if len(values["data"]) or values["count"].any() else ("facts",)


class Own(Frame):
    """The worlds' own constants, of the types that occur in facts."""

    count: Ints32  # [world, type] own constants
    number: Ints  # [member] their numbers in the world, ascending
    shared: Ints32  # [member] the shared number of an early one, else -1
    early_start: Ints  # [world, type] into the next two
    early_count: Ints32  # [world, type]
    early: Ints  # shared numbers of early constants, ascending
    early_number: Ints32  # their numbers in the world


@kernel
def count_below(values: Ints, first: int, count: int, value: int) -> int:
    """Return how many of some ascending values are below ``value``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[first + middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _without(values: Ints, first: int, count: int, n: int) -> int:
    """Return the n-th number, from 0, that is not among some ascending values."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[first + middle] - middle <= n:
            low = middle + 1
        else:
            high = middle
    return n + low


@kernel
def number_beside(columns: Own, member_start: Ints, w: int, kind: int, shared: int) -> int:
    """Return a world's number of a shared constant, of a type that facts have constants of."""
    first, count = columns.early_start[w, kind], columns.early_count[w, kind]
    before = count_below(columns.early, first, count, shared)
    if before < count and columns.early[first + before] == shared:
        return columns.early_number[first + before]
    return _without(columns.number, member_start[w, kind], columns.count[w, kind], shared - before)


@kernel
def shared_beside(columns: Own, member_start: Ints, w: int, kind: int, number: int) -> int:
    """Return the shared number of a world's constant; without one, -1 - its place among the own ones."""
    first, count = member_start[w, kind], columns.count[w, kind]
    before = count_below(columns.number, first, count, number)
    if before < count and columns.number[first + before] == number:
        shared = columns.shared[first + before]
        return shared if shared >= 0 else -1 - before
    early = columns.early_start[w, kind]
    return _without(columns.early, early, columns.early_count[w, kind], number - before)
