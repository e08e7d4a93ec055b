"""Markov chains over weighted clauses: Gibbs sweeps by variable, and MC-SAT with SampleSAT.

A draw of an atom is at every sample the probability that it is true given the rest of what was drawn,
not the value drawn: the mean is the same, its variance smaller. Of the atoms that others define it is
the value. Both samplers flip *blocks* of atoms between their samples, which leaves the distribution as
it is and leads from mode to mode.
"""

import math

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.core.kernels.random import Generator, below, uniform
from onlinesrl.mln.kernels.clauses import Clauses, copy
from onlinesrl.mln.kernels.ground_network import OPEN
from onlinesrl.mln.kernels.maxwalksat import (
    NONE,
    Search,
    count,
    gain,
    true_atom,
    turn,
    turn_gain,
)
from onlinesrl.mln.kernels.samplesat import solution
from onlinesrl.mln.kernels.unit_propagation import Trail


@kernel
def _resample_atom(
    cl: Clauses, s: Search, v: int, share: float, probability: Floats, rng: Generator
) -> None:
    """Draw a variable of one atom given the others."""
    atom = cl.var_start[v]
    change = 1.0 / (1.0 + math.exp(-gain(cl, s, atom)))
    probability[atom] += share * (change if s.state[atom] == 0 else 1.0 - change)
    if uniform(rng) < change:
        turn(cl, s, atom)


@kernel
def _resample_group(
    cl: Clauses,
    s: Search,
    v: int,
    share: float,
    probability: Floats,
    score: Floats,
    rng: Generator,
) -> None:
    """Draw the value of a group given all other variables; ``score`` is scratch, [atom]."""
    first, last = cl.var_start[v], cl.var_start[v + 1]
    now = true_atom(cl, s, v)
    if now >= 0:
        turn(cl, s, now)
    none = -np.inf if cl.exactly[v] else 0.0
    top = none
    for atom in range(first, last):
        score[atom] = gain(cl, s, atom) if s.fixed[atom] == OPEN else -np.inf
        top = max(top, score[atom])
    total = math.exp(none - top)
    for atom in range(first, last):
        score[atom] = math.exp(score[atom] - top)
        total += score[atom]
    threshold = uniform(rng) * total
    chosen = NONE
    for atom in range(first, last):
        probability[atom] += share * score[atom] / total
        if chosen == NONE:
            threshold -= score[atom]
            if threshold < 0:
                chosen = atom
    if chosen == NONE and cl.exactly[v]:
        chosen = now
    if chosen >= 0:
        turn(cl, s, chosen)


@kernel
def resample(
    cl: Clauses,
    s: Search,
    v: int,
    share: float,
    probability: Floats,
    score: Floats,
    rng: Generator,
) -> None:
    """Draw a variable given all others, and add ``share`` of its atoms' probabilities.

    The broken hard clauses of ``s.state`` are none; those of a variable's other values outweigh
    everything, so that their probability is 0.
    """
    if cl.var_start[v + 1] - cl.var_start[v] > 1:
        _resample_group(cl, s, v, share, probability, score, rng)
    elif not cl.exactly[v]:
        _resample_atom(cl, s, v, share, probability, rng)
    else:
        probability[cl.var_start[v]] += share


@kernel
def _add_draw(cl: Clauses, s: Search, probability: Floats, total: Floats, square: Floats) -> None:
    """Add a draw and its square to their sums, of defined atoms the values; clears the draw."""
    for atom in range(len(cl.var_of)):
        if atom >= len(cl.var_of) - cl.gates:
            probability[atom] = s.state[atom]
        total[atom] += probability[atom]
        square[atom] += probability[atom] * probability[atom]
        probability[atom] = 0.0


class Blocks(Frame):
    """Sets of atoms to flip as one, such as those that two states differ in."""

    start: Ints32  # [block + 1]
    atom: Ints32
    proposals: int  # after each draw


@kernel
def _in_groups(cl: Clauses, s: Search, blocks: Blocks, k: int) -> bool:
    """Return whether the variables of a block have as many true atoms as they may."""
    for p in range(blocks.start[k], blocks.start[k + 1]):
        v = cl.var_of[blocks.atom[p]]
        n_true = 0
        for atom in range(cl.var_start[v], cl.var_start[v + 1]):
            n_true += s.state[atom]
        if n_true > 1 or n_true < cl.exactly[v]:
            return False
    return True


@kernel
def _flip_block(cl: Clauses, s: Search, blocks: Blocks, k: int) -> float:
    """Flip a block, which may leave the groups; returns the gain."""
    gained = 0.0
    for p in range(blocks.start[k], blocks.start[k + 1]):
        gained += turn_gain(cl, s, blocks.atom[p])
    return gained


@kernel
def _flip_blocks(cl: Clauses, s: Search, blocks: Blocks, rng: Generator) -> None:
    """Flip random blocks, each with the probability of Metropolis."""
    for _ in range(blocks.proposals):
        k = below(rng, len(blocks.start) - 1)
        gained = _flip_block(cl, s, blocks, k)
        accepted = gained >= 0 or uniform(rng) < math.exp(gained)
        if not (accepted and _in_groups(cl, s, blocks, k)):
            for p in range(blocks.start[k], blocks.start[k + 1]):
                turn(cl, s, blocks.atom[p])


@kernel
def gibbs(
    cl: Clauses,
    s: Search,
    blocks: Blocks,
    sweeps: int,
    rng: Generator,
    total: Floats,
    square: Floats,
    probability: Floats,
    score: Floats,
) -> None:
    """Sweep over the variables in their order, from ``s.state``, feasible; adds up each sweep's draw.

    Geman & Geman (1984), with a variable's values as one block. ``probability`` [atom], all 0, and
    ``score`` [atom] are scratch.
    """
    count(cl, s)
    for _ in range(sweeps):
        for v in range(cl.drawn):
            if s.stop[0]:
                return
            resample(cl, s, v, 1.0, probability, score, rng)
        _add_draw(cl, s, probability, total, square)
        _flip_blocks(cl, s, blocks, rng)


@kernel
def mcsat(
    cl: Clauses,
    s: Search,
    t: Trail,
    blocks: Blocks,
    samples: int,
    flips: int,
    sweeps: int,
    jump: float,
    rng: Generator,
    total: Floats,
    square: Floats,
    probability: Floats,
    score: Floats,
    saved_state: Bytes,
    tied: Ints32,
) -> int:
    """Run MC-SAT (Poon & Domingos 2006) from ``s.state``, feasible; adds up each sample's draw.

    A sample: slice; propagate; continue from the last sample or, with probability ``jump``, from what
    SampleSAT finds from a random state (the last sample where it finds nothing); then ``sweeps``
    Gibbs sweeps among the solutions, which leave the uniform distribution as it is and undo the
    bias of the search. At its end are blocks and a sweep of Gibbs sampling itself, whose draw it
    is: it moves what slices hold by soft clauses. Returns the number of failures. ``probability``
    [atom], all 0, ``score`` [atom], ``saved_state`` [atom] and ``tied`` [variable] are scratch.
    """
    failures = 0
    copy(cl.weight, s.weight)
    count(cl, s)
    for _ in range(samples):
        n_tied, feasible = solution(cl, s, t, flips, jump, rng, saved_state, tied)
        failures += not feasible
        for _ in range(sweeps):
            if s.stop[0]:
                return failures
            for i in range(n_tied):
                resample(cl, s, tied[i], 0.0, probability, score, rng)
        copy(cl.weight, s.weight)
        s.fixed[:] = OPEN
        count(cl, s)
        _flip_blocks(cl, s, blocks, rng)
        for v in range(cl.drawn):
            resample(cl, s, v, 1.0, probability, score, rng)
        _add_draw(cl, s, probability, total, square)
    return failures
