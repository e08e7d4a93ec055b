"""The engines of Markov logic, in one table: a section of the configuration for each.

An engine is one file of this folder and one section here, listed in ``ENGINES``. The methods of the
command ``infer`` and of batch learning follow from the sections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from onlinesrl.core.engine import EngineSection
from onlinesrl.core.io.config_section import Kinds, named
from onlinesrl.core.io.config_types import Count, Names, Natural

if TYPE_CHECKING:
    from onlinesrl.core.arrays import Floats
    from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
    from onlinesrl.mln.inference.ilp import Ilp
    from onlinesrl.mln.inference.mcmc import Chains
    from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine
    from onlinesrl.mln.inference.router import Router
    from onlinesrl.mln.inference.settings import Inference


Coverage = Annotated[float, Field(gt=0, le=0.999)]


class MlnEngine(EngineSection):
    """An engine of Markov logic."""

    presolve: Literal["exact", "none"] = "exact"
    """exact reductions before a search, or everything whole through the engine."""
    solver: Literal["highs", "cbc"] = "highs"
    """the solver of the integer linear program, for what a search did not prove."""
    max_nodes: Count | None = None
    """the nodes of branch and bound after which a search ends, the same on every replay; null: any
    number."""
    max_work: Count | None = 1_000_000
    """the work after which each search ends, the same on every replay: of HiGHS its steps (LPs and
    nodes) times the entries of its matrix, of branch and bound the cells that it reads, by 500. A million
    take 1 to 15 seconds; null: the search goes on to the proof, for hours on dense examples of a hundred
    atoms. cbc counts nodes only."""

    @abstractmethod
    def make(self, seed: int, max_atoms: int) -> Inference:
        """Return the inference of a learner of Markov logic; ``seed`` is that of random numbers."""

    def inference(self, seed: int, max_atoms: int, core: MapEngine | None = None) -> Inference:
        """Return inference with ``core`` for what is too wide for elimination; None: with a proof."""
        from onlinesrl.mln.ground.grounder import Limits
        from onlinesrl.mln.inference.ilp import Ilp
        from onlinesrl.mln.inference.maxwalksat import WalkSat
        from onlinesrl.mln.inference.router import Router
        from onlinesrl.mln.inference.settings import Inference

        whole = Ilp(self.solver, max_nodes=self.max_nodes, max_work=self.max_work)
        router = exact_engine(whole, self.max_work) if core is None else Router(core)
        engines = (whole, WalkSat(seed=seed)) if core is None else (core,)
        return Inference(
            engine=router if self.presolve == "exact" else Router(*engines, growth=0),
            whole=whole,
            predicts_unproven=self.unsolved == "fallback",
            proven=core is None,
            presolve=self.presolve == "exact",
            growth=router.growth,
            limits=Limits(max_atoms, self.max_groundings),
            max_work=self.max_work,
            seed=seed,
        )


class StateSection(MlnEngine):
    """A good state, which need not be the most probable one, where elimination is too wide.

    Learned from are rivals found the same way, proven or not: there is no bound on the regret.
    """

    scores = False

    @staticmethod
    @abstractmethod
    def state_engine(seed: int) -> MapEngine:
        """Return the engine."""

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``MlnEngine.make``."""
        return self.inference(seed, max_atoms, self.state_engine(seed))


class SamplerSection(MlnEngine):
    """The probability of each atom: exact where the world is narrow, else sampled.

    Learned from are proven rivals, as with ``mpe``.
    """

    threshold: dict[str, Annotated[float, Field(ge=0, le=1)] | Literal["f1"]] | None = None
    """by predicate, the least probability of an atom that is predicted true, or f1: that with the best F1 on
    the predictions so far; null: true atoms have more than 1/2."""

    coverage: Coverage | None = None
    """of what share of units (atoms, or groups of which at most one is true) the set of labels has the truth,
    such as 0.95; null: there are no sets."""
    coverage_by: Literal["class"] | None = None
    """class: of the units of each true label by itself; null: of all units of a predicate together."""

    formulas: Names | None = None
    """formulas whose probabilities each prediction has, for all constants of their free variables."""
    given: Names | None = None
    """the formulas on whose condition these probabilities are."""

    @model_validator(mode="after")
    def _covers_classes(self) -> Self:
        if self.coverage_by is not None and self.coverage is None:
            raise ValueError("coverage_by: expected coverage too, such as 0.95")
        return self

    @staticmethod
    @abstractmethod
    def sampler(**options: Any) -> Chains:
        """Return the sampler; the options are those of ``Chains``."""

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``MlnEngine.make``."""
        from onlinesrl.mln.inference.exact_marginals import Exact

        sampler = self.sampler(seed=seed)
        marginals = Exact(sampler) if self.presolve == "exact" else sampler
        inference = self.inference(seed, max_atoms)
        return replace(
            inference,
            marginals=marginals,
            threshold=self.threshold,
            coverage=self.coverage,
            formulas=self.formulas or (),
            given=self.given or (),
            by_class=self.coverage_by is not None,
        )


class MpeSection(MlnEngine):
    """The most probable state, proven, by elimination, branch and bound, and the integer linear program."""

    name = "mpe"
    scores = False
    audit_every: Natural = 0
    """every n-th example is also solved whole, and the two answers are compared; 0: none."""
    lazy: Literal["auto", "never"] = "auto"
    """auto: where elimination is too wide, large rules are ground only where a state violates them, if highs
    solves with presolve and without max_nodes; never: everything is ground first."""
    best: Count = 1
    """how many of the best states a prediction lists, its own among them."""
    coverage: Coverage | None = None
    """of what share of examples the set of whole answers, some of the best, has the truth, such as 0.95;
    null: there are no sets."""

    @model_validator(mode="after")
    def _covers_several(self) -> Self:
        if self.coverage is not None and self.best < 2:
            raise ValueError(
                "coverage: sets have some of the best answers; expected best too, such as 5"
            )
        return self

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``MlnEngine.make``."""
        from onlinesrl.mln.ground.model_index import EAGER

        inference = self.inference(seed, max_atoms)
        cuts = inference.presolve and self.solver == "highs" and self.max_nodes is None
        return replace(
            inference,
            audit_every=self.audit_every,
            eager=EAGER[self.lazy if cuts else "never"],
            best=self.best,
            coverage=self.coverage,
        )


class WalkSatSection(StateSection):
    """Where elimination is too wide, a good state by local search, MaxWalkSAT."""

    name = "walksat"

    @staticmethod
    def state_engine(seed: int) -> MapEngine:
        """See ``StateSection.state_engine``."""
        from onlinesrl.mln.inference.maxwalksat import WalkSat

        return WalkSat(seed=seed)


class LpSection(StateSection):
    """Where elimination is too wide, a good state by rounding the linear relaxation."""

    name = "lp"

    @staticmethod
    def state_engine(seed: int) -> MapEngine:
        """See ``StateSection.state_engine``."""
        from onlinesrl.mln.inference.lp_relaxation import Lp

        return Lp(seed)


class McSatSection(SamplerSection):
    """The probability of each atom, by MC-SAT where it is not exact."""

    name = "mcsat"

    @staticmethod
    def sampler(**options: Any) -> Chains:
        """See ``SamplerSection.sampler``."""
        from onlinesrl.mln.inference.mcsat import McSat

        return McSat(**options)


class GibbsSection(SamplerSection):
    """The probability of each atom, by Gibbs sampling where it is not exact."""

    name = "gibbs"

    @staticmethod
    def sampler(**options: Any) -> Chains:
        """See ``SamplerSection.sampler``."""
        from onlinesrl.mln.inference.gibbs import Gibbs

        return Gibbs(**options)


class MlnMapEngine(MlnEngine, ABC):
    """A search for a good state where elimination is too wide: the base class of engines of one's own.

    Learned from are rivals found the same way, never proven: there is no bound on the regret.
    """

    @abstractmethod
    def solve(self, model: GroundMRF, weights: Floats, bonus: Floats) -> State:
        """Return a feasible state of high ``weights . f(state) + bonus . state``, uint8[atoms].

        ``weights`` is float64[clauses], 0 for hard clauses; ``bonus`` is float64[atoms]. The same arguments
        must give the same state. Raises Unsolved where no feasible state is found.
        """

    def make(self, seed: int, max_atoms: int) -> Inference:
        """See ``MlnEngine.make``."""
        from onlinesrl.mln.inference.checked import Checked

        return self.inference(seed, max_atoms, Checked(self.engine, self.solve))


ENGINES: dict[str, Any] = named(MpeSection, WalkSatSection, LpSection, McSatSection, GibbsSection)
AnyMlnEngine: TypeAlias = Annotated[MlnEngine, Kinds("onlinesrl.engines", MlnMapEngine, ENGINES)]
MARGINAL_METHODS = (
    "exact",
    *(name for name, section in ENGINES.items() if issubclass(section, SamplerSection)),
)
MAP_METHODS = tuple(name for name in ENGINES if name not in MARGINAL_METHODS)
if TYPE_CHECKING:
    Method: TypeAlias = str
else:
    Method = Literal[MAP_METHODS + MARGINAL_METHODS]
"""How one world is answered: by an engine alone, or by ``exact``, as far as that goes."""


def map_engine(method: str, seed: int = 0, max_work: int | None = None) -> MapEngine:
    """Return the engine of one of ``MAP_METHODS``.

    ``max_work`` ends the search of ``mpe`` as in ``MlnEngine``; None: it goes on to the proof.
    """
    if method != "mpe":
        engine: MapEngine = ENGINES[method].state_engine(seed)
        return engine
    from onlinesrl.mln.inference.ilp import Ilp

    return exact_engine(Ilp(max_work=max_work), max_work)


def marginal_engine(
    method: str, seed: int = 0, error: float | None = None, samples: int | None = None
) -> MarginalEngine:
    """Return the engine of one of ``MARGINAL_METHODS``; ``exact`` samples by MC-SAT where it is too wide.

    ``seed``, ``error`` and ``samples`` are those of ``Chains``; a tenth as many are drawn before them.
    """
    from onlinesrl.mln.inference.exact_marginals import Exact

    number = {} if samples is None else {"samples": samples, "burn_in": samples // 10}
    sampler = sampler_of(method, seed, error=error, **number)
    return Exact(sampler) if method == "exact" else sampler


def sampler_of(method: str, seed: int, **options: Any) -> Chains:
    """Return the sampler of one of ``MARGINAL_METHODS``, for ``exact`` that of what is too wide."""
    sampler: Chains = ENGINES["mcsat" if method == "exact" else method].sampler(
        seed=seed, **options
    )
    return sampler


def exact_engine(last: Ilp, max_work: int | None) -> Router:
    """Return the engine that proves its answers: elimination, else a search and ``last`` in turns.

    What is not proven within ``max_work`` is no worse than an answer of MaxWalkSAT.
    """
    from onlinesrl.mln.inference.alternation import Alternation
    from onlinesrl.mln.inference.maxwalksat import WalkSat
    from onlinesrl.mln.inference.router import Router

    return Router(Alternation(last, max_work), WalkSat(), growth=1)
