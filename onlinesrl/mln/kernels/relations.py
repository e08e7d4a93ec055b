"""Relations as sets, and indexes by counting on the arguments that plans look up."""

import numpy as np

from onlinesrl.core.arrays import Ints32
from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.mln.kernels.grounding_frames import GROW_INDEX, OK, SPARSE, Batch, Plans, Scratch


@kernel
def _same_tuple(batch: Batch, start: int, arity: int, i: int, j: int) -> bool:
    for k in range(arity):
        if batch.data[start + i * arity + k] != batch.data[start + j * arity + k]:
            return False
    return True


@kernel
def _increases(batch: Batch, start: int, n: int, arity: int) -> bool:
    """Tell whether some argument increases from tuple to tuple: then no tuple is repeated."""
    for k in range(arity):
        i = 1
        while i < n and batch.data[start + i * arity + k] > batch.data[start + (i - 1) * arity + k]:
            i += 1
        if i >= n:
            return True
    return False


@kernel
def deduplicate(batch: Batch, w: int, slot: int, arity: int, table: Ints32) -> None:
    """Make a relation a set: keep the first of equal tuples, in order."""
    n, start = batch.count[w, slot], batch.start[w, slot]
    if _increases(batch, start, n, arity):
        return
    mask = 1
    while mask < 2 * n:
        mask *= 2
    table[:mask] = -1
    mask -= 1
    distinct = 0
    for i in range(n):
        h = np.uint64(14695981039346656037)
        for k in range(arity):
            h = (h ^ np.uint64(batch.data[start + i * arity + k])) * np.uint64(1099511628211)
        at = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(mask))
        while table[at] >= 0 and not _same_tuple(batch, start, arity, table[at], i):
            at = (at + 1) & mask
        if table[at] < 0:
            table[at] = distinct
            for k in range(arity):
                batch.data[start + distinct * arity + k] = batch.data[start + i * arity + k]
            distinct += 1
    batch.count[w, slot] = distinct


@kernel
def _compare(batch: Batch, slot: int, row: int, at: int, arity: int) -> int:
    """Compare a fact with a tuple of the world: below 0, 0 or above."""
    facts = batch.facts
    fact = facts.start[slot] + row * arity
    for k in range(arity):
        value = batch.data[at + k]
        if facts.data[fact + k] != value:
            return -1 if facts.data[fact + k] < value else 1
    return 0


@kernel
def _is_fact(batch: Batch, slot: int, at: int, arity: int) -> bool:
    """Return whether a tuple of the world is a fact as well, by binary search."""
    facts = batch.facts
    low, high = 0, facts.count[slot]
    while low < high:
        middle = (low + high) // 2
        row = facts.order[facts.order_start[slot] + middle]
        if _compare(batch, slot, row, at, arity) < 0:
            low = middle + 1
        else:
            high = middle
    if low == facts.count[slot]:
        return False
    row = facts.order[facts.order_start[slot] + low]
    return _compare(batch, slot, row, at, arity) == 0


@kernel_of("facts", 0)
def _without_facts(batch: Batch, w: int, slot: int, arity: int) -> int:
    """Drop the tuples of a relation that are facts as well; returns the number of the others."""
    start, distinct = batch.start[w, slot], 0
    for i in range(batch.count[w, slot]):
        at = start + i * arity
        if not _is_fact(batch, slot, at, arity):
            for k in range(arity):
                batch.data[start + distinct * arity + k] = batch.data[at + k]
            distinct += 1
    return distinct


@kernel
def index_relations(plans: Plans, batch: Batch, w: int, s: Scratch) -> int:
    """Make every relation a set and index the arguments that plans look up."""
    for slot in range(len(plans.arity)):
        if batch.facts.count[slot] > 0 and batch.count[w, slot] > 0:
            batch.count[w, slot] = _without_facts(batch, w, slot, plans.arity[slot])
        if batch.count[w, slot] > 1:
            if 4 * batch.count[w, slot] > len(s.table):
                return GROW_INDEX
            deduplicate(batch, w, slot, plans.arity[slot], s.table)
    at, row_at = 0, 0
    for x in range(len(plans.index_slot)):
        slot, argument = plans.index_slot[x], plans.index_argument[x]
        n, cells, mask = batch.count[w, slot], batch.domain[w, plans.index_type[x]], -1
        if cells > 4 * n + SPARSE:  # several constants share a cell
            cells = SPARSE
            while cells < n:
                cells *= 2
            mask = cells - 1
        if at + cells + 2 > len(s.index_start) or row_at + n > len(s.index_row):
            return GROW_INDEX
        s.index_start_at[x], s.index_row_at[x], s.index_mask[x] = at, row_at, mask
        column, arity = batch.start[w, slot] + argument, plans.arity[slot]
        s.index_start[at : at + cells + 2] = 0
        for i in range(n):
            s.index_start[at + (batch.data[column + i * arity] & mask) + 2] += 1
        for c in range(at + 2, at + cells + 2):
            s.index_start[c] += s.index_start[c - 1]
        for i in range(n):
            c = at + (batch.data[column + i * arity] & mask) + 1
            s.index_row[row_at + s.index_start[c]] = i
            s.index_start[c] += 1
        at += cells + 2
        row_at += n
    return OK
