"""The solvers behind PuLP that ``ilp`` uses, set to be exact and deterministic.

Importing this module imports PuLP and HiGHS. HiGHS and OR-tools do not load in one process.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Literal

import highspy
import pulp

GAP = 1e-9
"""How close bound and best solution must come, in absolute terms; the solvers' 1e-4 is not exact.

Also HiGHS's tolerance for integrality, since it prunes what gains less than that."""


class Highs(pulp.LpSolver):  # type: ignore[misc]
    """HiGHS, handed the whole problem as one matrix (``pulp.HiGHS`` goes column by column).

    Every solve starts from nothing, so that the answer does not depend on the solves before it.
    """

    name = "HiGHS_matrix"

    def __init__(self, max_nodes: int | None) -> None:
        super().__init__(mip=True, msg=False)
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
        options = {
            "output_flag": False,
            "threads": 1,
            "random_seed": 0,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": GAP,
            "mip_feasibility_tolerance": GAP,
            "mip_heuristic_run_feasibility_jump": False,
        }
        if max_nodes is not None:
            options["mip_max_nodes"] = max_nodes
        for option, setting in options.items():
            self._highs.setOptionValue(option, setting)
        self._highs.HandleUserInterrupt = True

    def available(self) -> bool:
        """Say yes: highspy is a dependency."""
        return True

    def actualSolve(self, lp: Any) -> int:
        """Solve the problem; a matrix that an earlier call left in it is used again."""
        if lp.solverModel is None:
            lp.solverModel = _matrix(lp)
        columns, matrix = lp.solverModel
        matrix.col_cost_ = [lp.objective.get(column, 0.0) for column in columns]
        self._highs.passModel(matrix)
        self._run()
        for column, x in zip(columns, self._highs.getSolution().col_value, strict=True):
            column.varValue = x
        status, sol_status = self._status()
        lp.assignStatus(status, sol_status)
        return status

    def _run(self) -> None:
        """Solve in another thread: a signal is not handled while this one is inside HiGHS."""
        self._highs.startSolve()
        try:
            while not self._highs.wait(60.0)[0]:
                pass
        except BaseException:
            self._highs.cancelSolve()  # type: ignore[no-untyped-call]
            self._highs.wait()
            raise

    def bound(self, lp: Any) -> float:
        """Return what no solution of the problem just solved can exceed."""
        return float(self._highs.getInfo().mip_dual_bound)

    def _status(self) -> tuple[int, int]:
        """Return PuLP's status of the model and of the solution."""
        model_status, info = self._highs.getModelStatus(), self._highs.getInfo()
        if model_status == highspy.HighsModelStatus.kOptimal:
            return pulp.LpStatusOptimal, pulp.LpSolutionOptimal
        if model_status == highspy.HighsModelStatus.kInfeasible:
            return pulp.LpStatusInfeasible, pulp.LpSolutionInfeasible
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            return pulp.LpStatusOptimal, pulp.LpSolutionIntegerFeasible
        return pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound


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
    """The CBC program that PuLP carries, in a process of its own; serial, as is its default."""

    def __init__(self, max_nodes: int | None) -> None:
        super().__init__(
            path=pulp.PULP_CBC_CMD.pulp_cbc_path,
            msg=False,
            gapRel=0,
            gapAbs=GAP,
            maxNodes=max_nodes,
        )

    def bound(self, lp: Any) -> float:
        """Return what no solution can exceed: PuLP reads none from CBC, so a trivial one at worst.

        That is the sum of the gains in the objective, all variables being in [0, 1].
        """
        if lp.sol_status == pulp.LpSolutionOptimal:
            return float(lp.objective.valueOrDefault())
        return float(sum(max(0.0, cost) for cost in lp.objective.values()))


SOLVERS: dict[Literal["highs", "cbc"], type[Highs] | type[Cbc]] = {"highs": Highs, "cbc": Cbc}
