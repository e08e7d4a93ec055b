"""SampleSAT (Wei, Erenrich & Selman 2004): a state in a slice of MC-SAT, near uniformly."""

import math

import numpy as np

from onlinesrl.core.arrays import Bytes, Ints32
from onlinesrl.core.jit.decorators import kernel
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
    move_gain,
    pick_broken,
    true_atom,
)
from onlinesrl.mln.kernels.unit_propagation import Trail, clear, fix_literal, propagate, units

REQUIRED = 1000.0
"""The weight of a clause in a slice; exp(-1000) is 0 in a double, so no draw breaks it."""
TEMPERATURE, NOISE, ANY_STEP = 0.5 * REQUIRED, 0.5, 1 << 62
"""The temperature of SampleSAT's annealing moves, and the noise of its WalkSAT moves without tabu."""


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
    cl: Clauses,
    s: Search,
    tied: Ints32,
    n_tied: int,
    flips: int,
    rng: Generator,
) -> bool:
    """Satisfy the clauses of the slice by WalkSAT and annealing moves at even odds.

    Wei, Erenrich & Selman (2004). Returns whether this took at most ``flips`` moves.
    """
    for _ in range(flips):
        if s.size[HARD] + s.size[SOFT] == 0 or s.stop[0]:
            return True
        if uniform(rng) < 0.5:
            _anneal(cl, s, tied[below(rng, n_tied)], TEMPERATURE, rng)
        else:
            c = pick_broken(cl, s, rng)
            if choose(cl, s, c, NOISE, np.inf, ANY_STEP, rng) > -np.inf:
                apply(cl, s, s.move[OFF], s.move[ON])
    return s.size[HARD] + s.size[SOFT] == 0


@kernel
def solution(
    cl: Clauses,
    s: Search,
    t: Trail,
    flips: int,
    jump: float,
    rng: Generator,
    last: Bytes,
    tied: Ints32,
) -> tuple[int, bool]:
    """Draw a slice and a state in it; returns the number of tied variables, and whether there is a state.

    Without one, the state stays as it was. ``last`` [atom] and ``tied`` [variable] are scratch.
    """
    _slice(cl, s, t, rng)
    units(cl, t, s.weight)
    propagate(cl, t, s.weight)
    copy(s.state, last)
    jumps = uniform(rng) < jump
    n_tied = _place(cl, s, t, jumps, tied, rng)
    copy(t.fixed, s.fixed)
    count(cl, s)
    feasible = _sample_sat(cl, s, tied, n_tied, flips, rng)
    if not feasible:
        copy(last, s.state)
        count(cl, s)
    return n_tied, feasible
