"""How the worlds of Markov logic are predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from onlinesrl.mln.ground.grounder import LIMITS, Limits
from onlinesrl.mln.inference.protocols import MapEngine, MarginalEngine
from onlinesrl.mln.kernels.elimination_order import MAX_CELLS
from onlinesrl.mln.kernels.grounding_frames import EVERY


@dataclass(frozen=True)
class Inference:
    """How MPE problems are solved and how large they may be.

    ``engine`` solves the worlds that are too wide for elimination, or with ``presolve`` False all worlds;
    ``growth`` bounds the width, see the kernel's ``structure`` in ``kernels.elimination_order``. ``whole``
    audits. A search may end at its limit without a proof. The example is then bad, unless
    ``predicts_unproven``: then the best state so far predicts it. Learning uses such an example only if its
    rival is proven optimal. Predictions have the ``best`` states of a world.

    With ``marginals``, the probabilities of atoms predict a world; its rival is still a best state. If
    answers need not be ``proven``, ``engine`` may be any engine, and there is no bound on the regret.

    Clauses that hold by default are left out of a world that is too wide where they have more than ``eager``
    groundings. Cutting planes then solve it, with ``max_work`` as in ``MlnEngine``.
    """

    engine: MapEngine
    whole: MapEngine
    predicts_unproven: bool = False
    marginals: MarginalEngine | None = None
    threshold: Mapping[str, float | Literal["f1"]] | None = None  # see ``decision_threshold``
    coverage: float | None = None  # see ``label_sets``
    formulas: tuple[str, ...] = ()  # see ``ground_formulas``
    given: tuple[str, ...] = ()
    by_class: bool = False
    proven: bool = True
    presolve: bool = True
    audit_every: int = 0
    growth: int = MAX_CELLS
    limits: Limits = LIMITS
    seed: int = 0
    best: int = 1
    eager: int = EVERY
    max_work: int | None = None

    def ranking(self) -> Inference:
        """Return this inference with marginals: exact in narrow components, by MC-SAT in the others.

        It audits nothing, since the most probable values of atoms need not be a best state.
        """
        from onlinesrl.mln.inference.exact_marginals import Exact
        from onlinesrl.mln.inference.mcsat import McSat

        if self.marginals is not None:
            return self
        return replace(self, marginals=Exact(McSat(seed=self.seed)), audit_every=0, eager=EVERY)
