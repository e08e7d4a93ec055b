"""How the worlds of Markov logic are predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onlinesrl.mln.ground.grounder import LIMITS, Limits
from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine, RankingEngine
from onlinesrl.mln.kernels.elimination_order import MAX_CELLS


@dataclass(frozen=True)
class Inference:
    """How MPE problems are solved and how large they may be.

    ``whole`` is the engine for problems given to it whole (``presolve: none``, audits), ``exact`` the
    one for worlds that elimination finds too wide. Where a search of these ends at its limit without
    proof, the example is bad; or, with ``fallback``, it is predicted with the best state found, by this
    engine where there was none, and learned from only if its rival is proven optimal.
    With ``marginals`` worlds are predicted by their atoms' probabilities; rivals are found as without. Where
    answers need not be ``proven``, those of ``exact``, any engine then, are taken as they are: the bound
    on the regret is none. For ``growth``, which says what is too wide, see ``Structure``.
    """

    whole: RankingEngine
    exact: MapEngine
    fallback: MapEngine | None = None
    marginals: MarginalEngine | None = None
    proven: bool = True
    presolve: bool = True
    audit_every: int = 0
    growth: int = MAX_CELLS
    limits: Limits = LIMITS
    seed: int = 0

    @property
    def engine(self) -> MapEngine:
        """The engine for a world's problem as a ``GroundMRF``."""
        return self.exact if self.presolve or not self.proven else self.whole

    @property
    def eliminates(self) -> bool:
        """Whether narrow worlds are solved by elimination."""
        return self.presolve and self.marginals is None

    def ranking(self) -> Inference:
        """Return the same with marginals: exact where a world is narrow, else by MC-SAT from ``seed``."""
        from onlinesrl.mln.inference.exact_marginals import Narrow
        from onlinesrl.mln.inference.mcsat import McSat

        if self.marginals is not None:
            return self
        return replace(self, marginals=Narrow(McSat(seed=self.seed)))
