"""ADMM's rounds by a team of threads."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.threads import Team
from onlinesrl.psl.kernels import admm, admm_parts, admm_rows, admm_solve
from onlinesrl.psl.kernels.potentials import Potentials

Until: TypeAlias = tuple[float, float, float, float]
"""When to end, as ``admm_solve.solve`` says it: highest, tolerance, most_violation, most_rounds."""


class Rounds:
    """Rounds by one thread."""

    def __init__(self, rows: Potentials, problem: admm.Problem, now: admm.Iterate) -> None:
        self.rows, self.problem, self.now = rows, problem, now

    def advance(self, y: Floats, dual: Floats, control: Floats, n: int) -> None:
        """See ``admm_solve.advance``."""
        admm_solve.advance(self.problem, self.now, y, dual, control, n)

    def solve(
        self, y: Floats, dual: Floats, control: Floats, until: Until
    ) -> tuple[int, float, float, float]:
        """See ``admm_solve.solve``."""
        return admm_solve.solve(self.rows, self.problem, self.now, y, dual, control, *until)


class TeamRounds(Rounds):
    """Rounds by a team of threads: the same numbers, to the bit."""

    def __init__(
        self, rows: Potentials, problem: admm.Problem, now: admm.Iterate, team: Team
    ) -> None:
        super().__init__(rows, problem, now)
        self._team = team
        n, m, entries = len(now.y), len(now.dual), len(problem.variable)
        self._columns = admm_parts.Columns(
            np.zeros(n + 1, np.int64),
            np.empty(entries, np.int32),
            np.empty(entries),
            np.empty(m, np.int32),
        )
        admm_parts.transpose(problem, self._columns)
        admm_parts.find_runs(problem, self._columns)
        self._terms = np.empty((m, 4))

    def advance(self, y: Floats, dual: Floats, control: Floats, n: int) -> None:
        """See ``admm_solve.advance``."""
        control[admm_solve.ROUNDS] += n
        due = control[admm_solve.ROUNDS] >= control[admm_solve.NEXT]
        if due:
            y[:], dual[:] = self.now.y, self.now.dual
        eta = float(control[admm_solve.ETA])
        step = self.problem, self._columns, self.now, eta, admm_solve.RELAXATION
        for _ in range(n):
            self._team.run(admm_parts.x_update, *step)
            self._team.run(admm_parts.dual_update, *step)
        if due:
            admm_solve.balance(self.problem, self.now, y, dual, control)

    def solve(
        self, y: Floats, dual: Floats, control: Floats, until: Until
    ) -> tuple[int, float, float, float]:
        """See ``admm_solve.solve``."""
        *limits, most_rounds = until
        while True:
            self.advance(y, dual, control, admm_solve.PERIOD)
            found = self._certificate(dual)
            verdict = admm_solve.verdict(*found, *limits)
            if verdict != admm_solve.OPEN or control[admm_solve.ROUNDS] >= most_rounds:
                admm_rows.duals(self.rows, self.problem, self.now, dual)
                return verdict, *found[:3]

    def _certificate(self, dual: Floats) -> tuple[float, float, float, float]:
        """See ``admm.certificate``; sets ``dual`` [row] to the clipped duals."""
        problem, now = self.problem, self.now
        self._team.run(admm_parts.certify_rows, problem, now, self._terms, dual)
        self._team.run(admm_parts.add_rows, problem, self._columns, dual, now.ahead)
        energy, bound, violation, complementarity = admm_parts.total(self._terms)
        linear, least = admm.of_variables(problem, now, now.ahead)
        return energy + linear, bound + least, violation, complementarity
