"""The true tuples of predicates, indexed by hash: those with equal constants in some columns are a group."""

import numpy as np

from onlinesrl.core.arrays import Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.random import GOLDEN, MIX_1, S27, S30

NONE = -1
USED, FREE, CELLS = 0, 1, 2


class Tuples(Frame):
    """The true tuples, and by hash the groups of those with equal constants in the columns of an index.

    The first index of a predicate has all columns. Groups are doubly linked lists of slots.
    """

    value: Ints32  # [slot, column] constants
    after: Ints32  # [slot, index of the predicate] the next slot of the group
    before: Ints32  # [slot, index of the predicate]
    owner: Ints32  # [slot] the predicate; NONE: free
    spare: Ints32  # [slot] a stack of slots that are free again
    cell_index: Ints32  # [cell] NONE: an empty cell; the number of cells is a power of 2
    cell_key: Ints  # [cell]
    head: Ints32  # [cell] the first slot of the group
    number: Ints32  # [cell] the slots of the group
    size: Ints  # slots used at any time, free ones among them, used cells
    index_start: Ints32  # [predicate + 1]
    stride: Ints  # [index, column] what a constant adds to the key; 0: not in the index


@kernel
def cell_of(t: Tuples, index: int, key: int) -> int:
    """Return the cell of a group, or the empty cell where it would be."""
    z = np.uint64(key) * GOLDEN + np.uint64(index) * MIX_1
    z = (z ^ (z >> S30)) * MIX_1
    mask = len(t.cell_key) - 1
    cell = int(z >> S27) & mask
    while t.cell_index[cell] != NONE and (t.cell_index[cell] != index or t.cell_key[cell] != key):
        cell = (cell + 1) & mask
    return cell


@kernel
def key_of(t: Tuples, index: int, value: Ints32) -> int:
    """Return the key in an index of the tuple whose constants come first in ``value``."""
    key = 0
    for k in range(t.value.shape[1]):
        key += t.stride[index, k] * value[k]
    return key


@kernel
def room(t: Tuples, tuples: int) -> bool:
    """Return whether so many tuples can be added."""
    slots = len(t.spare) - t.size[USED] + t.size[FREE]
    most = t.size[CELLS] + tuples * t.after.shape[1]
    return slots >= tuples and 4 * most <= 3 * len(t.cell_key)


@kernel
def add(t: Tuples, predicate: int, value: Ints32) -> None:
    """Make the tuple true whose constants come first in ``value``; needs ``room``."""
    if t.size[FREE] > 0:
        t.size[FREE] -= 1
        slot = t.spare[t.size[FREE]]
    else:
        slot = t.size[USED]
        t.size[USED] += 1
    t.owner[slot] = predicate
    for k in range(t.value.shape[1]):
        t.value[slot, k] = value[k]
    first = t.index_start[predicate]
    for index in range(first, t.index_start[predicate + 1]):
        key = key_of(t, index, value)
        cell = cell_of(t, index, key)
        if t.cell_index[cell] == NONE:
            t.cell_index[cell] = index
            t.cell_key[cell] = key
            t.head[cell] = NONE
            t.size[CELLS] += 1
        head = t.head[cell]
        t.after[slot, index - first] = head
        t.before[slot, index - first] = NONE
        if head != NONE:
            t.before[head, index - first] = slot
        t.head[cell] = slot
        t.number[cell] += 1


@kernel
def remove(t: Tuples, predicate: int, slot: int) -> None:
    """Make the tuple of a slot false."""
    first = t.index_start[predicate]
    for index in range(first, t.index_start[predicate + 1]):
        cell = cell_of(t, index, key_of(t, index, t.value[slot]))
        after, before = t.after[slot, index - first], t.before[slot, index - first]
        if after != NONE:
            t.before[after, index - first] = before
        if before != NONE:
            t.after[before, index - first] = after
        else:
            t.head[cell] = after
        t.number[cell] -= 1
    t.owner[slot] = NONE
    t.spare[t.size[FREE]] = slot
    t.size[FREE] += 1


@kernel
def slot_of(t: Tuples, predicate: int, value: Ints32) -> int:
    """Return the slot of a tuple, NONE where it is not true."""
    index = t.index_start[predicate]
    cell = cell_of(t, index, key_of(t, index, value))
    return t.head[cell] if t.cell_index[cell] != NONE else NONE


@kernel
def fill(t: Tuples, predicate: int, rows: Ints32) -> None:
    """Add rows of a predicate, int32[rows, columns]."""
    for k in range(len(rows)):
        add(t, predicate, rows[k])


@kernel
def read(t: Tuples, predicate: int, rows: Ints32) -> int:
    """Write the true tuples of a predicate to ``rows``; return their number."""
    index, n = t.index_start[predicate], 0
    for cell in range(len(t.cell_key)):
        if t.cell_index[cell] == index and t.number[cell] > 0:
            for k in range(t.value.shape[1]):
                rows[n, k] = t.value[t.head[cell], k]
            n += 1
    return n
