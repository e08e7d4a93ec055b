"""Several Markov chains from overdispersed starts, and diagnostics from comparing them.

The starts are annealed (Kirkpatrick, Gelatt & Vecchi 1983) from random feasible states, so that they lie in
different modes. The atoms in which two starts differ form connected components, called blocks. Flipping a
block moves a chain from one mode to another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np

from onlinesrl.core import search_status
from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Unsolved
from onlinesrl.core.kernels.random import Generator, generator
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.maxwalksat import feasible_state
from onlinesrl.mln.inference.mcmc_diagnostics import BATCHES, BatchMeans, Draw
from onlinesrl.mln.inference.presolve import Reduced, reduced
from onlinesrl.mln.inference.protocols import Marginals
from onlinesrl.mln.kernels import gibbs_mcsat, maxwalksat
from onlinesrl.mln.kernels.components import join_differing
from onlinesrl.mln.kernels.gibbs_mcsat import Blocks
from onlinesrl.mln.kernels.unit_propagation import BY_GAIN

MOST = 1_000_000
"""The most samples in all that are drawn to reach ``error``."""
STARTS = 16
"""The number of starting states, and the number of their random stream, which no chain uses."""
WARM, COLD, SWEEPS = (0.1, 0.2, 0.4, 0.7, 1.0), 50.0, 4
"""The factors of the soft weights during annealing, the last factor, and the sweeps at each."""
FLIPS = 100_000
"""The most steps of the search for a feasible state."""
ROOM = 64
"""The most atoms in all blocks, as a multiple of the model's atoms."""
NO_BLOCKS = Blocks(np.zeros(1, np.int32), np.zeros(0, np.int32), 0)


@dataclass(frozen=True)
class Chains(ABC):
    """A sampler: ``samples`` in all, drawn by several chains after ``burn_in`` in each.

    With ``error``, the number of samples is doubled until ``Diagnostics.reach`` holds, but not beyond
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
        """Return a function that draws samples of a problem; each call reads the current weights."""

    def marginals(self, model: GroundMRF, weight: Floats) -> Marginals:
        """See ``MarginalEngine.marginals``. Raises Unsolved if no first state is found."""
        problem = reduced(model, weight)
        draw, states, rngs = self._begun(problem)
        means = BatchMeans(
            self.chains, problem.n_atoms, -(-self.samples // (self.chains * BATCHES))
        )
        means.fill(draw, states, rngs)
        while (
            self.error is not None
            and 2 * means.samples <= MOST
            and not means.diagnostics().reach(self.error)
        ):
            search_status.poll()
            means.halve()
            means.fill(draw, states, rngs)
        search_status.poll()
        diagnostics = means.diagnostics().of(problem.stands_for, means.samples)
        probability = problem.expand(means.mean())
        return Marginals(probability, None, self.route, means.samples, diagnostics)

    def states(self, model: GroundMRF, weight: Floats) -> Iterator[Iterator[State]]:
        """Yield for each chain its ``samples / chains`` samples, whatever the error. Raises Unsolved."""
        problem = reduced(model, weight)
        draw, states, rngs = self._begun(problem)

        def drawn(state: State, rng: Generator) -> Iterator[State]:
            sums = np.zeros((2, problem.n_atoms))
            for _ in range(-(-self.samples // self.chains)):
                draw(state, 1, rng, *sums)
                search_status.poll()
                yield problem.expand(state)

        yield from map(drawn, states, rngs)

    def _begun(self, problem: Reduced) -> tuple[Draw, list[State], list[Generator]]:
        """Return what draws samples, and each chain after its burn-in. Raises Unsolved."""
        initial = starts(problem, self.seed, self.record)
        draw = self.sampler(problem, blocks(problem, initial.annealed))
        states = [initial.of(chain) for chain in range(self.chains)]
        rngs = [generator(self.seed, self.record, chain) for chain in range(self.chains)]
        for state, rng in zip(states, rngs, strict=True):
            draw(state, self.burn_in, rng, *np.zeros((2, problem.n_atoms)))
        return draw, states, rngs


class Starts(NamedTuple):
    """Random feasible states, and states annealed from them."""

    random: list[State]
    annealed: list[State]

    def of(self, chain: int) -> State:
        """Return the starting state of a chain: annealed for even numbers, random for odd ones."""
        states = self.random if chain % 2 else self.annealed
        return states[chain % len(states)].copy()


def starts(problem: Reduced, seed: int, record: int) -> Starts:
    """Return starting states that depend only on the seed and the record's number.

    The first is greedy, the others are random. Raises Infeasible or Unsolved if the first search finds
    no feasible state.
    """
    random = np.random.default_rng((seed, record, 1))
    rng = generator(seed, record, STARTS)
    preferred = np.full(problem.n_atoms, BY_GAIN, np.uint8)
    order = np.arange(problem.n_atoms, dtype=np.int32)
    clauses, states = problem.clauses, Starts([], [])
    memory = maxwalksat.search(clauses)
    for _ in range(STARTS):
        try:
            state = feasible_state(problem, FLIPS, rng, preferred, order)
        except Unsolved:
            if not states.random:
                raise
            state = states.random[0]
        states.random.append(state)
        scratch = np.zeros((4, problem.n_atoms))
        memory.state[:] = state
        for factor in (*WARM, COLD):
            memory.weight[clauses.hard :] = factor * clauses.weight[clauses.hard :]
            gibbs_mcsat.gibbs(clauses, memory, NO_BLOCKS, SWEEPS, rng, *scratch)
        states.annealed.append(memory.state.copy())
        preferred = random.integers(2, size=problem.n_atoms, dtype=np.uint8)
        order = random.permutation(problem.n_atoms).astype(np.int32)
    return states


def blocks(problem: Reduced, states: Sequence[State]) -> Blocks:
    """Return the connected components of pairwise differences, without single variables."""
    clauses = problem.clauses
    drawn, room = int(clauses.var_start[clauses.drawn]), ROOM * problem.n_atoms
    variable, parent = clauses.var_of.tolist(), np.zeros(problem.n_atoms, np.int32)
    states = list({state.tobytes(): state for state in states}.values())
    rows: dict[tuple[int, ...], None] = {}
    pairs = (pair for k in range(1, len(states)) for pair in zip(states, states[k:], strict=False))
    for one, other in pairs:  # neighbours first, so that any prefix covers many states
        differs = one != other
        join_differing(clauses, differs.view(np.uint8), parent)
        members: dict[int, list[int]] = {}
        for atom in np.flatnonzero(differs[:drawn]).tolist():
            members.setdefault(int(parent[atom]), []).append(atom)
        for block in map(tuple, members.values()):
            if block not in rows and any(variable[a] != variable[block[0]] for a in block):
                rows[block] = None
                room -= len(block)
        if room < 0:
            break
    if not rows:
        return NO_BLOCKS
    start = np.cumsum([0, *map(len, rows)])
    proposals = max(1, drawn * len(rows) // int(start[-1]))  # they flip each atom about once
    atoms = np.array(list(chain.from_iterable(rows)), np.int32)
    return Blocks(start.astype(np.int32), atoms, proposals)
