"""MC-SAT: marginals by slice sampling, across hard and nearly hard clauses (Poon & Domingos 2006)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinesrl.ground.model import ClauseModel, Floats
from onlinesrl.infer.engine import Marginals
from onlinesrl.infer.reduce import reduced
from onlinesrl.infer.walksat import feasible_state
from onlinesrl.kernels import completion, sampling, walksat
from onlinesrl.kernels.clauses import generator


@dataclass(frozen=True)
class McSat:
    """MC-SAT with SampleSAT (Wei, Erenrich & Selman 2004) and unit propagation.

    A sample satisfies a random part of the clauses that the last one satisfies, the hard ones all.
    One in ``1 / jump`` samples is sought from a random state by SampleSAT, in up to ``flips`` moves;
    this crosses whatever separates solutions, but finds some more often than others. The rest go on
    from the last sample. Either way ``sweeps`` sweeps of Gibbs sampling among the solutions follow,
    which have no bias. The random numbers depend on ``seed`` and ``record`` alone.
    """

    samples: int = 1_000
    burn_in: int = 100
    flips: int = 10_000
    sweeps: int = 10
    jump: float = 0.1
    seed: int = 0
    record: int = 0

    def marginals(self, model: ClauseModel, weights: Floats) -> Marginals:
        """As ``MarginalEngine.marginals``; Unsolved where no first state is found."""
        problem, rng = reduced(model, weights), generator(self.seed, self.record)
        clauses, atoms = problem.clauses, problem.n_atoms
        memory = walksat.search(clauses)
        memory.state[:] = feasible_state(problem, self.flips, rng)
        probability = np.zeros(atoms)
        sampling.mcsat(
            clauses,
            memory,
            completion.trail(atoms, len(clauses.weight)),
            self.burn_in,
            self.samples,
            self.flips,
            self.sweeps,
            self.jump,
            rng,
            probability,
            np.zeros(atoms),
            np.zeros(atoms, np.uint8),
            np.zeros(len(clauses.exactly), np.int32),
        )
        estimate: Floats = np.minimum(probability / self.samples, 1.0)
        return Marginals(problem.expand(estimate), None, "mcsat", self.samples)
