"""How the worlds of Markov logic are predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from onlinesrl.mln.ground.grounder import LIMITS, Limits
from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine, RankingEngine
from onlinesrl.mln.kernels.elimination_order import MAX_CELLS


@dataclass(frozen=True)
class Inference:
    """How MPE problems are solved and how large they may be.

    ``whole`` solves models that are not simplified first (``presolve: none``, audits). ``exact`` solves the
    worlds that are too wide for elimination; ``growth`` bounds the width, see the kernel's ``structure`` in
    ``kernels.elimination_order``. A search may end at its limit without a proof. The example is then bad,
    unless there is a ``fallback``. In that case the best state so far predicts the example, or the
    fallback's state if there is none. Learning uses such an example only if its rival is proven optimal.

    With ``marginals``, the probabilities of atoms predict a world; its rival is still a best state. If
    answers need not be ``proven``, ``exact`` may be any engine, and there is no bound on the regret.
    """

    whole: RankingEngine
    exact: MapEngine
    fallback: MapEngine | None = None
    marginals: MarginalEngine | None = None
    threshold: Mapping[str, float | Literal["f1"]] | None = None  # see ``decision_threshold``
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
        """Whether narrow worlds are predicted by elimination: max-sum, or sum-product for marginals."""
        return self.presolve

    def ranking(self) -> Inference:
        """Return this inference with marginals: exact in narrow components, by MC-SAT in the others.

        It audits nothing, since the most probable values of atoms need not be a best state.
        """
        from onlinesrl.mln.inference.exact_marginals import ExactOrSampled
        from onlinesrl.mln.inference.mcsat import McSat

        if self.marginals is not None:
            return self
        return replace(self, marginals=ExactOrSampled(McSat(seed=self.seed)), audit_every=0)
