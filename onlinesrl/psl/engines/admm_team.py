"""ADMM's rounds by a team of threads."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints32
from onlinesrl.core.threads import Team
from onlinesrl.psl.kernels import admm, admm_parts, admm_rows, admm_solve
from onlinesrl.psl.kernels.potentials import Potentials

Until: TypeAlias = tuple[float, float, float, float]
"""When to end, as ``admm_solve.solve`` says it: highest, tolerance, most_violation, most_rounds."""


ROWS, MOST = 1 << 19, 8
"""The fewest rows of a part where there are more than two, and the most parts."""


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
    """Rounds of a large model by a team: the numbers are the same to the bit for any number of threads.

    They differ from those of ``Rounds`` by rounding, since the parts that the rows are divided into,
    as the model's size says, add up their gradients apart.
    """

    def __init__(
        self, rows: Potentials, problem: admm.Problem, now: admm.Iterate, team: Team
    ) -> None:
        super().__init__(rows, problem, now)
        self._team = team
        ends = _ends(problem)
        self._gradients = np.zeros((len(ends) - 1, len(now.y)))
        self._gradients[0] = now.gradient
        others = replace(problem, bonus=np.zeros_like(problem.bonus))
        self._parts = [
            _Part.of(problem if number == 0 else others, now, *rows, self._gradients[number])
            for number, rows in enumerate(pairwise(ends))
        ]

    def advance(self, y: Floats, dual: Floats, control: Floats, n: int) -> None:
        """See ``admm_solve.advance``."""
        control[admm_solve.ROUNDS] += n
        due = control[admm_solve.ROUNDS] >= control[admm_solve.NEXT]
        if due:
            y[:], dual[:] = self.now.y, self.now.dual
        eta, relaxation = float(control[admm_solve.ETA]), admm_solve.RELAXATION
        step = self.problem, self.now, self._gradients, eta, relaxation

        def dual_update(rank: int, threads: int) -> None:
            for part in self._parts[rank::threads]:
                admm_parts.dual_update(*part, eta, relaxation)

        for _ in range(n):
            self._team.run(admm_parts.x_update, *step)
            self._team.run(dual_update)
        if due:
            admm_solve.balance(self.problem, self.now, y, dual, control)

    def solve(
        self, y: Floats, dual: Floats, control: Floats, until: Until
    ) -> tuple[int, float, float, float]:
        """See ``admm_solve.solve``."""
        *limits, most_rounds = until
        gradients = np.empty_like(self._gradients)
        while True:
            self.advance(y, dual, control, admm_solve.PERIOD)
            found = self._certificate(gradients)
            verdict = admm_solve.verdict(*found, *limits)
            if verdict != admm_solve.OPEN or control[admm_solve.ROUNDS] >= most_rounds:
                admm_rows.duals(self.rows, self.problem, self.now, dual)
                return verdict, *found[:3]

    def _certificate(self, gradients: Floats) -> tuple[float, float, float, float]:
        """See ``admm.certificate``; ``gradients``, as those of the rounds, are working memory."""
        terms = np.zeros((len(self._parts), 4))

        def of_rows(rank: int, threads: int) -> None:
            for k in range(rank, len(terms), threads):
                part = self._parts[k]
                gradients[k] = -part.problem.bonus
                terms[k] = admm.of_rows(part.problem, part.now, gradients[k])

        self._team.run(of_rows)
        np.add.reduce(gradients, axis=0, out=self.now.ahead)
        energy, bound, violation, complementarity = terms.sum(0).tolist()
        violation = float(terms[:, 2].max())
        linear, least = admm.of_variables(self.problem, self.now, self.now.ahead)
        return energy + linear, bound + least, violation, complementarity


class _Part(NamedTuple):
    """Views of some rows of a problem, their duals with a gradient apart, and their runs."""

    problem: admm.Problem
    now: admm.Iterate
    run_end: Ints32

    @classmethod
    def of(
        cls, problem: admm.Problem, now: admm.Iterate, first: int, stop: int, gradient: Floats
    ) -> _Part:
        """Return the part of the rows ``first .. stop - 1``."""
        names = ("constant", "low", "high", "curvature", "row_step")
        rows = {name: getattr(problem, name)[first:stop] for name in names}
        some = replace(problem, start=problem.start[first : stop + 1], **rows)
        part = cls(
            some,
            replace(now, dual=now.dual[first:stop], gradient=gradient),
            np.empty(stop - first, np.int32),
        )
        admm_parts.find_runs(some, part.run_end)
        return part


def _ends(problem: admm.Problem) -> list[int]:
    """Return where the parts of a problem's rows end, 0 first: of about as many rows and entries each."""
    rows = len(problem.constant)
    parts = min(MOST, max(2, (1 << (rows // ROWS).bit_length()) // 2))
    cost = problem.start + np.arange(rows + 1)
    ends: list[int] = np.searchsorted(cost, np.arange(parts + 1) * (cost[-1] / parts)).tolist()
    return ends
