"""Several Markov chains from overdispersed starts, and diagnostics from comparing them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinesrl.core import interrupt
from onlinesrl.core.arrays import Floats
from onlinesrl.mln.engines.diagnostics import BATCHES, Tally
from onlinesrl.mln.engines.engine import Marginals
from onlinesrl.mln.engines.reduce import Reduced, reduced
from onlinesrl.mln.engines.starts import blocks, starts
from onlinesrl.mln.ground.model import ClauseModel, State
from onlinesrl.mln.kernels.clauses import Generator, generator
from onlinesrl.mln.kernels.sampling import Blocks

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
    def _sampler(self, problem: Reduced, blocks: Blocks) -> Draw:
        """Return what draws samples of a problem."""

    def marginals(self, model: ClauseModel, weight: Floats) -> Marginals:
        """See ``MarginalEngine.marginals``; Unsolved where no first state is found."""
        problem = reduced(model, weight)
        found = starts(problem, self.seed, self.record)
        draw = self._sampler(problem, blocks(problem, found.annealed))
        states = [found.of(chain) for chain in range(self.chains)]
        rngs = [generator(self.seed, self.record, chain) for chain in range(self.chains)]
        tally = Tally(self.chains, problem.n_atoms, -(-self.samples // (self.chains * BATCHES)))
        for state, rng in zip(states, rngs, strict=True):
            draw(state, self.burn_in, rng, *np.zeros((2, problem.n_atoms)))
        tally.fill(draw, states, rngs)
        while self._goes_on(tally):
            interrupt.check()
            tally.halve()
            tally.fill(draw, states, rngs)
        interrupt.check()
        diagnostics = tally.diagnostics().of(problem.stands_for, tally.samples)
        probability = problem.expand(tally.mean())
        return Marginals(probability, None, self.route, tally.samples, diagnostics)

    def _goes_on(self, tally: Tally) -> bool:
        if self.error is None or 2 * tally.samples > MOST:
            return False
        return not tally.diagnostics().reach(self.error)
