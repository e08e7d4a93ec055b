"""Local search over weighted clauses: WalkSAT's bookkeeping, its moves, and MaxWalkSAT itself.

A clause is *broken* where it has weight above 0 and is false, or below 0 and true (Kautz, Selman &
Jiang 1997; Richardson & Domingos 2006, section 4.2). A move gives one variable another value: it
flips one atom, or two of the same group. Each clause's count of true literals is kept up to date;
how much a move gains is read from these counts in the lists of the atoms that it flips.

Defined atoms are never flipped on their own: they follow the atoms that define them.
"""

from typing import Annotated

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.random import Generator, below, uniform
from onlinesrl.mln.kernels.clauses import Clauses, copy
from onlinesrl.mln.kernels.ground_network import OPEN

HARD, SOFT = 0, 1
OFF, ON = 0, 1
NONE, END = -1, -2
TIE = 1e-9
"""Costs closer than this are equal: they differ by rounding."""


class Search(Frame):
    """Scratch memory: a state and its broken clauses."""

    state: Annotated[Bytes, "atom"]
    fixed: Bytes  # [atom] other than OPEN: never flipped
    weight: Floats  # [clause] its weight in this search; 0: the clause is ignored
    n_true: Annotated[Ints32, "clause"]  # true literals
    # the broken clauses, hard ones from 0 on, soft ones from ``hard`` on
    broken: Annotated[Ints32, "clause"]
    place: Annotated[Ints32, "clause"]  # its place in ``broken``; NONE: it is not broken
    size: Annotated[Ints32, "2"]  # broken hard clauses, broken soft clauses
    moved: Annotated[Ints, "variable"]  # the step of its last move
    move: Annotated[Ints32, "2"]  # atoms to flip OFF and ON, NONE: no such atom
    due: Ints32  # [gate + 1] a linked list of gates to check, from the last cell; NONE: not in it


def search(cl: Clauses) -> Search:
    """Return scratch memory for these clauses; those that define atoms have weight 0."""
    weight = cl.weight.copy()
    weight[: cl.defining] = 0.0
    fields = {
        "fixed": np.full(len(cl.var_of), OPEN, np.uint8),
        "weight": weight,
        "due": np.append(np.full(cl.gates, NONE, np.int32), np.int32(END)),
    }
    return Search.zeros(fields, atom=len(cl.var_of), clause=len(weight), variable=len(cl.exactly))


@kernel
def literal_true(s: Search, literal: int) -> bool:
    """Return whether a literal is true in the state."""
    return s.state[literal >> 1] != (literal & 1)


@kernel
def _update(cl: Clauses, s: Search, c: int) -> None:
    """Add a clause to its list of broken clauses, or remove it."""
    kind = HARD if c < cl.hard else SOFT
    first = cl.hard * kind
    broken = (s.weight[c] > 0 and s.n_true[c] == 0) or (s.weight[c] < 0 and s.n_true[c] > 0)
    if broken and s.place[c] == NONE:
        s.place[c] = first + s.size[kind]
        s.broken[s.place[c]] = c
        s.size[kind] += 1
    elif not broken and s.place[c] != NONE:
        s.size[kind] -= 1
        last = s.broken[first + s.size[kind]]
        s.broken[s.place[c]] = last
        s.place[last] = s.place[c]
        s.place[c] = NONE


@kernel
def count(cl: Clauses, s: Search) -> None:
    """Count the true literals and list the broken clauses of ``s.state`` from nothing.

    First, the defined atoms get the values that follow from the others.
    """
    for gate in range(cl.gates):
        literal, true = cl.literal[cl.start[gate]], True
        for p in range(cl.start[gate] + 1, cl.start[gate + 1]):
            true = true and not literal_true(s, cl.literal[p])
        s.state[literal >> 1] = true == (literal & 1 == 0)
    s.size[:] = 0
    s.place[:] = NONE
    for c in range(len(cl.weight)):
        s.n_true[c] = 0
        for p in range(cl.start[c], cl.start[c + 1]):
            s.n_true[c] += literal_true(s, cl.literal[p])
        _update(cl, s, c)


@kernel
def _tilt(cl: Clauses, s: Search, atom: int) -> None:
    """Flip one atom in the state and the counts, not in the lists of broken clauses."""
    s.state[atom] ^= 1
    true = 2 * atom + (s.state[atom] == 0)
    for p in range(cl.occ_start[true], cl.occ_start[true + 1]):
        s.n_true[cl.occ[p]] += 1
    false = true ^ 1
    for p in range(cl.occ_start[false], cl.occ_start[false + 1]):
        s.n_true[cl.occ[p]] -= 1


@kernel
def _follower(cl: Clauses, s: Search, atom: int) -> int:
    """Return an atom that flips because this one and others did, or NONE.

    A gate's clause has one true literal where the gate's atom is true, and some where it is false.
    """
    for literal in range(2 * atom, 2 * atom + 2 if cl.gates > 0 else 0):
        p = cl.occ_start[literal]
        while p < cl.occ_start[literal + 1] and cl.occ[p] < cl.gates:
            if s.due[cl.occ[p]] == NONE:
                s.due[cl.occ[p]] = s.due[cl.gates]
                s.due[cl.gates] = cl.occ[p]
            p += 1
    while s.due[cl.gates] != END:
        gate = s.due[cl.gates]
        s.due[cl.gates], s.due[gate] = s.due[gate], NONE
        literal = cl.literal[cl.start[gate]]
        if s.n_true[gate] == 0 or (s.n_true[gate] > 1 and literal_true(s, literal)):
            return literal >> 1
    return NONE


@kernel
def flip(cl: Clauses, s: Search, atom: int) -> None:
    """Flip an atom and the defined atoms that follow."""
    while atom != NONE:
        _tilt(cl, s, atom)
        for p in range(cl.occ_start[2 * atom], cl.occ_start[2 * atom + 2]):
            _update(cl, s, cl.occ[p])
        atom = _follower(cl, s, atom)


@kernel
def _own_gain(cl: Clauses, s: Search, atom: int) -> float:
    """Return the weight that becomes true less the weight that becomes false when this atom alone flips."""
    total = 0.0
    becomes_true = 2 * atom + s.state[atom]
    for p in range(cl.occ_start[becomes_true], cl.occ_start[becomes_true + 1]):
        c = cl.occ[p]
        total += s.weight[c] if s.n_true[c] == 0 else 0.0
    becomes_false = becomes_true ^ 1
    for p in range(cl.occ_start[becomes_false], cl.occ_start[becomes_false + 1]):
        c = cl.occ[p]
        total -= s.weight[c] if s.n_true[c] == 1 else 0.0
    return total


@kernel
def turn(cl: Clauses, s: Search, atom: int) -> None:
    """Flip an atom and the defined atoms that follow, not in the lists of broken clauses."""
    while atom != NONE:
        _tilt(cl, s, atom)
        atom = _follower(cl, s, atom)


@kernel
def turn_gain(cl: Clauses, s: Search, atom: int) -> float:
    """Do as ``turn``, and return the gain."""
    total = 0.0
    while atom != NONE:
        total += _own_gain(cl, s, atom)
        _tilt(cl, s, atom)
        atom = _follower(cl, s, atom)
    return total


@kernel
def gain(cl: Clauses, s: Search, atom: int) -> float:
    """Return the gain of flipping an atom and the defined atoms that follow."""
    if cl.gates == 0:
        return _own_gain(cl, s, atom)
    total = turn_gain(cl, s, atom)
    turn(cl, s, atom)
    return total


@kernel
def move_gain(cl: Clauses, s: Search, off: int, on: int) -> float:
    """Return the gain of flipping both atoms, of which either may be NONE."""
    if off < 0 or on < 0:
        return gain(cl, s, max(off, on))
    total = turn_gain(cl, s, off)
    total += gain(cl, s, on)
    turn(cl, s, off)
    return total


@kernel
def true_atom(cl: Clauses, s: Search, v: int) -> int:
    """Return the true atom of a variable, or NONE."""
    for atom in range(cl.var_start[v], cl.var_start[v + 1]):
        if s.state[atom]:
            return atom
    return NONE


@kernel
def apply(cl: Clauses, s: Search, off: int, on: int) -> None:
    """Make a move."""
    if off >= 0:
        flip(cl, s, off)
    if on >= 0:
        flip(cl, s, on)


@kernel
def choose(
    cl: Clauses, s: Search, c: int, noise: float, least: float, oldest: int, rng: Generator
) -> float:
    """Choose a move that mends a broken clause, and write it to ``s.move``.

    The move gives the right value to a literal of the clause or, if its atom is defined, to a literal that
    defines it. With probability ``noise`` it is any such move, else one of the greatest gain (ties at
    random). Variables that have moved since step ``oldest`` are excluded, unless they gain more than
    ``least``. Returns the gain; -inf if there is no move.
    """
    anything = uniform(rng) < noise
    best, ties = -np.inf, 0
    for p in range(cl.aim_start[c], cl.aim_start[c + 1]):
        literal = cl.aim[p]
        if literal_true(s, literal) != (s.weight[c] < 0):
            continue
        atom = literal >> 1
        v = cl.var_of[atom]
        first, last = cl.var_start[v], cl.var_start[v + 1]
        off = true_atom(cl, s, v)
        if off >= 0 and s.fixed[off] != OPEN:
            continue
        if s.state[atom] == 0:  # becomes true: one value; becomes false: any of the others
            first, last = atom, atom + 1
        for on in range(first - 1, last):
            target = on if on >= first else NONE
            if target == NONE and (s.state[atom] == 0 or cl.exactly[v]):
                continue
            if target >= 0 and (target == off or s.fixed[target] != OPEN):
                continue
            gained = move_gain(cl, s, off, target)
            value = 0.0 if anything else gained
            if value < best or not (anything or s.moved[v] < oldest or gained > least):
                continue
            ties = 1 if value > best else ties + 1
            if ties == 1 or uniform(rng) * ties < 1:
                s.move[OFF], s.move[ON], best = off, target, value
    if best == -np.inf or not anything:
        return best
    return move_gain(cl, s, s.move[OFF], s.move[ON])


@kernel
def cost(cl: Clauses, s: Search) -> float:
    """Return the sum of the absolute weights of the broken clauses."""
    total = 0.0
    for i in range(s.size[HARD]):
        total += abs(s.weight[s.broken[i]])
    for i in range(s.size[SOFT]):
        total += abs(s.weight[s.broken[cl.hard + i]])
    return total


@kernel
def pick_broken(cl: Clauses, s: Search, rng: Generator) -> int:
    """Return a random broken hard clause; if there is none, a broken soft one."""
    if s.size[HARD] > 0:
        return s.broken[below(rng, s.size[HARD])]
    return s.broken[cl.hard + below(rng, s.size[SOFT])]


@kernel
def maxwalksat(
    cl: Clauses, s: Search, flips: int, noise: float, tabu: int, rng: Generator, best: Bytes
) -> float:
    """Search from ``s.state`` for so many steps; writes the best state and returns its cost.

    Ends early if no clause is broken. No variable moves again within ``tabu`` steps, except by noise or to
    improve on the best state. Unlike in the paper, a move that loses weight is made with probability
    ``noise`` only, unless a hard clause is broken. If the best state breaks hundreds of clauses, making every
    such move would drift away from it.
    """
    count(cl, s)
    s.moved[:] = -tabu - 1
    current = cost(cl, s)
    lowest = current
    copy(s.state, best)
    for step in range(flips):
        if s.size[HARD] + s.size[SOFT] == 0:
            break
        c = pick_broken(cl, s, rng)
        gained = choose(cl, s, c, noise, current - lowest + TIE, step - tabu, rng)
        if gained == -np.inf or (gained < 0 and s.size[HARD] == 0 and uniform(rng) >= noise):
            continue
        off, on = s.move[OFF], s.move[ON]
        apply(cl, s, off, on)
        s.moved[cl.var_of[max(off, on)]] = step
        current -= gained
        if current < lowest - TIE:
            lowest = current = cost(cl, s)
            copy(s.state, best)
    return lowest
