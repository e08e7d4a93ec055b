"""Exact MPE of what is too wide for elimination: branch and bound and an integer program take turns.

Branch and bound proves frustrated graphs, where the integer program's relaxation is loose, at once. The
integer program proves transitivity, matchings and orders, where the bounds of branch and bound are loose, at
its root. So neither may use much more work than the other needs. Grids of spins take both long; elimination
answers them where its tables are no more than the work of a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.branch_and_bound import Search
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.protocols import Solution, Wide
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.inference.router import eliminated
from onlinesrl.mln.kernels.elimination_order import MAX_CELLS, WIDEST

CELLS, TABLES = 500, 50
"""Cells that branch and bound may read for each unit of work, and those that elimination may fill."""
LEAST, SHORT, LONG = 10_000, 40_000, 1_000_000
"""The least and the most work of branch and bound before anything else is tried, some 0.03 and 0.1 s; and the
work before a program that takes no turns."""
ENTRIES = 4
"""The work of the first turn for each literal: with it the integer program solves its root."""
UNLIMITED = 1 << 50
GROWTH = 4
"""How many times the work of the turn before a turn may use."""


class Alternation:
    """Branch and bound and an integer program in turns, up to ``max_work`` each; None: to the proof.

    Elimination comes after the first turn of branch and bound, if its tables fit memory; those of wider
    models come after the integer program's turn of about as much work. The best state so far, which a short
    MaxWalkSAT finds at first, is where the integer program starts, and what branch and bound must exceed. An
    answer without a proof is the same on every run.
    """

    def __init__(self, program: Ilp, max_work: int | None = None) -> None:
        self._program, self._max_work = program, max_work

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; Unsolved where the weights or the bonus are not finite."""
        search = Search(model, weight, bonus)
        takes_turns, entries = self._program.takes_turns, ENTRIES * len(model.literals)
        limit = UNLIMITED if self._max_work is None else self._max_work
        first = min(limit, min(max(LEAST, entries), SHORT) if takes_turns else LONG)
        best = search.go_on(CELLS * first)
        if best.certified:
            return best
        plain = np.zeros(model.n_atoms) if bonus is None else bonus
        with suppress(Wide):
            return eliminated(model, weight, plain, MAX_CELLS)
        size = Magnitude.of(weight, bonus)
        better = partial(size.better, columns=model.n_atoms + model.n_clauses)
        with suppress(Unsolved):
            local = WalkSat(tries=1).solve(model, weight, bonus=bonus)
            best = better(best, replace(local, route=best.route))
        most = weight[weight > 0].sum() + (0.0 if bonus is None else bonus[bonus > 0].sum())
        best = better(best, replace(best, bound=max(float(most), best.score)))
        for work in _turns(max(LEAST, entries), limit) if takes_turns else (first,):
            if best.certified:
                return best
            start = best.state if best.score > -np.inf else None
            with suppress(Unsolved):
                answer = self._program.solve(
                    model, weight, bonus=bonus, start=start, max_work=work if takes_turns else None
                )
                best = answer if answer.certified else better(best, answer)
            if best.certified:
                return best
            with suppress(Wide):
                growth = min(MAX_CELLS, TABLES * work // max(1, len(model.literals)))
                return eliminated(model, weight, plain, growth, WIDEST)
            search.offer(best.score)
            best = better(best, search.go_on(CELLS * work))
        if best.score == -np.inf:
            raise Unsolved(
                f"no feasible state was found (max_work {self._max_work}): "
                "raise max_nodes and max_work or leave them out"
            )
        return best


def _turns(work: int, limit: int) -> Iterator[int]:
    """Yield the work up to which both go on, at first ``work``, at last the limit."""
    while work < limit:
        yield work
        work *= GROWTH
    yield limit
