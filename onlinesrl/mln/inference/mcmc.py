"""Several Markov chains from overdispersed starts, and diagnostics from comparing them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinesrl.core import interrupt
from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.random import Generator, generator
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.mcmc_diagnostics import BATCHES, BatchMeans
from onlinesrl.mln.inference.mcmc_starts import NO_BLOCKS, blocks, starts
from onlinesrl.mln.inference.presolve import Reduced, reduced
from onlinesrl.mln.inference.protocols import Marginals
from onlinesrl.mln.kernels.gibbs_mcsat import Blocks

MOST = 1_000_000
"""Samples in all, beyond which no more are drawn for the sake of a wanted error."""

Draw = Callable[[State, int, Generator, Floats, Floats], object]
"""Draws so many samples from a state on, which it changes; adds them and their squares to two sums."""


@dataclass(frozen=True)
class Chains(ABC):
    """A sampler: ``samples`` in all, drawn by several chains after ``burn_in`` in each.

    With ``error``, as many again are drawn until ``Diagnostics.reach`` says so, or there would be more than
    ``MOST``. The random numbers depend on ``seed`` and ``record`` alone.
    """

    samples: int = 1_000
    burn_in: int = 100
    chains: int = 4
    error: float | None = None
    seed: int = 0
    record: int = 0
    route: ClassVar[str]

    @abstractmethod
    def sampler(self, problem: Reduced, blocks: Blocks = NO_BLOCKS) -> Draw:
        """Return what draws samples of a problem, by the weights that its clauses have at each call."""

    def marginals(self, model: GroundMRF, weight: Floats) -> Marginals:
        """See ``MarginalEngine.marginals``; Unsolved where no first state is found."""
        problem = reduced(model, weight)
        found = starts(problem, self.seed, self.record)
        draw = self.sampler(problem, blocks(problem, found.annealed))
        states = [found.of(chain) for chain in range(self.chains)]
        rngs = [generator(self.seed, self.record, chain) for chain in range(self.chains)]
        means = BatchMeans(
            self.chains, problem.n_atoms, -(-self.samples // (self.chains * BATCHES))
        )
        for state, rng in zip(states, rngs, strict=True):
            draw(state, self.burn_in, rng, *np.zeros((2, problem.n_atoms)))
        means.fill(draw, states, rngs)
        while self._goes_on(means):
            interrupt.check()
            means.halve()
            means.fill(draw, states, rngs)
        interrupt.check()
        diagnostics = means.diagnostics().of(problem.stands_for, means.samples)
        probability = problem.expand(means.mean())
        return Marginals(probability, None, self.route, means.samples, diagnostics)

    def _goes_on(self, means: BatchMeans) -> bool:
        if self.error is None or 2 * means.samples > MOST:
            return False
        return not means.diagnostics().reach(self.error)
