"""The engines that a run can predict by: the section of each makes what its learner infers with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import Section, standard
from onlinesrl.core.io.config_types import Count, Natural

if TYPE_CHECKING:
    from onlinesrl.mln.inference.elimination import Mpe
    from onlinesrl.mln.inference.ilp import Ilp
    from onlinesrl.mln.inference.mcmc import Chains
    from onlinesrl.mln.inference.policy import Inference
    from onlinesrl.mln.inference.protocols import MapEngine

CELLS = 500
"""Cells of tables that branch and bound may read for each unit of ``max_work``."""


class EngineSection(Section, ABC):
    """How examples are predicted, and how far a search may go."""

    tag = "engine"

    engine: str
    """how examples are predicted. mpe: by the most probable state, proven (certified: true). walksat
    (local search) and lp (the relaxation, rounded): by a good state, where elimination is too wide, and
    learned from against rivals found the same way, proven or not: no bound on the regret. mcsat
    and gibbs: by each atom's probability (exact where narrow, else sampled; with AUC and the like), and
    learned from against proven rivals, as with mpe."""
    presolve: Literal["exact", "none"] = "exact"
    """exact reductions before a search, or everything whole through the engine."""
    solver: Literal["highs", "cbc", "toulbar2"] = "highs"
    """the solver of the integer linear program, for what a search did not prove; toulbar2: in place of the
    search (it comes with the extra toulbar2), for second best states highs."""
    max_groundings: Count = 1_000_000
    """the most ground clauses (PSL: rows of joins) of an example; one with more is bad."""
    max_nodes: Count | None = None
    """the nodes of branch and bound after which a search ends, the same on every replay; null: any
    number."""
    max_work: Count | None = 1_000_000
    """the work after which a search ends, the same on every replay: of HiGHS its steps (LPs and
    nodes) times the entries of its matrix, of branch and bound the cells that it reads, by 500. A million
    take 1 to 15 seconds; null: the search goes on to the proof, for hours on dense examples of a hundred
    atoms. cbc counts nodes only."""
    unsolved: Literal["fallback", "skip", "stop"] = "fallback"
    """what becomes of an example whose search ended without proof: predicted by the best state
    found, put aside as bad, or the end of the run."""
    targets: Literal["stop", "skip"] = "stop"
    """what becomes of a ground rule that reaches an atom, of a predicate with targets, that is
    neither observed nor a target: its example is bad, or the ground rule is left out and
    counted."""

    @abstractmethod
    def make(self, seed: int, max_atoms: int) -> Inference:
        """Return how a learner of Markov logic infers; ``seed`` is of random numbers."""

    def _exact(self) -> Ilp:
        """Return the engine that solves problems whole."""
        from onlinesrl.mln.inference.ilp import Ilp

        solver = "highs" if self.solver == "toulbar2" else self.solver
        return Ilp(solver, max_nodes=self.max_nodes, max_work=self.max_work)

    def _made(self, seed: int, max_atoms: int, core: MapEngine | None = None) -> Inference:
        """Return inference with a core for what elimination finds too wide; without one, a proof."""
        from onlinesrl.mln.ground.grounder import Limits
        from onlinesrl.mln.inference.elimination import Mpe
        from onlinesrl.mln.inference.maxwalksat import WalkSat
        from onlinesrl.mln.inference.policy import Inference

        whole = self._exact()
        presolve = self.presolve == "exact"
        engine = Mpe(core) if core else self._searching(whole)
        return Inference(
            whole=whole,
            exact=engine if presolve else core or whole,
            fallback=WalkSat(seed=seed) if self.unsolved == "fallback" else None,
            proven=core is None,
            presolve=presolve,
            growth=engine.growth,
            limits=Limits(max_atoms, self.max_groundings),
            seed=seed,
        )

    def _searching(self, last: Ilp) -> Mpe:
        """Return the engine that proves its answers."""
        from onlinesrl.mln.inference.branch_and_bound import searching
        from onlinesrl.mln.inference.elimination import Mpe

        if self.solver == "toulbar2":
            from onlinesrl.mln.inference.toulbar2 import Toulbar2

            return Mpe(Toulbar2(), growth=1)
        return searching(last, None if self.max_work is None else CELLS * self.max_work)


class MpeSection(EngineSection):
    """The most probable state, proven: elimination, branch and bound, the integer linear program."""

    engine: Literal["mpe"] = "mpe"
    audit_every: Natural = 0
    """every n-th example is also solved whole, and the two answers are compared; 0: none."""

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``EngineSection.make``."""
        return replace(self._made(seed, max_atoms), audit_every=self.audit_every)


class WalkSatSection(EngineSection):
    """A good state by MaxWalkSAT, where elimination is too wide."""

    engine: Literal["walksat"] = "walksat"

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``EngineSection.make``."""
        from onlinesrl.mln.inference.maxwalksat import WalkSat

        return self._made(seed, max_atoms, WalkSat(seed=seed))


class LpSection(EngineSection):
    """A good state by the relaxation, rounded, where elimination is too wide."""

    engine: Literal["lp"] = "lp"

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``EngineSection.make``."""
        from onlinesrl.mln.inference.lp_relaxation import Lp

        return self._made(seed, max_atoms, Lp())


class SamplerSection(EngineSection):
    """The probability of each atom: exact where the world is narrow, else sampled."""

    @abstractmethod
    def _sampler(self, seed: int) -> Chains:
        """Return the sampler."""

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``EngineSection.make``."""
        from onlinesrl.mln.inference.exact_marginals import Narrow

        sampler = self._sampler(seed)
        marginals = Narrow(sampler) if self.presolve == "exact" else sampler
        return replace(self._made(seed, max_atoms), marginals=marginals)


class McSatSection(SamplerSection):
    """By MC-SAT."""

    engine: Literal["mcsat"] = "mcsat"

    def _sampler(self, seed: int) -> Chains:
        from onlinesrl.mln.inference.mcsat import McSat

        return McSat(seed=seed)


class GibbsSection(SamplerSection):
    """By Gibbs sampling."""

    engine: Literal["gibbs"] = "gibbs"

    def _sampler(self, seed: int) -> Chains:
        from onlinesrl.mln.inference.gibbs import Gibbs

        return Gibbs(seed=seed)


AnyEngine: TypeAlias = Annotated[
    MpeSection  # one line an engine
    | WalkSatSection
    | LpSection
    | McSatSection
    | GibbsSection,
    Field(discriminator="engine"),
    BeforeValidator(standard("engine", "mpe")),
]
