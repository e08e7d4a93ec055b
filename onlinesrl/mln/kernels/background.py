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
from onlinesrl.mln.kernels.network import sort


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
def localise_beside(
    own: Own,
    data: Ints32,
    start: Ints,
    count: Ints,
    labelled: Bytes,
    domain: Ints32,
    member_start: Ints,
    member: Ints32,
    stream: Ints32,
    kind: int,
    at: int,
    early_at: int,
    streamed: bool,
    learning: bool,
    shared: int,
    shared_place: Ints32,
    introduced: Ints32,
    arriving: Ints,
    packed: Ints32,
    seen: Ints,
    slot_start: Ints32,
    slot_type: Ints32,
    slot_true: Bytes,
    worlds_before: int,
    stamp: Ints,
    place: Ints32,
    stream_id: Ints32,
    next_id: int,
    fresh: Ints32,
) -> tuple[int, int, int]:
    """Renumber as ``ground.localise`` the constants of a type that facts have constants of.

    ``shared`` counts the constants that all worlds have beside those of facts. Of these, ``introduced``
    has the columns where they first appear, ``arriving`` [column] how many do there, and ``packed`` their
    packed numbers. ``seen`` [column] is scratch: how many of these are early. Returns where the members
    and the early ones end and the stream's next number.
    """
    first_id = next_id
    for w in range(len(labelled)):
        mark, n = worlds_before + w + 1, shared
        member_start[w, kind], own.early_start[w, kind] = at, early_at
        seen[:] = 0
        for slot in range(count.shape[1]):
            arity = slot_start[slot + 1] - slot_start[slot]
            stop = start[w, slot] + arity * count[w, slot]
            for column in range(slot_start[slot], slot_start[slot + 1]):
                if slot_true[slot] or slot_type[column] != kind:
                    continue
                n += arriving[column] - seen[column]
                for i in range(start[w, slot] + column - slot_start[slot], stop, arity):
                    c = data[i]
                    known = shared_place[c] if c < len(shared_place) else -1
                    if stamp[c] == mark or 0 <= known < shared:
                        continue
                    if known >= 0 and introduced[known - shared] <= column:
                        continue
                    stamp[c], place[c] = mark, n
                    member[at], own.number[at], own.shared[at] = c, n, known
                    if known >= 0:
                        seen[introduced[known - shared]] += 1
                        own.early[early_at] = known
                        early_at += 1
                    stream[at] = stream_id[c]
                    if streamed and stream_id[c] < 0:
                        stream[at] = -2 - c
                        if learning and labelled[w]:
                            stream[at] = next_id
                            stream_id[c] = next_id
                            fresh[next_id - first_id] = c
                            next_id += 1
                    at += 1
                    n += 1
        domain[w, kind] = n
        own.count[w, kind] = at - member_start[w, kind]
        first = own.early_start[w, kind]
        own.early_count[w, kind] = early_at - first
        sort(own.early, first, early_at)
        for e in range(first, early_at):
            own.early_number[e] = place[packed[own.early[e] - shared]]
        for slot in range(count.shape[1]):
            arity = slot_start[slot + 1] - slot_start[slot]
            stop = start[w, slot] + arity * count[w, slot]
            for column in range(slot_start[slot], slot_start[slot + 1]):
                if slot_type[column] != kind:
                    continue
                for i in range(start[w, slot] + column - slot_start[slot], stop, arity):
                    c = data[i]
                    known = shared_place[c] if c < len(shared_place) else -1
                    if 0 <= known < shared:
                        data[i] = known
                    elif stamp[c] == mark:
                        data[i] = place[c]
                    elif known >= 0:
                        data[i] = number_beside(own, member_start, w, kind, known)
                    else:
                        data[i] = -2 - c
    return at, early_at, next_id


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
