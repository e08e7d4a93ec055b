"""A world whose network leaves clauses out, for an online learner: its best states, their scores and gaps.

A clause is left out where no weight of it is negative and most of its ground clauses hold. States are found
by cutting planes. In Delta = f(truth) - f(rival) count only the ground clauses that one of the two violates.
A join lists these, and none is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.kernels.averaging import clear_gap
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.lazy_clauses import LazyClauses
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.kernels import weight_lookup as k
from onlinesrl.mln.kernels.ground_network import ROWS, Network
from onlinesrl.mln.kernels.grounding_frames import Batch
from onlinesrl.mln.online.weight_table import WeightTable

if TYPE_CHECKING:
    from onlinesrl.mln.inference.best_states import Ranking
    from onlinesrl.mln.inference.cutting_planes import Violated


class LazyWorld:
    """The last ground world of a grounder, number ``w`` of its batch.

    ``weigh`` returns the weights of a network's ground clauses, averaged or current ones. ``learning`` adds
    weights for new template constants.
    """

    ranking: Ranking
    """The best states of the world as it was last solved."""

    def __init__(
        self,
        grounder: Grounder,
        batch: Batch,
        w: int,
        weights: WeightTable,
        weigh: Callable[[bool, Network], Floats],
        learning: bool,
    ) -> None:
        self._grounder, self._batch, self._w = grounder, batch, w
        self._weights, self._weigh, self._learning = weights, weigh, learning
        self._net = grounder.net
        self._clauses = LazyClauses(grounder, batch, w)
        hard = grounder.layout.plans.hard
        self._soft = [c for c in self._clauses.left_out if not hard[c]]

    def broken(self, state: State) -> tuple[int, int] | None:
        """See ``LazyClauses.broken``."""
        return self._clauses.broken(state)

    def solve(
        self,
        clauses: tuple[GroundMRF, Floats],
        averaged: bool,
        max_work: int | None,
        bonus: Floats | None = None,
    ) -> Solution:
        """Return the best state of a world of these ground clauses and those that are left out.

        ``averaged`` selects their weights. The score leaves out a constant. See ``CuttingPlanes.solve``.
        ``ranking`` has the next best states.
        """
        from onlinesrl.mln.inference.cutting_planes import CuttingPlanes

        model, weight = clauses
        if bonus is not None:
            units = np.arange(1, model.n_atoms + 1, dtype=np.int32)
            model, weight = model.with_units(units, hard=False), np.concatenate((weight, bonus))
        planes = CuttingPlanes(model, weight, self._violated(averaged))
        self.ranking = planes.ranking(np.arange(model.n_atoms), max_work)
        return self.ranking.first(1)[0]

    def score(self, state: State, averaged: bool) -> float:
        """Return the weight of all ground clauses that are left out and true in a state."""
        n = 0
        for c in self._soft:
            n = self._add(c, None, 1.0, n)
            n = self._add(c, state, -1.0, n)
        arrays = self._weights.arrays
        cu, cv = self._weights.scales(averaged)
        total = float(arrays.delta[:n] @ (arrays.value[arrays.touched[:n]] @ (1.0, cu, cv)))
        clear_gap(arrays, n)
        return total

    def gap(self, truth: State, rival: State, cost: Floats) -> tuple[int, float]:
        """Do as ``weight_lookup.gap`` for all ground clauses, in the order of the rules."""
        net, rows = self._net, int(self._net.size[ROWS])
        rho, n, first, terms = k.differences(net, truth, rival, cost), 0, 0, 0
        for c in (*self._soft, None):
            stop = rows if c is None else int(np.searchsorted(net.row_clause[:rows], c))
            n, more = k.add_rows(net, self._weights.arrays, truth, rival, first, stop, n)
            first, terms = stop, terms + more
            if c is not None:
                n = self._add(c, truth, -1.0, n)
                n = self._add(c, rival, 1.0, n)
        k.drop_rounding(net, self._weights.arrays, terms)
        return n, rho

    def _add(self, c: int, state: State | None, share: float, n: int) -> int:
        return self._clauses.add(c, state, share, n, self._weights, self._learning)

    def _violated(self, averaged: bool) -> Violated:
        scales = self._weights.scales(averaged)
        void = [c for c in self._soft if not np.any(self._weights.of_clause(c, *scales))]
        clauses = LazyClauses(self._grounder, self._batch, self._w, void)

        def violated(value: Floats, conflicts: bool) -> tuple[GroundMRF, Floats] | None:
            net = clauses.violated(value, conflicts)
            if net is None:
                return None
            self._weights.number(net, self._learning)
            model, place = clause_model(net)
            return model, clause_weights(model, place, self._weigh(averaged, net))

        return violated
