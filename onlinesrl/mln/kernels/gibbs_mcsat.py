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
from onlinesrl.mln.kernels.ground_network import OPEN, TRUE
from onlinesrl.mln.kernels.maxwalksat import (
    HARD,
    NONE,
    OFF,
    ON,
    SOFT,
    Search,
    apply,
    choose,
    count,
    gain,
    move_gain,
    pick_broken,
    true_atom,
    turn,
    turn_gain,
)
from onlinesrl.mln.kernels.unit_propagation import Trail, clear, fix_literal, propagate, units

REQUIRED = 1000.0
"""The weight of a clause in a slice; exp(-1000) is 0 in a double, so no draw breaks it."""
TEMPERATURE, NOISE, ANY_STEP = 0.5 * REQUIRED, 0.5, 1 << 62
"""The temperature of SampleSAT's annealing moves, and the noise of its WalkSAT moves without tabu."""


@kernel
def resample(
    cl: Clauses, s: Search, v: int, share: float, probability: Floats, score: Floats, rng: Generator
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
            resample(cl, s, v, 1.0, probability, score, rng)
        _add_draw(cl, s, probability, total, square)
        _flip_blocks(cl, s, blocks, rng)


@kernel
def _slice(cl: Clauses, s: Search, t: Trail, rng: Generator) -> None:
    """Draw the clauses that must stay as they are; the others get weight 0 in ``s.weight``.

    A true clause of weight w > 0 must stay true, with weight REQUIRED, with probability 1 - exp(-w). A false
    clause of w < 0 must stay false, with -REQUIRED, with probability 1 - exp(w); its literals are fixed.
    """
    clear(t)
    for c in range(len(cl.weight)):
        w = cl.weight[c]
        s.weight[c] = 0.0
        if w > 0 and s.n_true[c] > 0:
            if c < cl.hard or uniform(rng) >= math.exp(-w):
                s.weight[c] = REQUIRED
        elif w < 0 and s.n_true[c] == 0 and uniform(rng) >= math.exp(w):
            s.weight[c] = -REQUIRED
            for p in range(cl.start[c], cl.start[c + 1]):
                fix_literal(t, cl.literal[p] ^ 1)


@kernel
def _tied(cl: Clauses, s: Search, t: Trail, v: int) -> int:
    """Return how propagation left a variable: 0 fixed, 1 in no open clause, 2 neither."""
    open_ = False
    for atom in range(cl.var_start[v], cl.var_start[v + 1]):
        open_ = open_ or t.fixed[atom] == OPEN
    if not open_:
        return 0
    for literal in range(2 * cl.var_start[v], 2 * cl.var_start[v + 1]):
        for p in range(cl.occ_start[literal], cl.occ_start[literal + 1]):
            c = cl.occ[p]
            if s.weight[c] > 0 and t.n_true[c] == 0 and t.fixed[literal >> 1] == OPEN:
                return 2
    return 1


@kernel
def _place(cl: Clauses, s: Search, t: Trail, jumps: bool, tied: Ints32, rng: Generator) -> int:
    """Set the variables that propagation fixed, and draw those in no open clause.

    ``count`` computes defined atoms. The other variables are listed in ``tied``, and get a random value if
    ``jumps``. Returns their number.
    """
    n_tied = 0
    for v in range(cl.drawn):
        freedom = _tied(cl, s, t, v)
        if freedom == 2:
            tied[n_tied] = v
            n_tied += 1
        if freedom == 1 or (freedom == 2 and jumps):  # any of its open values
            values = 0 if cl.exactly[v] else 1
            for atom in range(cl.var_start[v], cl.var_start[v + 1]):
                values += t.fixed[atom] == OPEN
            index = below(rng, values) - (0 if cl.exactly[v] else 1)
            for atom in range(cl.var_start[v], cl.var_start[v + 1]):
                s.state[atom] = 0
                if t.fixed[atom] == OPEN:
                    s.state[atom] = index == 0
                    index -= 1
        elif freedom == 0:
            for atom in range(cl.var_start[v], cl.var_start[v + 1]):
                s.state[atom] = t.fixed[atom] == TRUE
    return n_tied


@kernel
def _anneal(cl: Clauses, s: Search, v: int, temperature: float, rng: Generator) -> None:
    """Propose a random other value of a variable, accepted with the Metropolis probability."""
    off = true_atom(cl, s, v)
    first = cl.var_start[v]
    on = first + below(rng, cl.var_start[v + 1] - first + 1) - 1
    on = on if on >= first else NONE
    if on == off or (on == NONE and cl.exactly[v]):
        return
    if (on >= 0 and s.fixed[on] != OPEN) or (off >= 0 and s.fixed[off] != OPEN):
        return
    gained = move_gain(cl, s, off, on)
    if gained >= 0 or uniform(rng) < math.exp(gained / temperature):
        apply(cl, s, off, on)


@kernel
def _sample_sat(
    cl: Clauses, s: Search, tied: Ints32, n_tied: int, flips: int, rng: Generator
) -> bool:
    """Satisfy the clauses of the slice by WalkSAT and annealing moves at even odds.

    Wei, Erenrich & Selman (2004). Returns whether this took at most ``flips`` moves.
    """
    for _ in range(flips):
        if s.size[HARD] + s.size[SOFT] == 0:
            return True
        if uniform(rng) < 0.5:
            _anneal(cl, s, tied[below(rng, n_tied)], TEMPERATURE, rng)
        else:
            c = pick_broken(cl, s, rng)
            if choose(cl, s, c, NOISE, np.inf, ANY_STEP, rng) > -np.inf:
                apply(cl, s, s.move[OFF], s.move[ON])
    return s.size[HARD] + s.size[SOFT] == 0


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
        _slice(cl, s, t, rng)
        units(cl, t, s.weight)
        propagate(cl, t, s.weight)
        copy(s.state, last)
        jumps = uniform(rng) < jump
        n_tied = _place(cl, s, t, jumps, tied, rng)
        copy(t.fixed, s.fixed)
        count(cl, s)
        if not _sample_sat(cl, s, tied, n_tied, flips, rng):
            failures += 1
            copy(last, s.state)
            count(cl, s)
        for _ in range(sweeps):
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
