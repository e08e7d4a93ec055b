"""Gibbs sampling: marginals by drawing one variable after another given all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.random import Generator
from onlinesrl.mln.ground.ground_mrf import State
from onlinesrl.mln.inference.mcmc import NO_BLOCKS, Chains
from onlinesrl.mln.inference.mcmc_diagnostics import Draw
from onlinesrl.mln.inference.presolve import Reduced
from onlinesrl.mln.kernels import gibbs_mcsat, maxwalksat


@dataclass(frozen=True)
class Gibbs(Chains):
    """Gibbs sampling in systematic order, the atoms of a group as one block; a sample is a sweep.

    The chains stay among the feasible states. They move by one variable at a time, and after each sweep by
    blocks that lead between the modes of the starts. Atoms that hard clauses make equal, opposite or fixed
    move as one, and atoms that hard clauses define follow. If no such move connects two modes, the chains
    that start in different ones disagree, and the diagnostics show it.
    """

    samples: int = 20_000
    burn_in: int = 1_000
    route: ClassVar[str] = "gibbs"

    def sampler(self, problem: Reduced, blocks: gibbs_mcsat.Blocks = NO_BLOCKS) -> Draw:
        """See ``Chains.sampler``."""
        memory = maxwalksat.search(problem.clauses)
        scratch, first = np.zeros((2, problem.n_atoms)), problem.clauses.defining

        def draw(state: State, n: int, rng: Generator, total: Floats, square: Floats) -> None:
            memory.state[:] = state
            memory.weight[first:] = problem.clauses.weight[first:]
            gibbs_mcsat.gibbs(problem.clauses, memory, blocks, n, rng, total, square, *scratch)
            state[:] = memory.state

        return draw
