"""Markov chains over weighted clauses: Gibbs sweeps by variable, and MC-SAT with SampleSAT.

What a sample adds for an atom is not its value but its probability given the rest of the state. The mean is
the same, and its variance smaller (Rao-Blackwell). For defined atoms it is the value. Both samplers flip
*blocks* of atoms between samples. This leaves the distribution as it is, and leads from mode to mode.
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

    No hard clause is broken in ``s.state``. A value that would break one has probability 0, because hard
    clauses outweigh everything. ``score`` is scratch, [atom].
    """
    first, last = cl.var_start[v], cl.var_start[v + 1]
    if last - first == 1:
        if cl.exactly[v]:
            probability[first] += share
            return
        change = 1.0 / (1.0 + math.exp(-gain(cl, s, first)))
        probability[first] += share * (change if s.state[first] == 0 else 1.0 - change)
        if uniform(rng) < change:
            turn(cl, s, first)
        return
    current = true_atom(cl, s, v)
    if current >= 0:
        turn(cl, s, current)
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
    value = NONE
    for atom in range(first, last):
        probability[atom] += share * score[atom] / total
        if value == NONE:
            threshold -= score[atom]
            if threshold < 0:
                value = atom
    if value == NONE and cl.exactly[v]:
        value = current
    if value >= 0:
        turn(cl, s, value)


@kernel
def _add_draw(cl: Clauses, s: Search, probability: Floats, total: Floats, square: Floats) -> None:
    """Add a draw and its square to their sums, and clear it; a defined atom counts by its value."""
    for atom in range(len(cl.var_of)):
        if atom >= len(cl.var_of) - cl.gates:
            probability[atom] = s.state[atom]
        total[atom] += probability[atom]
        square[atom] += probability[atom] * probability[atom]
        probability[atom] = 0.0


class Blocks(Frame):
    """Sets of atoms to flip as one, such as the atoms in which two states differ."""

    start: Ints32  # [block + 1]
    atom: Ints32
    proposals: int  # after each draw


@kernel
def _in_groups(cl: Clauses, s: Search, blocks: Blocks, k: int) -> bool:
    """Tell whether each variable of a block has an allowed number of true atoms."""
    for p in range(blocks.start[k], blocks.start[k + 1]):
        v = cl.var_of[blocks.atom[p]]
        n_true = 0
        for atom in range(cl.var_start[v], cl.var_start[v + 1]):
            n_true += s.state[atom]
        if n_true > 1 or n_true < cl.exactly[v]:
            return False
    return True


@kernel
def _flip_blocks(cl: Clauses, s: Search, blocks: Blocks, rng: Generator) -> None:
    """Propose flips of random blocks, each accepted with the Metropolis probability."""
    for _ in range(blocks.proposals):
        k, gained = below(rng, len(blocks.start) - 1), 0.0
        for p in range(blocks.start[k], blocks.start[k + 1]):
            gained += turn_gain(cl, s, blocks.atom[p])
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
    """Sweep over the variables in order, from the feasible ``s.state``, and add up each sweep's draw.

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
    last: Bytes,
    tied: Ints32,
) -> int:
    """Run MC-SAT (Poon & Domingos 2006) from the feasible ``s.state``, and add up each sample's draw.

    A sample begins with a slice and its propagation. It continues from the last sample or, with probability
    ``jump``, from the solution that SampleSAT finds from a random state, if it finds one. ``sweeps`` Gibbs
    sweeps among the solutions follow; they preserve the uniform distribution and reduce the bias of the
    search. Block flips and one sweep of ordinary Gibbs sampling end the sample. The draw is that of the last
    sweep, which also moves what slices hold fast by soft clauses. Returns how often SampleSAT failed.
    ``probability`` [atom], all 0, ``score`` [atom], ``last`` [atom] and ``tied`` [variable] are scratch.
    """
    failures = 0
    copy(cl.weight, s.weight)
    count(cl, s)
    for _ in range(samples):
        n_tied, feasible = solution(cl, s, t, flips, jump, rng, last, tied)
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
