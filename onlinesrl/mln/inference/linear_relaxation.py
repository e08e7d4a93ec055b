"""The linear relaxation of a ground model that grows: clauses are added, and the simplex method goes on.

An atom is a column in [0, 1]. A clause is a row: its literals come to at least 1. A soft clause that pays has
one more column there, which says that it is false; that of a soft clause that costs says that it is true.

Importing this module imports HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

import highspy
import numpy as np

from onlinesrl.core.arrays import Floats, Ints, gathered
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.search_status import doing
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.ilp_solvers import Rows, dual_bound, run


class LinearRelaxation:
    """The relaxation of a model with its weights, which are multiplied by ``scale``."""

    def __init__(self, model: GroundMRF, weight: Floats, scale: float) -> None:
        self._n, self._scale = model.n_atoms, scale
        self._cost, self._constant = np.zeros(0), 0.0
        none, numbers = np.zeros(0), np.zeros(1, np.int64)
        self._rows = Rows(none, none, numbers, numbers[:0], none)
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, setting in {"output_flag": False, "threads": 1, "random_seed": 0}.items():
            self._highs.setOptionValue(option, setting)
        self._highs.HandleUserInterrupt = True
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
        unit = np.flatnonzero(soft & (length == 1))
        literal = model.literals[model.start[unit]]
        np.add.at(self._cost, np.abs(literal) - 1, np.sign(literal) * weight[unit])
        if len(unit):
            atoms = np.arange(self._n, dtype=np.int32)
            self._highs.changeColsCost(self._n, atoms, self._cost[: self._n])
        paying = np.flatnonzero(soft & (length > 1) & (weight > 0))
        costing = np.flatnonzero(soft & (length > 1) & (weight < 0))
        self._constant += float(weight[unit][literal < 0].sum() + weight[paying].sum())
        slack = len(self._cost) + np.arange(len(paying) + len(costing))
        self._add_columns(np.concatenate((-weight[paying], weight[costing])))
        # rows of clauses, then one for each literal of those that cost: it is false, or the clause is true
        clauses = np.concatenate((np.flatnonzero(model.hard), paying))
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

    def solve(self) -> tuple[Floats, float]:
        """Return the atoms' values of an optimum, float64[atoms], and a proven bound on the score.

        Raises Infeasible where there is no solution, Unsolved where HiGHS finds no optimum.
        """
        with doing(lambda: f"linear program of {len(self._rows.low):,} rows"):
            run(self._highs)
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        if status != highspy.HighsModelStatus.kOptimal:
            raise Unsolved(f"HiGHS ended with {self._highs.modelStatusToString(status)}")
        solution = self._highs.getSolution()
        value = np.clip(np.array(solution.col_value[: self._n], np.float64), 0.0, 1.0)
        bound = dual_bound(self._cost, self._rows, np.array(solution.row_dual, np.float64))
        return value, (bound + self._constant) / self._scale

    def _add_columns(self, cost: Floats) -> None:
        n, start = len(cost), np.zeros(len(cost), np.int32)
        self._highs.addCols(n, cost, np.zeros(n), np.ones(n), 0, start, start[:0], cost[:0])
        self._cost = np.concatenate((self._cost, cost))

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
        rows = self._rows
        parts = [np.concatenate((a, b)) for a, b in zip(rows, new, strict=True)]
        parts[2] = np.concatenate((rows.start, rows.start[-1] + start[1:]))
        self._rows = Rows(*parts)
