"""MC-SAT: marginals by slice sampling, across hard and nearly hard clauses (Poon & Domingos 2006)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinesrl.core import interrupt
from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.random import Generator, generator
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.mcmc import NO_BLOCKS, Chains
from onlinesrl.mln.inference.mcmc_diagnostics import Draw
from onlinesrl.mln.inference.presolve import Reduced, reduced
from onlinesrl.mln.kernels import gibbs_mcsat, maxwalksat, unit_propagation


@dataclass(frozen=True)
class McSat(Chains):
    """MC-SAT with SampleSAT (Wei, Erenrich & Selman 2004) and unit propagation.

    A sample satisfies a random part of the clauses that the last one satisfies, the hard ones all.
    One in ``1 / jump`` samples is sought from a random state by SampleSAT, in up to ``flips`` moves;
    this crosses whatever separates solutions, but finds some more often than others. The rest go on
    from the last sample. Either way ``sweeps`` sweeps of Gibbs sampling among the solutions follow,
    then blocks that lead from one start's mode to another's, and a sweep of Gibbs sampling among all
    states; these have no bias. The search's bias, small, is the same in all chains: none of the
    diagnostics tells it.
    """

    flips: int = 10_000
    sweeps: int = 10
    jump: float = 0.5
    route: ClassVar[str] = "mcsat"

    def sampler(self, problem: Reduced, blocks: gibbs_mcsat.Blocks = NO_BLOCKS) -> Draw:
        """See ``Chains.sampler``."""
        clauses, n_atoms = problem.clauses, problem.n_atoms
        memory = maxwalksat.search(clauses, interrupt.flag())
        trail = unit_propagation.trail(n_atoms, len(clauses.weight))
        last, tied = np.zeros(n_atoms, np.uint8), np.zeros(len(clauses.exactly), np.int32)
        probability, score = np.zeros((2, n_atoms))

        def draw(state: State, n: int, rng: Generator, total: Floats, square: Floats) -> None:
            memory.state[:] = state
            gibbs_mcsat.mcsat(
                clauses,
                memory,
                trail,
                blocks,
                n,
                self.flips,
                self.sweeps,
                self.jump,
                rng,
                total,
                square,
                probability,
                score,
                last,
                tied,
            )
            state[:] = memory.state

        return draw


def from_on(
    state: State, model: GroundMRF, weight: Floats, seed: int, record: int
) -> Iterator[State]:
    """Yield samples of a chain that goes on from a feasible state. Raises Infeasible."""
    problem = reduced(model, weight)
    draw, rng = McSat().sampler(problem), generator(seed, record, 0)
    at, sums = state[problem.kept], np.zeros((2, problem.n_atoms))
    while True:
        draw(at, 1, rng, *sums)
        interrupt.check()
        yield problem.expand(at)
