"""How counts change where one atom flips, by joins of true tuples; Gibbs sampling and MaxWalkSAT with it.

The change is a sum of terms. A term counts the joint matches of some atoms among the true tuples, where the
arguments of the atom that flips have their constants. Its atoms fall into parts without common variables,
whose numbers of matches are multiplied. Only matches around that atom are visited; nothing is grounded.
"""

import math

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.random import (
    GOLDEN,
    MIX_1,
    MIX_2,
    S11,
    S27,
    S30,
    S31,
    Generator,
    below,
    uniform,
)

NONE = -1
TRIES = 64
"""The most draws of a slot of a predicate, and of a broken grounding."""
STEP, SCORE, BEST, JOURNAL = 0, 1, 2, 3
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
    owner: Ints32  # [slot] the predicate; NONE: free
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


class Draws(Frame):
    """Ways in which a soft formula is true, or false: conjunctions of parts, and how groundings are drawn.

    The predicate of an equation is NONE. Variables have places of their own in ``Scratch.value``.
    """

    truth: Bytes  # [way] of the formula where all parts are as they should be
    part_start: Ints32  # [way + 1]
    predicate: Ints32  # [part]
    true: Bytes  # [part] as it should be
    columns: Ints32  # [part, column] places
    step_start: Ints32  # [way + 1] the plan's steps that match the true atoms
    variable_start: Ints32  # [way + 1]
    variable: Ints32
    domain: Ints32  # [variable] the number of its constants
    weight_first: Ints  # [way] as in ``Plan``
    key_start: Ints32  # [way + 1]
    key_variable: Ints32
    key_stride: Ints


class Scratch(Frame):
    """Memory of a visit."""

    value: Ints32  # [variable]
    cursor: Ints32  # [step]
    amount: Floats  # [step + 1]
    atom: Ints  # [part of a way] candidates for a move
    extra: Floats  # [part of a way] their gains beyond those that the plan counts


class Counting(Frame):
    """The true tuples, how counts change where their atoms flip, and memory."""

    plan: Plan
    draws: Draws
    tuples: Tuples
    scratch: Scratch


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
def _key(t: Tuples, index: int, value: Ints32) -> int:
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
def _add(t: Tuples, predicate: int, value: Ints32) -> None:
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
        key = _key(t, index, value)
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
        cell = _cell(t, index, _key(t, index, t.value[slot]))
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
    cell = _cell(t, index, _key(t, index, value))
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
        index = p.index[step] - t.index_start[p.predicate[step]]
        if new:
            cell = _group(p, t, s, step)
            slot = t.head[cell] if cell != NONE else NONE
        else:
            slot = t.after[s.cursor[step], index]
        while slot != NONE and not _bind(p, t, s, step, slot):
            slot = t.after[slot, index]
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
def _weight(f: Plan | Draws, s: Scratch, n: int) -> int:
    """Return the number of the weight of a term of a plan, or of a way of draws."""
    number = f.weight_first[n]
    for k in range(f.key_start[n], f.key_start[n + 1]):
        number += f.key_stride[k] * s.value[f.key_variable[k]]
    return number


@kernel
def _matches(
    c: Counting, part: int, term: int, weight: Floats, times: float, total: Floats
) -> float:
    """Return the number of matches of a part; of a term's last part, each times its weight.

    The latter adds each match ``times`` to the ``total`` of its weight.
    """
    p, t, s = c.plan, c.tuples, c.scratch
    first, last = p.step_start[part], p.step_start[part + 1]
    count, step, new = 0.0, first, True
    s.amount[first] = 1.0
    while True:
        if step == last:
            amount = s.amount[step]
            if part + 1 == p.part_start[term + 1]:
                number = _weight(p, s, term)
                total[number] += times * amount
                amount *= weight[number]
            count += amount
            step, new = step - 1, False
        if step < first:
            return count
        n = _advance(p, t, s, step, new)
        if n > 0:
            s.amount[step + 1] = s.amount[step] * n
        new = n > 0
        step += 1 if new else -1


@kernel
def change(
    c: Counting, terms: int, true: bool, weight: Floats, times: float, total: Floats
) -> float:
    """Return sum_j theta_j (M_j(flipped) - M_j) over the formulas with the atom: equation 5's log odds.

    The atom is in the scratch; ``terms`` is its predicate, or, for hard rules, that plus the number of
    predicates. Adds ``times`` each change of a count to ``total``.
    """
    p, score = c.plan, 0.0
    for term in range(p.term_start[terms], p.term_start[terms + 1]):
        amount = -p.scale[term] if p.odd[term] and true else p.scale[term]
        last = p.part_start[term + 1] - 1
        for part in range(p.part_start[term], last):
            if amount != 0.0:
                amount *= _matches(c, part, term, weight, 0.0, total)
        if amount != 0.0:
            score += amount * _matches(c, last, term, weight, times * amount, total)
    return score


@kernel
def _gain(c: Counting, predicate: int, true: bool, weight: Floats, total: Floats) -> float:
    """Return the log odds of flipping the atom in the scratch; infinite where hard rules break or mend."""
    gain = change(c, predicate + len(c.plan.arity), true, weight, 0.0, total)
    if gain != 0.0:
        return -np.inf if gain < 0.0 else np.inf
    return change(c, predicate, true, weight, 0.0, total)


@kernel
def _flip(c: Counting, predicate: int, weight: Floats, total: Floats) -> None:
    """Flip the atom in the scratch; the changes of the counts are added to ``total``."""
    slot = slot_of(c.tuples, predicate, c.scratch.value)
    for terms in (predicate, predicate + len(c.plan.arity)):
        change(c, terms, slot != NONE, weight, 1.0, total)
    if slot != NONE:
        _remove(c.tuples, predicate, slot)
    else:
        _add(c.tuples, predicate, c.scratch.value)


@kernel
def _atoms(p: Plan, predicate: int) -> int:
    """Return the number of a predicate's atoms."""
    number = 1
    for k in range(p.arity[predicate]):
        number *= p.sizes[predicate, k]
    return number


@kernel
def put_number(p: Plan, s: Scratch, atom: int) -> int:
    """Set the arguments of the query's atom with this number; return its predicate."""
    for q in range(len(p.query)):
        atoms = _atoms(p, p.query[q])
        if atom < atoms:
            for k in range(p.sizes.shape[1]):
                s.value[k] = 0
            for k in range(p.arity[p.query[q]] - 1, -1, -1):
                size = p.sizes[p.query[q], k]
                s.value[k] = atom % size
                atom //= size
            return p.query[q]
        atom -= atoms
    return NONE


# samplers ----------------------------------------------------------------------------------------


@kernel
def resample(
    c: Counting,
    atom: int,
    extra: float,
    rng: Generator,
    weight: Floats,
    total: Floats,
    probability: Floats,
) -> bool:
    """Draw an atom given all others by equation 5; return whether it flipped.

    ``extra`` is added to its log odds. Its probability is added to ``probability`` unless that has length 0.
    """
    predicate = put_number(c.plan, c.scratch, atom)
    true = slot_of(c.tuples, predicate, c.scratch.value) != NONE
    gained = _gain(c, predicate, true, weight, total) + extra
    odds = 1.0 / (1.0 + math.exp(-gained))
    if len(probability) > 0:
        probability[atom] += 1.0 - odds if true else odds
    if uniform(rng) < odds:
        _flip(c, predicate, weight, total)
        return True
    return False


@kernel
def sweep(
    c: Counting,
    atom: int,
    atoms: int,
    rng: Generator,
    weight: Floats,
    total: Floats,
    probability: Floats,
) -> int:
    """Draw each atom from the number ``atom`` on; return the number of the next atom.

    That is the number of all ``atoms`` at the end, and less where there is no room for a flip.
    """
    while atom < atoms and room(c.tuples, 1):
        resample(c, atom, 0.0, rng, weight, total, probability)
        atom += 1
    return atom


@kernel
def _random_slot(t: Tuples, predicate: int, cell: int, whole: bool, rng: Generator) -> int:
    """Draw a slot of a group; ``whole``: the group has all tuples of its predicate."""
    for _ in range(TRIES if whole else 0):
        slot = below(rng, t.size[USED])
        if t.owner[slot] == predicate:
            return slot
    index = t.cell_index[cell] - t.index_start[predicate]
    slot = t.head[cell]
    for _ in range(below(rng, t.number[cell])):
        slot = t.after[slot, index]
    return slot


@kernel
def _draw(c: Counting, way: int, rng: Generator) -> bool:
    """Draw a grounding of a way, half of the time among joint matches of its true atoms; False: none."""
    p, d, t, s = c.plan, c.draws, c.tuples, c.scratch
    for k in range(d.variable_start[way], d.variable_start[way + 1]):
        s.value[d.variable[k]] = below(rng, d.domain[k])
    if uniform(rng) < 0.5:
        return True
    for step in range(d.step_start[way], d.step_start[way + 1]):
        cell = _group(p, t, s, step)
        if cell == NONE:
            return False
        if p.kind[step] == LOOP:
            whole = True
            for k in range(p.column_start[step], p.column_start[step + 1]):
                whole = whole and p.mode[k] != BOUND
            slot = _random_slot(t, p.predicate[step], cell, whole, rng)
            if not _bind(p, t, s, step, slot):
                return False
    return True


@kernel
def _put(d: Draws, s: Scratch, part: int) -> None:
    """Set the arguments of a part's atom."""
    for k in range(d.columns.shape[1]):
        s.value[k] = s.value[d.columns[part, k]]


@kernel
def _is_broken(c: Counting, way: int, weight: Floats) -> bool:
    """Return whether the grounding that was drawn is false with a weight above 0, or true with one below."""
    d, s = c.draws, c.scratch
    value = d.truth[way] != 0
    for part in range(d.part_start[way], d.part_start[way + 1]):
        if d.predicate[part] == NONE:
            true = s.value[d.columns[part, 0]] == s.value[d.columns[part, 1]]
        else:
            _put(d, s, part)
            true = slot_of(c.tuples, d.predicate[part], s.value) != NONE
        if true != (d.true[part] != 0):
            value = d.truth[way] == 0
            break
    number = _weight(d, s, way)
    return weight[number] != 0.0 and value == (weight[number] < 0.0)


@kernel
def _number(p: Plan, s: Scratch, predicate: int) -> int:
    """Return the number of the atom in ``s.value`` among the query's; NONE if it is not one of them."""
    first = 0
    for q in range(len(p.query)):
        if p.query[q] == predicate:
            number = 0
            for k in range(p.arity[predicate]):
                number = number * p.sizes[predicate, k] + s.value[k]
            return first + number
        first += _atoms(p, p.query[q])
    return NONE


@kernel
def noise(seed: int, atom: int) -> float:
    """Return the noise of an atom: logistic, as the difference of two Gumbel variables is."""
    z = np.uint64(seed) + np.uint64(atom + 1) * GOLDEN
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    u = (float((z ^ (z >> S31)) >> S11) + 0.5) * 2.0**-53
    return math.log(u / (1.0 - u))


@kernel
def candidates(c: Counting, atoms: int, seed: int, rng: Generator, weight: Floats) -> int:
    """Draw a broken grounding, write its open atoms to the scratch, and return how many; 0: none was drawn.

    With noise, each of the ``atoms`` has a unit clause with its noise as weight.
    """
    p, d, s = c.plan, c.draws, c.scratch
    for _ in range(TRIES):
        way, n = below(rng, len(d.truth) + (seed != NONE)), 0
        if way == len(d.truth):
            s.atom[0] = below(rng, atoms)
            predicate = put_number(p, s, s.atom[0])
            n = (slot_of(c.tuples, predicate, s.value) != NONE) != (noise(seed, s.atom[0]) > 0.0)
        elif _draw(c, way, rng) and _is_broken(c, way, weight):
            for part in range(d.part_start[way], d.part_start[way + 1]):
                _put(d, s, part)
                s.atom[n] = _number(p, s, d.predicate[part])
                n += s.atom[n] != NONE
        if n > 0:
            return n
    return 0


@kernel
def move(
    c: Counting,
    n: int,
    status: Floats,
    journal: Ints,
    chance: float,
    seed: int,
    rng: Generator,
    weight: Floats,
    total: Floats,
) -> int:
    """Flip one of ``n`` candidates, and return it; NONE: none flipped.

    As in ``mln.kernels.maxwalksat``: with probability ``chance`` any of them, else one of the greatest gain;
    a flip that loses weight is made with probability ``chance`` only. ``status`` (zeros at the start) has the
    step, the score now and at best, and the number of flips in ``journal``, which are those since.
    """
    p, s = c.plan, c.scratch
    anything, best, most, ties = uniform(rng) < chance, NONE, -np.inf, 0
    for k in range(n):
        predicate = put_number(p, s, s.atom[k])
        true = slot_of(c.tuples, predicate, s.value) != NONE
        bonus = noise(seed, s.atom[k]) if seed != NONE else 0.0
        gained = _gain(c, predicate, true, weight, total) + (-bonus if true else bonus)
        gained += s.extra[k]
        if gained == -np.inf or not (anything or gained >= most):
            continue
        ties = ties + 1 if anything or gained == most else 1
        if uniform(rng) * ties < 1:
            best, most = s.atom[k], gained
    status[STEP] += 1
    if best == NONE or (most < 0.0 and uniform(rng) >= chance):
        return NONE
    _flip(c, put_number(p, s, best), weight, total)
    journal[int(status[JOURNAL])] = best
    status[JOURNAL] += 1
    status[SCORE] += most
    if status[SCORE] > status[BEST] + 1e-9:
        status[BEST], status[JOURNAL] = status[SCORE], 0.0
    return best


@kernel
def maxwalksat(
    c: Counting,
    atoms: int,
    status: Floats,
    journal: Ints,
    chance: float,
    seed: int,
    rng: Generator,
    weight: Floats,
    total: Floats,
) -> None:
    """Move ``len(journal)`` times, or until there is no room for a flip."""
    while status[STEP] < len(journal) and room(c.tuples, 1):
        n = candidates(c, atoms, seed, rng, weight)
        move(c, n, status, journal, chance, seed, rng, weight, total)


@kernel
def go_back(c: Counting, status: Floats, journal: Ints, weight: Floats, total: Floats) -> None:
    """Go back to the best state, or until there is no room for a flip."""
    while status[JOURNAL] > 0 and room(c.tuples, 1):
        status[JOURNAL] -= 1
        predicate = put_number(c.plan, c.scratch, journal[int(status[JOURNAL])])
        _flip(c, predicate, weight, total)
