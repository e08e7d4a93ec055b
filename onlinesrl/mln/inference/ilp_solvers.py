"""The solvers behind PuLP that ``ilp`` uses, set to be exact and deterministic.

Importing this module imports PuLP and HiGHS. HiGHS and OR-tools do not load in one process.
"""

from __future__ import annotations

import math
import subprocess
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import highspy
import numpy as np
import pulp

from onlinesrl.core import search_status
from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.highs import run, solver

GAP = 1e-9
"""The absolute gap between bound and best solution at which a search ends; the default, 1e-4, is coarse."""

INTEGRALITY = 1e-8
"""HiGHS's tolerance for integrality: it prunes what gains less. At 1e-9 it is reported to damage memory."""


class Highs(pulp.LpSolver):  # type: ignore[misc]
    """HiGHS, handed the whole problem as one matrix (``pulp.HiGHS`` goes column by column).

    Every solve starts from nothing, so that the answer does not depend on the solves before it.
    """

    name = "HiGHS_matrix"
    gap = np.inf
    """How far the best state so far may be from the best, during a search."""

    def __init__(self, max_nodes: int | None) -> None:
        super().__init__(mip=True, msg=False)
        self._looks, self._most_looks = 0, math.inf
        self._highs = solver(
            mip_rel_gap=0.0,
            mip_abs_gap=GAP,
            mip_feasibility_tolerance=INTEGRALITY,
            mip_heuristic_run_feasibility_jump=False,
            **({} if max_nodes is None else {"mip_max_nodes": max_nodes}),
        )
        self._highs.cbMipLogging += self._note
        self._highs.cbMipInterrupt += self._look

    def _look(self, event: highspy.HighsCallbackEvent) -> None:
        """Count HiGHS's callbacks, one per step of its search; interrupt the search past the limit.

        A step counts as much work as the matrix has entries. HiGHS remembers that it was interrupted from one
        problem to the next, unless it is told otherwise.
        """
        self._looks += 1
        event.interrupt(self._looks > self._most_looks)

    def _note(self, event: highspy.HighsCallbackEvent) -> None:
        """Note the gap of a search, which is shown to the user."""
        data = event.data_out
        self.gap = abs(data.mip_dual_bound - data.mip_primal_bound)

    def available(self) -> bool:
        """Return True: highspy is a dependency."""
        return True

    def actualSolve(self, lp: Any, *, warm: bool = False, max_work: int | None = None) -> int:
        """Solve the problem; a matrix that an earlier call left in it is used again.

        ``warm``: the search begins with the values of the variables. For ``max_work`` see ``Ilp``.
        """
        if lp.solverModel is None:
            lp.solverModel = _matrix(lp)
        while not self._highs.wait(search_status.POLL_SECONDS)[0]:  # highspy does one at a time
            search_status.poll()
        columns, matrix = lp.solverModel
        matrix.col_cost_ = [lp.objective.get(column, 0.0) for column in columns]
        self._highs.passModel(matrix)
        if warm:
            start = highspy.HighsSolution()
            start.col_value = [column.varValue for column in columns]
            self._highs.setSolution(start)
        self.gap = np.inf
        self._looks, entries = 0, max(1, len(matrix.a_matrix_.index_))
        self._most_looks = math.inf if max_work is None else max(1, max_work // entries)
        run(self._highs)
        for column, x in zip(columns, self._highs.getSolution().col_value, strict=True):
            column.varValue = x
        model_status, info = self._highs.getModelStatus(), self._highs.getInfo()
        status, sol_status = pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound
        if model_status == highspy.HighsModelStatus.kOptimal:
            status, sol_status = pulp.LpStatusOptimal, pulp.LpSolutionOptimal
        elif model_status == highspy.HighsModelStatus.kInfeasible:
            status, sol_status = pulp.LpStatusInfeasible, pulp.LpSolutionInfeasible
        elif info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            status, sol_status = pulp.LpStatusOptimal, pulp.LpSolutionIntegerFeasible
        lp.assignStatus(status, sol_status)
        return int(status)

    def bound(self, lp: Any) -> float:
        """Return what no solution of the problem just solved can exceed."""
        return float(self._highs.getInfo().mip_dual_bound)

    def proven(self, lp: Any) -> float:
        """Return a bound on all solutions of the continuous problem just solved, see ``dual_bound``."""
        _, matrix = lp.solverModel
        rows = Rows(
            np.array(matrix.row_lower_),
            np.array(matrix.row_upper_),
            np.array(matrix.a_matrix_.start_),
            np.array(matrix.a_matrix_.index_, np.intp),
            np.array(matrix.a_matrix_.value_),
        )
        dual = np.array(self._highs.getSolution().row_dual)
        return dual_bound(np.array(matrix.col_cost_), rows, dual)[0]


class Rows(NamedTuple):
    """The rows of a linear program: the bounds of each, and its columns and their values from ``start``."""

    low: Floats
    high: Floats
    start: Ints
    column: Ints
    value: Floats


def dual_bound(cost: Floats, rows: Rows, dual: Floats) -> tuple[float, Floats]:
    """Return a bound on all solutions of a linear program to maximise ``cost``, and the reduced costs.

    Columns are in [0, 1]. By weak duality any duals of the rows give a bound, so a solver's tolerances do not
    matter. The error of rounding is added. The bound is less by the size of a reduced cost where its column
    is 0 though it is positive, or 1 though it is negative.
    """
    side = np.where(dual > 0, rows.high, rows.low)
    dual = np.where(np.isfinite(side), dual, 0.0)
    of_rows = dual * np.where(np.isfinite(side), side, 0.0)
    entry = np.repeat(dual, np.diff(rows.start)) * rows.value
    reduced_cost = cost - np.bincount(rows.column, entry, len(cost))
    size = float(np.abs(entry).sum() + np.abs(of_rows).sum() + np.abs(cost).sum())
    of_columns = np.maximum(reduced_cost, 0.0)
    error = 2.0**-52 * (len(entry) + len(cost)) * size
    return math.fsum([*of_rows, *of_columns, error]), reduced_cost


def _matrix(lp: Any) -> tuple[list[Any], highspy.HighsLp]:
    """Return a PuLP problem's columns, and its rows and bounds as HiGHS takes them."""
    columns, rows = lp.variables(), lp.constraints()
    number = {column: i for i, column in enumerate(columns)}
    matrix = highspy.HighsLp()
    matrix.num_col_, matrix.num_row_ = len(columns), len(rows)
    matrix.sense_ = highspy.ObjSense.kMaximize
    matrix.col_lower_ = [column.lowBound for column in columns]
    matrix.col_upper_ = [column.upBound for column in columns]
    matrix.integrality_ = [_KIND[column.cat] for column in columns]
    matrix.row_lower_ = [_or(row.getLb(), -highspy.kHighsInf) for row in rows]
    matrix.row_upper_ = [_or(row.getUb(), highspy.kHighsInf) for row in rows]
    matrix.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    matrix.a_matrix_.start_ = [0, *accumulate(len(row) for row in rows)]
    matrix.a_matrix_.index_ = [number[column] for row in rows for column in row]
    matrix.a_matrix_.value_ = [x for row in rows for x in row.values()]
    return columns, matrix


def _or(bound: float | None, infinite: float) -> float:
    return infinite if bound is None else bound


_KIND = {
    pulp.LpInteger: highspy.HighsVarType.kInteger,
    pulp.LpContinuous: highspy.HighsVarType.kContinuous,
}


class Cbc(pulp.COIN_CMD):  # type: ignore[misc]
    """The CBC program that comes with PuLP, in a process of its own; it is serial by default.

    ``warm`` and ``max_work`` have no effect: CBC counts nodes only, and a few of them may take minutes.
    """

    gap = np.inf

    def __init__(self, max_nodes: int | None) -> None:
        super().__init__(
            path=pulp.PULP_CBC_CMD.pulp_cbc_path,
            msg=False,
            gapRel=0,
            gapAbs=GAP,
            maxNodes=max_nodes,
        )

    def actualSolve(self, lp: Any, *, warm: bool = False, max_work: int | None = None) -> int:
        """Solve the problem as PuLP does, but kill the process when a signal asks to stop.

        It has a session of its own, because an interrupt from the terminal would make it answer early.
        """
        with TemporaryDirectory() as folder:
            problem, solution = f"{folder}/problem.mps", f"{folder}/solution"
            columns, column_names, row_names, _ = lp.writeMPS(problem, rename=1)
            options = [word for option in self.getOptions() for word in f"-{option}".split()]
            steps = ["-solve", "-printingOptions", "all", "-solution", solution]
            command = [self.path, problem, "-max", *options, *steps]
            nothing = subprocess.DEVNULL
            process = subprocess.Popen(
                command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
            )
            try:
                while process.poll() is None:
                    search_status.poll()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(search_status.POLL_SECONDS)
            finally:
                process.kill()
                process.wait()
            if process.returncode != 0 or not Path(solution).exists():
                raise pulp.PulpSolverError(f"{self.path} ended with {process.returncode}")
            status, values, *_, sol_status = self.readsol_MPS(
                solution, lp, columns, column_names, row_names
            )
        lp.assignVarsVals(values)
        lp.assignStatus(status, sol_status)
        return int(status)

    def bound(self, lp: Any) -> float:
        """Return a bound on all solutions; PuLP reads none from CBC.

        It is the optimum or else the sum of the positive costs, because all variables are in [0, 1].
        """
        if lp.sol_status == pulp.LpSolutionOptimal:
            return float(lp.objective.valueOrDefault())
        return float(sum(max(0.0, cost) for cost in lp.objective.values()))


SOLVERS: dict[Literal["highs", "cbc"], type[Highs] | type[Cbc]] = {"highs": Highs, "cbc": Cbc}
