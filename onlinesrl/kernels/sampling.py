"""Markov chains over weighted clauses: Gibbs sweeps by variable, and MC-SAT with SampleSAT.

Both add to ``probability[atom]`` at every sample the probability that the atom is true given the rest
of what was drawn, not the value drawn: the mean is the same, its variance smaller.
"""

import math

import numpy as np

from onlinesrl.kernels.clauses import Clauses, Generator, below, copy, uniform
from onlinesrl.kernels.completion import Trail, clear, fix_literal, propagate, units
from onlinesrl.kernels.jit import inlined, kernel
from onlinesrl.kernels.network import OPEN, TRUE, Bytes, Floats, Ints32
from onlinesrl.kernels.walksat import (
    HARD,
    NONE,
    OFF,
    ON,
    SOFT,
    Search,
    apply,
    choose,
    count,
    flip,
    gain,
    move_gain,
    pick_broken,
    true_atom,
)

REQUIRED = 1000.0
"""A sliced clause's weight: exp(-1000) is 0 in a float, so that no draw ever breaks it."""
TEMPERATURE, NOISE, ANY_STEP = 0.5 * REQUIRED, 0.5, 1 << 62
"""SampleSAT's: of its annealing moves, and of its WalkSAT moves."""


@inlined
def _resample_atom(
    cl: Clauses, s: Search, v: int, share: float, probability: Floats, rng: Generator
) -> None:
    """Draw a variable of one atom given the others."""
    atom = cl.var_start[v]
    change = 1.0 / (1.0 + math.exp(-gain(cl, s, atom)))
    probability[atom] += share * (change if s.state[atom] == 0 else 1.0 - change)
    if uniform(rng) < change:
        flip(cl, s, atom)


@inlined
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
        flip(cl, s, now)
    none = -np.inf if cl.exactly[v] else 0.0
    top = none
    for atom in range(first, last):
        score[atom] = gain(cl, s, atom) if s.fixed[atom] == OPEN else -np.inf
        top = max(top, score[atom])
    total = math.exp(none - top)
    for atom in range(first, last):
        score[atom] = math.exp(score[atom] - top)
        total += score[atom]
    left = uniform(rng) * total
    chosen = NONE
    for atom in range(first, last):
        probability[atom] += share * score[atom] / total
        if chosen == NONE:
            left -= score[atom]
            if left < 0:
                chosen = atom
    if chosen == NONE and cl.exactly[v]:
        chosen = now
    if chosen >= 0:
        flip(cl, s, chosen)


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
def gibbs(
    cl: Clauses,
    s: Search,
    burn_in: int,
    sweeps: int,
    rng: Generator,
    probability: Floats,
    score: Floats,
) -> None:
    """Sweep over the variables in their order, from ``s.state``, feasible; sums up the last sweeps.

    Geman & Geman (1984), with a variable's values as one block.
    """
    count(cl, s)
    for sweep in range(burn_in + sweeps):
        share = 1.0 if sweep >= burn_in else 0.0
        for v in range(len(cl.exactly)):
            resample(cl, s, v, share, probability, score, rng)


@inlined
def _slice(cl: Clauses, s: Search, t: Trail, rng: Generator) -> None:
    """Draw the clauses that must stay as they are; ``s.weight`` is REQUIRED for them, else 0.

    A clause of weight w > 0 that is true stays so with probability 1 - exp(-w); one of w < 0 that
    is false stays false with probability 1 - exp(w), so that its literals are fixed.
    """
    clear(t)
    for c in range(len(cl.weight)):
        w = cl.weight[c]
        s.weight[c] = 0.0
        if w > 0 and s.n_true[c] > 0:
            if c < cl.hard or uniform(rng) >= math.exp(-w):
                s.weight[c] = REQUIRED
        elif w < 0 and s.n_true[c] == 0 and uniform(rng) >= math.exp(w):
            for p in range(cl.start[c], cl.start[c + 1]):
                fix_literal(t, cl.literal[p] ^ 1)


@inlined
def _tied(cl: Clauses, s: Search, t: Trail, v: int) -> int:
    """Say how free propagation left a variable: 0 fixed, 1 free of every clause, 2 neither."""
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


@inlined
def _any_value(cl: Clauses, t: Trail, s: Search, v: int, rng: Generator) -> None:
    """Give a variable that is not fixed a random one of the values that are left to it."""
    values = 0 if cl.exactly[v] else 1
    for atom in range(cl.var_start[v], cl.var_start[v + 1]):
        values += t.fixed[atom] == OPEN
    chosen = below(rng, values) - (0 if cl.exactly[v] else 1)
    for atom in range(cl.var_start[v], cl.var_start[v + 1]):
        s.state[atom] = 0
        if t.fixed[atom] == OPEN:
            s.state[atom] = chosen == 0
            chosen -= 1


@inlined
def _place(
    cl: Clauses,
    s: Search,
    t: Trail,
    jumps: bool,
    share: float,
    probability: Floats,
    tied: Ints32,
    rng: Generator,
) -> int:
    """Set what propagation fixed, and draw what it left free of every clause; add up both.

    Returns how many variables are neither, listed in ``tied``; they get any value if ``jumps``.
    """
    n_tied = 0
    for v in range(len(cl.exactly)):
        freedom = _tied(cl, s, t, v)
        if freedom == 2:
            tied[n_tied] = v
            n_tied += 1
        if freedom == 1 or (freedom == 2 and jumps):
            _any_value(cl, t, s, v, rng)
        values = 0.0 if cl.exactly[v] else 1.0
        for atom in range(cl.var_start[v], cl.var_start[v + 1]):
            values += t.fixed[atom] == OPEN
        for atom in range(cl.var_start[v], cl.var_start[v + 1]):
            if freedom == 0:
                s.state[atom] = t.fixed[atom] == TRUE
                probability[atom] += share * s.state[atom]
            elif freedom == 1 and t.fixed[atom] == OPEN:
                probability[atom] += share / values
    return n_tied


@inlined
def _anneal(cl: Clauses, s: Search, v: int, temperature: float, rng: Generator) -> None:
    """Give a variable a random other value, or with the probability of Metropolis."""
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


@inlined
def _sample_sat(
    cl: Clauses,
    s: Search,
    tied: Ints32,
    n_tied: int,
    flips: int,
    rng: Generator,
) -> bool:
    """Satisfy the sliced clauses by WalkSAT and annealing moves at even odds.

    Wei, Erenrich & Selman (2004). False: not within so many moves.
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
    burn_in: int,
    samples: int,
    flips: int,
    sweeps: int,
    jump: float,
    rng: Generator,
    probability: Floats,
    score: Floats,
    kept: Bytes,
    tied: Ints32,
) -> int:
    """Run MC-SAT (Poon & Domingos 2006) from ``s.state``, feasible; sums up the last samples.

    A sample: slice; propagate; go on from the last sample or, with probability ``jump``, from what
    SampleSAT finds from a random state (the last sample where it finds nothing); then ``sweeps``
    Gibbs sweeps among the solutions, which leave the uniform distribution as it is and undo the
    bias of the search. Returns the number of failures. ``score`` [atom], ``kept`` [atom] and
    ``tied`` [variable] are scratch.
    """
    failures = 0
    copy(cl.weight, s.weight)
    count(cl, s)
    for sample in range(burn_in + samples):
        share = 1.0 if sample >= burn_in else 0.0
        _slice(cl, s, t, rng)
        units(cl, t, s.weight)
        propagate(cl, t, s.weight)
        copy(s.state, kept)
        jumps = uniform(rng) < jump
        n_tied = _place(cl, s, t, jumps, share, probability, tied, rng)
        copy(t.fixed, s.fixed)
        count(cl, s)
        if not _sample_sat(cl, s, tied, n_tied, flips, rng):
            failures += share > 0
            copy(kept, s.state)
            count(cl, s)
        for _ in range(sweeps):
            for i in range(n_tied):
                resample(cl, s, tied[i], share / sweeps, probability, score, rng)
        copy(cl.weight, s.weight)
        count(cl, s)
    return failures
