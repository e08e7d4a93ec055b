"""The linear relaxation of a ground model that grows: clauses are added, and the simplex method goes on.

An atom is a column in [0, 1]. A clause is a row: its literals come to at least 1. Hard clauses of two
literals that form a clique are one row. A soft clause that pays has one more column there, which says that it
is false; that of a soft clause that costs says that it is true.

Importing this module imports HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

import highspy
import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32, gathered
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.highs import run, solver
from onlinesrl.core.search_status import doing
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.clique_merging import merged
from onlinesrl.mln.inference.ilp_solvers import Rows, dual_bound

STEPS = 500
"""How many steps of the simplex method cost as much as one of the search of an integer program."""


class LinearRelaxation:
    """The relaxation of a model with its weights, which are multiplied by ``scale``.

    ``max_work`` limits all steps together, times entries of the matrix, as in ``Ilp``; None: no limit.
    """

    def __init__(
        self, model: GroundMRF, weight: Floats, scale: float, max_work: int | None = None
    ) -> None:
        self._work = np.inf if max_work is None else float(STEPS * max_work)
        self._n, self._scale = model.n_atoms, scale
        self._cost, self._constant = np.zeros(0), 0.0
        self._rows: list[Rows] = []
        self._entries = 0
        self._pairs = np.zeros((0, 2), np.int32)
        self._highs = solver()
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self._add_columns(np.zeros(model.n_atoms))
        members = np.argsort(model.group, kind="stable")[np.sum(model.group < 0) :]
        size = np.bincount(model.group[members], minlength=len(model.exactly))
        low = np.where(model.exactly, 1.0, -np.inf)
        row = np.repeat(np.arange(len(size)), size)
        self._add_rows(low, np.ones(len(size)), row, members, np.ones(len(members)))
        self.add(model, weight)

    def add(self, model: GroundMRF, weight: Floats) -> None:
        """Add the clauses of a model over the same atoms."""
        weight, length = self._scale * weight, np.diff(model.start)
        soft = ~model.hard & (weight != 0)
        gain, constant = model.gains(weight)
        self._cost[: self._n] += gain
        if np.any(gain):
            atoms = np.arange(self._n, dtype=np.int32)
            self._highs.changeColsCost(self._n, atoms, self._cost[: self._n])
        paying = np.flatnonzero(soft & (length > 1) & (weight > 0))
        costing = np.flatnonzero(soft & (length > 1) & (weight < 0))
        self._constant += constant + float(weight[paying].sum())
        slack = len(self._cost) + np.arange(len(paying) + len(costing))
        self._add_columns(np.concatenate((-weight[paying], weight[costing])))
        # rows of clauses, then one for each literal of those that cost: it is false, or the clause is true
        pair = model.hard & (length == 2)
        clauses = np.concatenate((np.flatnonzero(model.hard & ~pair), paying))
        start, place = gathered(model.start, clauses)
        first, alone = gathered(model.start, costing)
        row = np.repeat(np.arange(len(clauses)), np.diff(start))
        single = len(clauses) + np.arange(len(alone))
        literals = np.concatenate((model.literals[place], -model.literals[alone]))
        of_slack = np.concatenate((len(clauses) - len(paying) + np.arange(len(paying)), single))
        owner = np.concatenate(
            (slack[: len(paying)], np.repeat(slack[len(paying) :], np.diff(first)))
        )
        row = np.concatenate((row, single, of_slack))
        column = np.concatenate((np.abs(literals) - 1, owner))
        value = np.concatenate((np.sign(literals), np.ones(len(owner)))).astype(np.float64)
        negative: Floats = np.bincount(row, value < 0, len(clauses) + len(alone)).astype(np.float64)
        low = 1.0 - negative
        self._add_rows(low, np.full(len(low), np.inf), row, column, value)
        self._add_pairs(model.literals[model.start[:-1][pair][:, None] + np.arange(2)])

    @property
    def exhausted(self) -> bool:
        """Whether ``max_work`` is done."""
        return self._work <= 0

    def solve(self) -> Floats:
        """Return the atoms' values of an optimum, float64[atoms].

        The values are not optimal where it is ``exhausted``. Raises Infeasible where there is no solution,
        Unsolved where HiGHS finds no optimum otherwise.
        """
        entries = max(1, self._entries)
        most = min(self._work / entries, highspy.kHighsIInf)
        self._highs.setOptionValue("simplex_iteration_limit", int(most))
        with doing(lambda: f"linear program of {self._highs.getNumRow():,} rows"):
            run(self._highs)
        self._work -= max(1, self._highs.getInfo().simplex_iteration_count) * entries
        status, solution = self._highs.getModelStatus(), self._highs.getSolution()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        limited = status == highspy.HighsModelStatus.kIterationLimit and solution.dual_valid
        if limited:
            self._work = 0.0
        elif status != highspy.HighsModelStatus.kOptimal:
            raise Unsolved(f"HiGHS ended with {self._highs.modelStatusToString(status)}")
        return np.clip(np.array(solution.col_value[: self._n], np.float64), 0.0, 1.0)

    def bound(self) -> tuple[float, Floats]:
        """Return a bound on the score, proven by what was solved last, and the atoms' reduced costs.

        It is less by the size of a reduced cost where an atom has not the value that this gains by.
        """
        low, high, start, column, value = zip(*self._rows, strict=True)
        length = np.concatenate([np.diff(x) for x in start])
        rows = Rows(
            np.concatenate(low),
            np.concatenate(high),
            np.concatenate(([0], np.cumsum(length))),
            np.concatenate(column),
            np.concatenate(value),
        )
        dual = np.array(self._highs.getSolution().row_dual, np.float64)
        bound, cost = dual_bound(self._cost, rows, dual)
        return (bound + self._constant) / self._scale, cost[: self._n] / self._scale

    def _add_columns(self, cost: Floats) -> None:
        n, start = len(cost), np.zeros(len(cost), np.int32)
        self._highs.addCols(n, cost, np.zeros(n), np.ones(n), 0, start, start[:0], cost[:0])
        self._cost = np.concatenate((self._cost, cost))

    def _add_pairs(self, pairs: Ints32) -> None:
        """Add hard clauses of two literals, merged with each other and with earlier ones."""
        first, self._pairs = len(self._pairs), np.concatenate((self._pairs, pairs))
        start, literals = merged(self._pairs, first)
        size, sign = np.diff(start), np.sign(literals).astype(np.float64)
        row = np.repeat(np.arange(len(size)), size)
        low = size - 1.0 - np.bincount(row, literals < 0, len(size))
        self._add_rows(low, np.full(len(low), np.inf), row, np.abs(literals) - 1, sign)

    def _add_rows(self, low: Floats, high: Floats, row: Ints, column: Ints, value: Floats) -> None:
        order = np.argsort(row, kind="stable")
        start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(low)))))
        new = Rows(low, high, start, column[order], value[order])
        self._highs.addRows(
            len(low),
            low,
            high,
            len(value),
            start[:-1].astype(np.int32),
            new.column.astype(np.int32),
            new.value,
        )
        self._rows.append(new)
        self._entries += len(value)
