"""MC-SAT: marginals by slice sampling, across hard and nearly hard clauses (Poon & Domingos 2006)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinesrl.core import search_status
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

    A sample satisfies the hard clauses and a random part of the other clauses that the last one satisfies.
    With probability ``jump``, SampleSAT searches for it from a random state, in up to ``flips`` moves. Such
    a search reaches all modes, but finds some solutions more often than others. Otherwise the chain goes on
    from the last sample. In both cases ``sweeps`` sweeps of Gibbs sampling among the solutions follow. Then
    come block moves between the modes of the starts, and a sweep of Gibbs sampling among all states. These
    steps have no bias. The small bias of the search is the same in all chains, so no diagnostic shows it.
    """

    flips: int = 10_000
    sweeps: int = 10
    jump: float = 0.5
    route: ClassVar[str] = "mcsat"

    def sampler(self, problem: Reduced, blocks: gibbs_mcsat.Blocks = NO_BLOCKS) -> Draw:
        """See ``Chains.sampler``."""
        clauses, n_atoms = problem.clauses, problem.n_atoms
        memory = maxwalksat.search(clauses)
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
    """Yield the samples of a chain that starts from a feasible state. Raises Infeasible."""
    problem = reduced(model, weight)
    draw, rng = McSat().sampler(problem), generator(seed, record, 0)
    sample, sums = state[problem.atoms], np.zeros((2, problem.n_atoms))
    while True:
        draw(sample, 1, rng, *sums)
        search_status.poll()
        yield problem.expand(sample)
