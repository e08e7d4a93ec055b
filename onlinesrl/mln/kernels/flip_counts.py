"""How the counts of formulas change where one atom flips, by joins of true tuples; Gibbs sampling by it.

The change is a sum of terms. A term counts the joint matches of some atoms among the true tuples, where the
arguments of the atom that flips have their constants. Its atoms fall into parts without common variables,
whose numbers of matches are multiplied. Only matches around that atom are visited; nothing is grounded.
"""

import math

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.random import GOLDEN, MIX_1, S27, S30, Generator, uniform

NONE = -1
USED, FREE, CELLS = 0, 1, 2
LOOP, SIZE, DOMAIN, EQUAL = 0, 1, 2, 3
BOUND, SET, CHECK = 0, 1, 2


class Tuples(Frame):
    """The true tuples, and by hash the groups of those with equal constants in the columns of an index.

    The first index of a predicate has all columns. Groups are doubly linked lists of slots.
    """

    value: Ints32  # [slot, column] constants
    after: Ints32  # [slot, index of the predicate] the next slot of the group
    before: Ints32  # [slot, index of the predicate]
    spare: Ints32  # [slot] a stack of slots that are free again
    cell_index: Ints32  # [cell] NONE: an empty cell; the number of cells is a power of 2
    cell_key: Ints  # [cell]
    head: Ints32  # [cell] the first slot of the group
    number: Ints32  # [cell] the slots of the group
    size: Ints  # slots used at any time, free ones among them, used cells
    index_start: Ints32  # [predicate + 1]
    stride: Ints  # [index, column] what a constant adds to the key; 0: not in the index


class Plan(Frame):
    """The terms of all changes, as steps. Terms of hard rules follow those of all soft ones.

    A variable is a place in ``Scratch.value``: the arguments of the atom that flips, then constants.
    """

    term_start: Ints32  # [2 * predicate + 1] soft terms by predicate, then hard ones
    odd: Bytes  # [term] whether it is multiplied by 1 - 2 R
    scale: Floats  # [term]
    part_start: Ints32  # [term + 1] the last part has the variables by which weights differ
    step_start: Ints32  # [part + 1]
    kind: Bytes  # [step]
    predicate: Ints32  # [step]
    index: Ints32  # [step] of all; of DOMAIN the number of constants
    column_start: Ints32  # [step + 1]
    variable: Ints32  # [column]
    mode: Bytes  # [column]
    weight_first: Ints  # [term] the number of the weight where all variables of the template are 0
    key_start: Ints32  # [term + 1]
    key_variable: Ints32
    key_stride: Ints
    sizes: Ints  # [predicate, column] the numbers of constants
    arity: Ints32  # [predicate]
    query: Ints32  # predicates whose atoms are sampled


class Scratch(Frame):
    """Memory of a visit."""

    value: Ints32  # [variable]
    cursor: Ints32  # [step]
    amount: Floats  # [step + 1]


# tuples ------------------------------------------------------------------------------------------


@kernel
def _cell(t: Tuples, index: int, key: int) -> int:
    """Return the cell of a group, or the empty cell where it would be."""
    z = np.uint64(key) * GOLDEN + np.uint64(index) * MIX_1
    z = (z ^ (z >> S30)) * MIX_1
    mask = len(t.cell_key) - 1
    cell = int(z >> S27) & mask
    while t.cell_index[cell] != NONE and (t.cell_index[cell] != index or t.cell_key[cell] != key):
        cell = (cell + 1) & mask
    return cell


@kernel
def _key(t: Tuples, index: int, slot: int) -> int:
    key = 0
    for k in range(t.value.shape[1]):
        key += t.stride[index, k] * t.value[slot, k]
    return key


@kernel
def room(t: Tuples, tuples: int) -> bool:
    """Return whether so many tuples can be added."""
    slots = len(t.spare) - t.size[USED] + t.size[FREE]
    most = t.size[CELLS] + tuples * t.after.shape[1]
    return slots >= tuples and 4 * most <= 3 * len(t.cell_key)


@kernel
def _add(t: Tuples, predicate: int, value: Ints32) -> None:
    if t.size[FREE] > 0:
        t.size[FREE] -= 1
        slot = t.spare[t.size[FREE]]
    else:
        slot = t.size[USED]
        t.size[USED] += 1
    for k in range(t.value.shape[1]):
        t.value[slot, k] = value[k]
    first = t.index_start[predicate]
    for index in range(first, t.index_start[predicate + 1]):
        key = _key(t, index, slot)
        cell = _cell(t, index, key)
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
def _remove(t: Tuples, predicate: int, slot: int) -> None:
    first = t.index_start[predicate]
    for index in range(first, t.index_start[predicate + 1]):
        cell = _cell(t, index, _key(t, index, slot))
        after, before = t.after[slot, index - first], t.before[slot, index - first]
        if after != NONE:
            t.before[after, index - first] = before
        if before != NONE:
            t.after[before, index - first] = after
        else:
            t.head[cell] = after
        t.number[cell] -= 1
    t.spare[t.size[FREE]] = slot
    t.size[FREE] += 1


@kernel
def slot_of(t: Tuples, predicate: int, value: Ints32) -> int:
    """Return the slot of a tuple, NONE where it is not true."""
    index, key = t.index_start[predicate], 0
    for k in range(t.value.shape[1]):
        key += t.stride[index, k] * value[k]
    cell = _cell(t, index, key)
    return t.head[cell] if t.cell_index[cell] != NONE else NONE


@kernel
def fill(t: Tuples, predicate: int, rows: Ints32) -> None:
    """Add rows of a predicate, int32[rows, columns]."""
    for k in range(len(rows)):
        _add(t, predicate, rows[k])


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


# matches -----------------------------------------------------------------------------------------


@kernel
def _group(p: Plan, t: Tuples, s: Scratch, step: int) -> int:
    """Return the cell of the group that fits what is bound, NONE where there is none."""
    first, key = p.column_start[step], 0
    for k in range(p.column_start[step + 1] - first):
        if p.mode[first + k] == BOUND:
            key += t.stride[p.index[step], k] * s.value[p.variable[first + k]]
    cell = _cell(t, p.index[step], key)
    return cell if t.cell_index[cell] != NONE and t.number[cell] > 0 else NONE


@kernel
def _bind(p: Plan, t: Tuples, s: Scratch, step: int, slot: int) -> bool:
    """Set the variables of a step that are not bound; return whether equal ones are equal."""
    first = p.column_start[step]
    for k in range(p.column_start[step + 1] - first):
        variable, mode = p.variable[first + k], p.mode[first + k]
        if mode == SET:
            s.value[variable] = t.value[slot, k]
        elif mode == CHECK and s.value[variable] != t.value[slot, k]:
            return False
    return True


@kernel
def _advance(p: Plan, t: Tuples, s: Scratch, step: int, new: bool) -> int:
    """Go to the first match of a step, or the next one; return how many it stands for, 0: no more."""
    kind, first = p.kind[step], p.column_start[step]
    if kind == LOOP:
        own = p.index[step] - t.index_start[p.predicate[step]]
        if new:
            cell = _group(p, t, s, step)
            slot = t.head[cell] if cell != NONE else NONE
        else:
            slot = t.after[s.cursor[step], own]
        while slot != NONE and not _bind(p, t, s, step, slot):
            slot = t.after[slot, own]
        s.cursor[step] = slot
        return 1 if slot != NONE else 0
    if kind == DOMAIN:
        s.cursor[step] = 0 if new else s.cursor[step] + 1
        s.value[p.variable[first]] = s.cursor[step]
        return 1 if s.cursor[step] < p.index[step] else 0
    if not new:
        return 0
    if kind == SIZE:
        cell = _group(p, t, s, step)
        return t.number[cell] if cell != NONE else 0
    if p.mode[first + 1] == SET:
        s.value[p.variable[first + 1]] = s.value[p.variable[first]]
    return 1 if s.value[p.variable[first]] == s.value[p.variable[first + 1]] else 0


@kernel
def _matches(
    p: Plan,
    t: Tuples,
    s: Scratch,
    part: int,
    term: int,
    weight: Floats,
    times: float,
    total: Floats,
) -> float:
    """Return the number of matches of a part; of a term's last part, each times its weight.

    The latter adds each match ``times`` to the ``total`` of its weight.
    """
    first, last = p.step_start[part], p.step_start[part + 1]
    found, step, new = 0.0, first, True
    s.amount[first] = 1.0
    while True:
        if step == last:
            amount = s.amount[step]
            if part + 1 == p.part_start[term + 1]:
                number = p.weight_first[term]
                for k in range(p.key_start[term], p.key_start[term + 1]):
                    number += p.key_stride[k] * s.value[p.key_variable[k]]
                total[number] += times * amount
                amount *= weight[number]
            found += amount
            step, new = step - 1, False
        if step < first:
            return found
        n = _advance(p, t, s, step, new)
        if n > 0:
            s.amount[step + 1] = s.amount[step] * n
        new = n > 0
        step += 1 if new else -1


@kernel
def change(
    p: Plan,
    t: Tuples,
    s: Scratch,
    terms: int,
    true: bool,
    weight: Floats,
    times: float,
    total: Floats,
) -> float:
    """Return sum_j theta_j (M_j(flipped) - M_j) over the formulas with the atom: equation 5's log odds.

    The atom is in ``s.value``; ``terms`` is its predicate, or, for hard rules, that plus the number of
    predicates. Adds ``times`` each change of a count to ``total``.
    """
    score = 0.0
    for term in range(p.term_start[terms], p.term_start[terms + 1]):
        amount = -p.scale[term] if p.odd[term] and true else p.scale[term]
        last = p.part_start[term + 1] - 1
        for part in range(p.part_start[term], last):
            if amount != 0.0:
                amount *= _matches(p, t, s, part, term, weight, 0.0, total)
        if amount != 0.0:
            score += amount * _matches(p, t, s, last, term, weight, times * amount, total)
    return score


@kernel
def gain(
    p: Plan, t: Tuples, s: Scratch, predicate: int, true: bool, weight: Floats, total: Floats
) -> float:
    """Return the log odds of flipping the atom in ``s.value``: -inf if a hard rule breaks."""
    if change(p, t, s, predicate + len(p.arity), true, weight, 0.0, total) < 0.0:
        return -np.inf
    return change(p, t, s, predicate, true, weight, 0.0, total)


@kernel
def flip(p: Plan, t: Tuples, s: Scratch, predicate: int, weight: Floats, total: Floats) -> None:
    """Flip the atom in ``s.value``; the changes of the counts are added to ``total``."""
    slot = slot_of(t, predicate, s.value)
    change(p, t, s, predicate, slot != NONE, weight, 1.0, total)
    if slot != NONE:
        _remove(t, predicate, slot)
    else:
        _add(t, predicate, s.value)


@kernel
def place(p: Plan, s: Scratch, predicate: int, number: int) -> None:
    """Set the arguments of the atom with this number among those of its predicate."""
    for k in range(p.sizes.shape[1]):
        s.value[k] = 0
    for k in range(p.arity[predicate] - 1, -1, -1):
        size = p.sizes[predicate, k]
        s.value[k] = number % size
        number //= size


@kernel
def atoms_of(p: Plan, predicate: int) -> int:
    """Return the number of a predicate's atoms."""
    number = 1
    for k in range(p.arity[predicate]):
        number *= p.sizes[predicate, k]
    return number


# samplers ----------------------------------------------------------------------------------------


@kernel
def sweep(
    p: Plan,
    t: Tuples,
    s: Scratch,
    atom: int,
    rng: Generator,
    weight: Floats,
    total: Floats,
    probability: Floats,
    stop: Bytes,
) -> int:
    """Draw each atom given all others by equation 5, from the number ``atom`` on.

    Adds each atom's probability to ``probability`` unless that has length 0. Returns the number of the
    next atom, which is that of all atoms at the end, and less where there is no room for a flip.
    """
    first = 0
    for q in range(len(p.query)):
        predicate = p.query[q]
        stop_at = first + atoms_of(p, predicate)
        while atom < stop_at:
            if stop[0] or not room(t, 1):
                return atom
            place(p, s, predicate, atom - first)
            true = slot_of(t, predicate, s.value) != NONE
            odds = 1.0 / (1.0 + math.exp(-gain(p, t, s, predicate, true, weight, total)))
            if len(probability) > 0:
                probability[atom] += 1.0 - odds if true else odds
            if uniform(rng) < odds:
                flip(p, t, s, predicate, weight, total)
            atom += 1
        first = stop_at
    return atom
