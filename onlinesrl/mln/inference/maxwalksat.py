"""MaxWalkSAT: a state of high score by stochastic local search, not certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.kernels.random import Generator, generator
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.presolve import Reduced, reduced
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.kernels import maxwalksat as kernel
from onlinesrl.mln.kernels import unit_propagation
from onlinesrl.mln.kernels.ground_network import TRUE

BACKTRACKS = 10_000
"""The most backtracks of completion before local search."""


@dataclass(frozen=True)
class WalkSat:
    """MaxWalkSAT with tabu (Kautz, Selman & Jiang 1997; Selman, Kautz & Cohen 1993).

    The first of ``tries`` starts from a greedy state, the others from random ones. Each makes up to
    ``flips`` moves; while hard clauses are broken, a move mends one of them. With probability ``noise`` a
    move is random, and with the same probability a move that loses weight is made. No variable moves again
    within ``tabu`` steps. The random numbers depend only on ``seed`` and ``record``. Raises Unsolved if no
    feasible state is found.
    """

    flips: int = 100_000
    tries: int = 3
    noise: float = 0.01
    tabu: int = 5
    seed: int = 0
    record: int = 0

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; never certified, with an infinite bound."""
        state = self.search(model, reduced(model, weight, bonus))
        score = model.score(state, weight, bonus)
        return Solution(state, score, np.inf, "walksat", certified=False)

    def search(self, model: GroundMRF, problem: Reduced) -> State:
        """Return the best state found of a model that is simplified. Raises Unsolved."""
        clauses, rng = problem.clauses, generator(self.seed, self.record)
        memory = kernel.search(clauses)
        preferences = np.random.default_rng((self.seed, self.record))
        best, lowest = memory.state.copy(), np.inf
        candidate = np.zeros_like(best)
        preferred = np.full(problem.n_atoms, unit_propagation.BY_GAIN, np.uint8)
        for _ in range(self.tries):
            memory.state[:], _ = complete_state(problem, preferred)
            cost = kernel.maxwalksat(
                clauses, memory, self.flips, self.noise, self.tabu, rng, candidate
            )
            if cost < lowest:
                best, lowest = candidate.copy(), cost
            if cost == 0:
                break
            preferred = preferences.integers(2, size=problem.n_atoms, dtype=np.uint8)
        state = problem.expand(best)
        if not model.feasible(state):
            raise Unsolved(
                f"MaxWalkSAT found no state that satisfies the hard clauses in {self.tries} tries "
                f"of {self.flips} steps: raise flips or tries, or use an exact engine"
            )
        return state


def complete_state(
    problem: Reduced, preferred: State, order: Ints32 | None = None
) -> tuple[State, bool]:
    """Return a state near ``preferred`` that satisfies the groups, and whether it satisfies the hard clauses.

    ``order`` and ``preferred`` as in ``unit_propagation.complete``. Raises Infeasible if the hard clauses are
    proved to have no solution.
    """
    clauses = problem.clauses
    trail = unit_propagation.trail(problem.n_atoms, len(clauses.weight))
    required = (np.arange(len(clauses.weight)) < clauses.hard).astype(np.float64)
    order = np.arange(problem.n_atoms, dtype=np.int32) if order is None else order
    status = unit_propagation.complete(clauses, trail, required, order, preferred, BACKTRACKS)
    if status == unit_propagation.CONTRADICTION:
        raise Infeasible("no state satisfies the hard clauses and the groups")
    state = np.zeros(problem.n_atoms, np.uint8)
    true = np.flatnonzero(trail.fixed == TRUE)
    variables, first = np.unique(clauses.var_of[true], return_index=True)
    state[true[first]] = 1
    missing = np.setdiff1d(np.flatnonzero(clauses.exactly), variables)
    state[clauses.var_start[missing]] = 1
    return state, status == unit_propagation.COMPLETE


def feasible_state(
    problem: Reduced, flips: int, rng: Generator, preferred: State, order: Ints32
) -> State:
    """Return a feasible state near ``preferred``, by completion, else by WalkSAT.

    ``order`` and ``preferred`` as in ``unit_propagation.complete``. Raises Infeasible or Unsolved.
    """
    state, feasible = complete_state(problem, preferred, order)
    if feasible:
        return state
    memory = kernel.search(problem.clauses)
    memory.weight[problem.clauses.hard :] = 0.0
    memory.state[:] = state
    if kernel.maxwalksat(problem.clauses, memory, flips, 0.5, 0, rng, state) > 0:
        raise Unsolved(
            f"WalkSAT found no state that satisfies the hard clauses in {flips} steps: raise flips"
        )
    return state
