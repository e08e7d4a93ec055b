"""Gibbs sampling: marginals by drawing one variable after another given all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.ground.model import ClauseModel, Floats
from onlinesrl.infer.engine import Marginals
from onlinesrl.infer.reduce import reduced
from onlinesrl.infer.walksat import feasible_state
from onlinesrl.kernels import sampling, walksat
from onlinesrl.kernels.clauses import generator

FLIPS = 100_000
"""Moves that the search for a first state may take."""


@dataclass(frozen=True)
class Gibbs:
    """Gibbs sampling in systematic order, the atoms of a group as one block.

    The chain stays among the feasible states and moves by one variable at a time. Atoms that hard
    clauses make equal, opposite or fixed move as one; hard clauses that separate the feasible states in
    other ways (a parity over three atoms, a cycle of implications) keep the chain in the part where
    it starts, and the marginals are those of this part: use McSat or Exact there. The random numbers
    depend on ``seed`` and ``record`` alone.
    """

    sweeps: int = 20_000
    burn_in: int = 1_000
    seed: int = 0
    record: int = 0

    def marginals(self, model: ClauseModel, weights: Floats) -> Marginals:
        """As ``MarginalEngine.marginals``; Unsolved where no first state is found."""
        problem, rng = reduced(model, weights), generator(self.seed, self.record)
        memory = walksat.search(problem.clauses)
        memory.state[:] = feasible_state(problem, FLIPS, rng)
        probability = np.zeros(problem.n_atoms)
        sampling.gibbs(
            problem.clauses,
            memory,
            self.burn_in,
            self.sweeps,
            rng,
            probability,
            np.zeros(problem.n_atoms),
        )
        estimate: Floats = np.minimum(probability / self.sweeps, 1.0)
        return Marginals(problem.expand(estimate), None, "gibbs", self.sweeps)
