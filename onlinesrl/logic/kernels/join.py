"""Index nested-loop joins of one rule's atoms, a chunk of rows per call.

No intermediate results are stored; the loops resume at the next call.

Relations are arrays of columns; an index lists the rows of a relation by a hash of key columns. An
argument >= 0 is a slot of the binding, another one the constant ``-1 - argument``.
"""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.logic.kernels.whole_numbers import NO_NUMBER

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio (Knuth, The Art of Computer Programming, section 6.4)."""

NEAR = np.uint64(6)
"""The number of a key's last constant's low bits that are those of its bucket's number."""
LAST = np.uint64(63 << 32)
"""Where these bits are in a hash: the lowest that ``bucket_of`` takes."""

EQUAL, BEFORE, LISTED = 0, 1, 2
"""Conditions: the same constant; PSL's ``%``; an observed atom with a value above 0."""

WRONG, PASSES = 1, 2
"""What an unlisted atom of a lookup is, if not 0: an error, or a reason to keep the row."""

FINE, MISSING, TOO_MANY = 0, 1, 2
"""The status of a world: fine, an open atom is not listed, too many rows."""


class Relations(Frame):
    """The listed atoms of all predicates and their indexes."""

    data: Ints32  # [cell] column after column, relation after relation
    offset: Ints  # [relation] first cell
    size: Ints  # [relation] number of rows
    base: Ints  # [relation] number of its first atom
    value: Floats  # [atom] of an observed one
    variable: Ints32  # [atom] of a target, else -1
    index_relation: Ints  # [index]
    bucket_offset: Ints  # [index] first bucket
    mask: Ints  # [index] number of buckets, a power of 2, minus 1
    row_offset: Ints  # [index] first row
    bucket: Ints32  # [bucket] start of its rows among the index's
    stop: Ints32  # [bucket] their end
    row: Ints32  # [row] rows of the relation in the order of their buckets
    letter: Bytes  # of constants, in UTF-8
    spelled: Ints  # [constant] where its letters begin
    spelled_stop: Ints  # [constant]
    number: Ints  # [constant] the whole number that it is, or NO_NUMBER


class Code(Frame):
    """A rule's plan. Probes match atoms by key columns: those of steps, lookups and conditions."""

    probe_index: Ints32  # [probe]
    probe_start: Ints32  # [probe + 1] into the next two
    key_column: Ints32
    key_argument: Ints32
    step_probe: Ints32  # [step]
    bind_start: Ints32  # [step + 1] into the next two
    bind_column: Ints32
    bind_slot: Ints32
    check_start: Ints32  # [step + 1] the checks after a step
    choice_start: Ints32  # [check + 1]
    condition_start: Ints32  # [choice + 1]
    condition: Ints32  # [condition, 4] kind, whether positive, then two arguments or a probe
    lookup_probe: Ints32  # [lookup]
    lookup_open: Bytes  # [lookup] what an unlisted atom is: 0, WRONG or PASSES
    clause: bool
    without_targets: bool  # also rows without targets


class Loops(Frame):
    """The state of the nested loops. Step 0 loops over worlds; slot 0 is the world."""

    depth: Ints32  # [2] the step, -1 at the end; whether it starts anew
    cursor: Ints  # [step] among the index's rows
    stop: Ints  # [step]
    binding: Ints32  # [slot]
    atom: Ints32  # [step + lookup]
    rows: Ints  # [world] so far
    problem: Bytes  # [world] FINE, MISSING or TOO_MANY
    lookup: Ints32  # [world] the lookup of the missing atom
    missing: Ints32  # [world, slot] its binding


@kernel
def hashed(seed: np.uint64, constant: int) -> np.uint64:
    """Return the hash of a key that goes on with a constant; 0 is that of no constant.

    It is random but for the bits ``LAST``, so that near constants have near buckets.
    """
    number = np.uint64(np.int64(constant))
    mixed = (seed ^ (number >> NEAR)) * MULTIPLIER
    return (mixed & ~LAST) | ((number << np.uint64(32)) & LAST)


@kernel
def bucket_of(hashed: np.uint64, mask: int) -> int:
    """Return the bucket of a hash."""
    return int(np.int64(hashed >> np.uint64(32)) & mask)


@kernel
def build(data: Ints32, offset: int, n: int, keys: Ints32, bucket: Ints32, row: Ints32) -> None:
    """Index a relation of n rows by its columns ``keys``: fill bucket [buckets + 1] and row [n]."""
    mask = len(bucket) - 2
    for i in range(n):
        h = np.uint64(0)
        for c in keys:
            h = hashed(h, data[offset + c * n + i])
        bucket[bucket_of(h, mask) + 1] += 1
    for b in range(mask + 1):
        bucket[b + 1] += bucket[b]
    for i in range(n - 1, -1, -1):
        h = np.uint64(0)
        for c in keys:
            h = hashed(h, data[offset + c * n + i])
        b = bucket_of(h, mask) + 1
        bucket[b] -= 1
        row[bucket[b]] = i
    for b in range(mask + 1):
        bucket[b] = bucket[b + 1]
    bucket[mask + 1] = n


@kernel
def _argument(argument: int, binding: Ints32, constant: Ints32) -> int:
    return int(binding[argument] if argument >= 0 else constant[-1 - argument])


@kernel
def _range(
    relations: Relations, code: Code, probe: int, binding: Ints32, constant: Ints32
) -> tuple[int, int]:
    """Return the range of a probe's bucket among the index's rows."""
    index = code.probe_index[probe]
    h = np.uint64(0)
    for k in range(code.probe_start[probe], code.probe_start[probe + 1]):
        h = hashed(h, _argument(code.key_argument[k], binding, constant))
    b = relations.bucket_offset[index] + bucket_of(h, relations.mask[index])
    first = relations.row_offset[index]
    return first + relations.bucket[b], first + relations.stop[b]


@kernel
def _matches(
    relations: Relations, code: Code, probe: int, i: int, binding: Ints32, constant: Ints32
) -> bool:
    """Return whether row i of a probe's relation has the probe's keys."""
    r = relations.index_relation[code.probe_index[probe]]
    for k in range(code.probe_start[probe], code.probe_start[probe + 1]):
        cell = relations.offset[r] + code.key_column[k] * relations.size[r] + i
        if relations.data[cell] != _argument(code.key_argument[k], binding, constant):
            return False
    return True


@kernel
def _look_up_atom(
    relations: Relations, code: Code, probe: int, binding: Ints32, constant: Ints32
) -> int:
    """Return the atom found by a probe of all columns, or -1."""
    place, stop = _range(relations, code, probe, binding, constant)
    while place < stop:
        i = relations.row[place]
        if _matches(relations, code, probe, i, binding, constant):
            return relations.base[relations.index_relation[code.probe_index[probe]]] + i
        place += 1
    return -1


@kernel
def _before(relations: Relations, left: int, right: int) -> bool:
    """Compare two constants: whole numbers come first, by value, and all others by their texts."""
    first, second = relations.number[left], relations.number[right]
    if first != second:
        return first != NO_NUMBER and (second == NO_NUMBER or first < second)
    place, stop = relations.spelled[left], relations.spelled_stop[left]
    other, other_stop = relations.spelled[right], relations.spelled_stop[right]
    while place < stop and other < other_stop:
        if relations.letter[place] != relations.letter[other]:
            return relations.letter[place] < relations.letter[other]
        place, other = place + 1, other + 1
    return stop - place < other_stop - other


@kernel
def _holds(relations: Relations, code: Code, c: int, binding: Ints32, constant: Ints32) -> bool:
    """Return whether a condition holds."""
    kind, positive = code.condition[c, 0], code.condition[c, 1] != 0
    if kind == LISTED:
        atom = _look_up_atom(relations, code, code.condition[c, 2], binding, constant)
        listed = atom >= 0 and relations.variable[atom] < 0 and relations.value[atom] > 0.0
        return listed == positive
    left = _argument(code.condition[c, 2], binding, constant)
    right = _argument(code.condition[c, 3], binding, constant)
    if kind == EQUAL:
        return (left == right) == positive
    return _before(relations, left, right) == positive


@kernel
def _checks_hold(
    relations: Relations, code: Code, step: int, binding: Ints32, constant: Ints32
) -> bool:
    """Return whether all checks of a step hold."""
    for check in range(code.check_start[step], code.check_start[step + 1]):
        holds = False
        choice = code.choice_start[check]
        while not holds and choice < code.choice_start[check + 1]:
            holds = True
            c = code.condition_start[choice]
            while holds and c < code.condition_start[choice + 1]:
                holds = _holds(relations, code, c, binding, constant)
                c += 1
            choice += 1
        if not holds:
            return False
    return True


@kernel
def _bind(relations: Relations, code: Code, step: int, i: int, binding: Ints32) -> bool:
    """Bind a step's variables to row i; return False if a variable gets two constants."""
    r = relations.index_relation[code.probe_index[code.step_probe[step]]]
    for k in range(code.bind_start[step], code.bind_start[step + 1]):
        cell = relations.offset[r] + code.bind_column[k] * relations.size[r] + i
        slot = code.bind_slot[k]
        for before in range(code.bind_start[step], k):
            if code.bind_slot[before] == slot and binding[slot] != relations.data[cell]:
                return False
        binding[slot] = relations.data[cell]
    return True


@kernel
def _advance(relations: Relations, code: Code, loops: Loops, step: int, constant: Ints32) -> bool:
    """Advance to a step's next matching row; return whether there is one."""
    probe = code.step_probe[step]
    r = relations.index_relation[code.probe_index[probe]]
    while loops.cursor[step] < loops.stop[step]:
        i = relations.row[loops.cursor[step]]
        loops.cursor[step] += 1
        atom = relations.base[r] + i
        if not _matches(relations, code, probe, i, loops.binding, constant):
            continue
        if step > 0 and code.clause and _satisfies(relations, atom, 0.0):
            continue
        if _bind(relations, code, step, i, loops.binding) and _checks_hold(
            relations, code, step, loops.binding, constant
        ):
            loops.atom[step] = atom
            return True
    return False


@kernel
def _satisfies(relations: Relations, atom: int, value: float) -> bool:
    """Return whether an atom is observed with this value."""
    return relations.variable[atom] < 0 and relations.value[atom] == value


@kernel
def _look_up(relations: Relations, code: Code, loops: Loops, constant: Ints32) -> bool:
    """Find the atoms of all lookups; return whether there is a row, and set the world's status."""
    steps, missing = len(code.step_probe), -1
    for k in range(len(code.lookup_probe)):
        atom = _look_up_atom(relations, code, code.lookup_probe[k], loops.binding, constant)
        if atom >= 0 and code.clause and _satisfies(relations, atom, 1.0):
            return False
        if atom < 0 and code.lookup_open[k] == PASSES:
            return True
        if atom < 0 and code.lookup_open[k] == WRONG and missing < 0:
            missing = k
        loops.atom[steps + k] = atom
    if missing >= 0:
        world = loops.binding[0]
        loops.problem[world] = MISSING
        loops.lookup[world] = missing
        for slot in range(len(loops.binding)):
            loops.missing[world, slot] = loops.binding[slot]
        return False
    if code.without_targets:
        return True
    for k in range(1, len(loops.atom)):
        if loops.atom[k] >= 0 and relations.variable[loops.atom[k]] >= 0:
            return True
    return False


@kernel
def rows(
    relations: Relations,
    code: Code,
    loops: Loops,
    constant: Ints32,
    limit: int,
    atoms: Ints32,
    bindings: Ints32,
) -> int:
    """Write the next rows: their atoms [step + lookup - 1, capacity] and first slots [slots, capacity].

    Returns their number, less than the capacity only at the end. A world may have at most ``limit`` rows.
    Ignore the rows of worlds that are not FINE.
    """
    n, capacity, last = 0, atoms.shape[1], len(code.step_probe) - 1
    while loops.depth[0] >= 0 and n < capacity:
        step = loops.depth[0]
        if loops.depth[1] != 0:
            loops.cursor[step], loops.stop[step] = _range(
                relations, code, code.step_probe[step], loops.binding, constant
            )
            loops.depth[1] = 0
        if not _advance(relations, code, loops, step, constant):
            loops.depth[0] -= 1
            continue
        if step == 0 and loops.problem[loops.binding[0]] != FINE:
            continue
        if step < last:
            loops.depth[0] += 1
            loops.depth[1] = 1
            continue
        if _look_up(relations, code, loops, constant):
            world = loops.binding[0]
            loops.rows[world] += 1
            if loops.rows[world] > limit:
                loops.problem[world] = TOO_MANY
            for k in range(atoms.shape[0]):
                atoms[k, n] = loops.atom[k + 1]
            for slot in range(bindings.shape[0]):
                bindings[slot, n] = loops.binding[slot]
            n += 1
        if loops.problem[loops.binding[0]] != FINE:
            loops.depth[0] = 0
    return n
