"""Gibbs sampling and MaxWalkSAT over the atoms of a query, with gains by counts."""

import math

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.jit.decorators import kernel
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
from onlinesrl.mln.kernels.flip_counts import (
    BOUND,
    LOOP,
    Counting,
    Draws,
    Plan,
    Scratch,
    atoms_of,
    bind,
    flip,
    gain,
    group_of,
    put_number,
    weight_of,
)
from onlinesrl.mln.kernels.tuple_index import NONE, USED, Tuples, room, slot_of

TRIES = 64
"""The most draws of a slot of a predicate, and of a broken grounding."""
STEP, SCORE, BEST, JOURNAL = 0, 1, 2, 3


# Gibbs sampling ----------------------------------------------------------------------------------


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
    gained = gain(c, predicate, true, weight, total) + extra
    odds = 1.0 / (1.0 + math.exp(-gained))
    if len(probability) > 0:
        probability[atom] += 1.0 - odds if true else odds
    if uniform(rng) < odds:
        flip(c, predicate, weight, total)
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


# MaxWalkSAT --------------------------------------------------------------------------------------


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
        cell = group_of(p, t, s, step)
        if cell == NONE:
            return False
        if p.kind[step] == LOOP:
            whole = True
            for k in range(p.column_start[step], p.column_start[step + 1]):
                whole = whole and p.mode[k] != BOUND
            slot = _random_slot(t, p.predicate[step], cell, whole, rng)
            if not bind(p, t, s, step, slot):
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
    number = weight_of(d, s, way)
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
        first += atoms_of(p, p.query[q])
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
        gained = gain(c, predicate, true, weight, total) + (-bonus if true else bonus)
        gained += s.extra[k]
        if gained == -np.inf or not (anything or gained >= most):
            continue
        ties = ties + 1 if anything or gained == most else 1
        if uniform(rng) * ties < 1:
            best, most = s.atom[k], gained
    status[STEP] += 1
    if best == NONE or (most < 0.0 and uniform(rng) >= chance):
        return NONE
    flip(c, put_number(p, s, best), weight, total)
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
        flip(c, predicate, weight, total)
