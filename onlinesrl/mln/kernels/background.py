"""Facts that all worlds have: packed and indexed once, in numbers that no world changes.

A world numbers its constants as if it had copies of the facts: in order of first appearance, relation
by relation and argument by argument, facts before its own tuples. The constants of facts have shared
numbers in the order of their own first appearance. So a world's numbers are these, with its *own*
constants (those that its own tuples name first) put between them and the *early* ones (own ones that
facts name, too, but further on) taken out; both are few and sorted, and either number is found from
the other by them.
"""

from typing import Any

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.kernels.frames import Frame
from onlinesrl.core.kernels.jit import kernel, kernel_of


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
    """What worlds add to the types that facts have constants of."""

    count: Ints32  # [world, type] own constants
    number: Ints  # [member] their numbers in the world, ascending
    shared: Ints32  # [member] the shared number of an early one, else -1
    early_start: Ints  # [world, type] into the next two
    early_count: Ints32  # [world, type]
    early: Ints  # shared numbers of early constants, ascending
    early_number: Ints32  # their numbers in the world


@kernel
def _below(values: Ints, first: int, count: int, value: int) -> int:
    """Return how many of some ascending values are below another one."""
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
    """Return the n-th number, from 0, that is none of some ascending values."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[first + middle] - middle <= n:
            low = middle + 1
        else:
            high = middle
    return n + low


@kernel
def number_beside(own: Own, member_start: Ints, w: int, kind: int, shared: int) -> int:
    """Return a world's number of a shared constant, of a type that facts have constants of."""
    first, count = own.early_start[w, kind], own.early_count[w, kind]
    before = _below(own.early, first, count, shared)
    if before < count and own.early[first + before] == shared:
        return own.early_number[first + before]
    return _without(own.number, member_start[w, kind], own.count[w, kind], shared - before)


@kernel
def shared_beside(own: Own, member_start: Ints, w: int, kind: int, number: int) -> int:
    """Return the shared number of such a world's constant, -1 - its place among its own if it has none."""
    first, count = member_start[w, kind], own.count[w, kind]
    before = _below(own.number, first, count, number)
    if before < count and own.number[first + before] == number:
        shared = own.shared[first + before]
        return shared if shared >= 0 else -1 - before
    early = own.early_start[w, kind]
    return _without(own.early, early, own.early_count[w, kind], number - before)


@kernel_of("facts", -1)
def match_fact(
    facts: Facts,
    own: Own,
    member_start: Ints,
    w: int,
    slot: int,
    indexed: bool,
    cursor: int,
    stop: int,
    first_term: int,
    last_term: int,
    term: Ints32,
    binds: Bytes,
    variable: Ints,
) -> int:
    """Return the place behind the next fact that has a step's bound terms, and bind the others; or -1.

    Facts are those from ``cursor`` to ``stop`` of an index, or of the relation.
    """
    for i in range(cursor, stop):
        row = facts.row[i] if indexed else i
        at = facts.start[slot] + row * (last_term - first_term) - first_term
        fits, p = True, first_term
        while fits and p < last_term:
            value = facts.data[at + p]
            kind = facts.column_type[facts.column_start[slot] + p - first_term]
            if kind >= 0:
                value = number_beside(own, member_start, w, kind, value)
            if binds[p]:
                variable[term[p]] = value
            else:
                fits = value == (variable[term[p]] if term[p] >= 0 else -1 - term[p])
            p += 1
        if fits:
            return i + 1
    return -1


@kernel
def _compare(
    facts: Facts,
    own: Own,
    member_start: Ints,
    w: int,
    slot: int,
    row: int,
    data: Ints32,
    at: int,
    arity: int,
) -> int:
    """Compare a fact with a world's tuple of shared constants: below 0, 0 or above."""
    fact = facts.start[slot] + row * arity
    for k in range(arity):
        kind, value = facts.column_type[facts.column_start[slot] + k], data[at + k]
        if kind >= 0:
            value = shared_beside(own, member_start, w, kind, value)
        if facts.data[fact + k] != value:
            return -1 if facts.data[fact + k] < value else 1
    return 0


@kernel_of("facts", 0)
def without_facts(
    facts: Facts,
    own: Own,
    member_start: Ints,
    w: int,
    slot: int,
    data: Ints32,
    start: int,
    count: int,
    arity: int,
) -> int:
    """Drop the tuples of a relation that facts have, too; returns how many stay."""
    kept = 0
    for i in range(count):
        at = start + i * arity
        low, high = 0, facts.count[slot]
        while low < high:
            middle = (low + high) // 2
            row = facts.order[facts.order_start[slot] + middle]
            if _compare(facts, own, member_start, w, slot, row, data, at, arity) < 0:
                low = middle + 1
            else:
                high = middle
        found = False
        if low < facts.count[slot]:
            row = facts.order[facts.order_start[slot] + low]
            found = _compare(facts, own, member_start, w, slot, row, data, at, arity) == 0
        if not found:
            for k in range(arity):
                data[start + kept * arity + k] = data[at + k]
            kept += 1
    return kept
