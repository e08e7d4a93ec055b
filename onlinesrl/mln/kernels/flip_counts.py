"""How counts change where one atom flips, by joins of true tuples.

The change is a sum of terms. A term counts the joint matches of some atoms among the true tuples, where the
arguments of the atom that flips have their constants. Its atoms fall into parts without common variables,
whose numbers of matches are multiplied. Only matches around that atom are visited; nothing is grounded.
"""

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.tuple_index import NONE, Tuples, add, cell_of, remove, slot_of

LOOP, SIZE, DOMAIN, EQUAL = 0, 1, 2, 3
BOUND, SET, CHECK = 0, 1, 2


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


@kernel
def group_of(p: Plan, t: Tuples, s: Scratch, step: int) -> int:
    """Return the cell of the group that fits what is bound, NONE where there is none."""
    first, key = p.column_start[step], 0
    for k in range(p.column_start[step + 1] - first):
        if p.mode[first + k] == BOUND:
            key += t.stride[p.index[step], k] * s.value[p.variable[first + k]]
    cell = cell_of(t, p.index[step], key)
    return cell if t.cell_index[cell] != NONE and t.number[cell] > 0 else NONE


@kernel
def bind(p: Plan, t: Tuples, s: Scratch, step: int, slot: int) -> bool:
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
            cell = group_of(p, t, s, step)
            slot = t.head[cell] if cell != NONE else NONE
        else:
            slot = t.after[s.cursor[step], index]
        while slot != NONE and not bind(p, t, s, step, slot):
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
        cell = group_of(p, t, s, step)
        return t.number[cell] if cell != NONE else 0
    if p.mode[first + 1] == SET:
        s.value[p.variable[first + 1]] = s.value[p.variable[first]]
    return 1 if s.value[p.variable[first]] == s.value[p.variable[first + 1]] else 0


@kernel
def weight_of(f: Plan | Draws, s: Scratch, n: int) -> int:
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
                number = weight_of(p, s, term)
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
def gain(c: Counting, predicate: int, true: bool, weight: Floats, total: Floats) -> float:
    """Return the log odds of flipping the atom in the scratch; infinite where hard rules break or mend."""
    gain = change(c, predicate + len(c.plan.arity), true, weight, 0.0, total)
    if gain != 0.0:
        return -np.inf if gain < 0.0 else np.inf
    return change(c, predicate, true, weight, 0.0, total)


@kernel
def flip(c: Counting, predicate: int, weight: Floats, total: Floats) -> None:
    """Flip the atom in the scratch; the changes of the counts are added to ``total``."""
    slot = slot_of(c.tuples, predicate, c.scratch.value)
    for terms in (predicate, predicate + len(c.plan.arity)):
        change(c, terms, slot != NONE, weight, 1.0, total)
    if slot != NONE:
        remove(c.tuples, predicate, slot)
    else:
        add(c.tuples, predicate, c.scratch.value)


@kernel
def atoms_of(p: Plan, predicate: int) -> int:
    """Return the number of a predicate's atoms."""
    number = 1
    for k in range(p.arity[predicate]):
        number *= p.sizes[predicate, k]
    return number


@kernel
def put_number(p: Plan, s: Scratch, atom: int) -> int:
    """Set the arguments of the query's atom with this number; return its predicate."""
    for q in range(len(p.query)):
        atoms = atoms_of(p, p.query[q])
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
