"""ADMM's rounds by a team of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.parallel.threads import ThreadTeam
from onlinesrl.psl.kernels import admm, admm_parts, admm_rows, admm_solve
from onlinesrl.psl.kernels.potentials import HingeRows

F = TypeVar("F", HingeRows, admm.AdmmProblem, admm.Iterate)
Until: TypeAlias = tuple[float, float, float, float]
"""When to end, as ``admm_solve.solve`` says it: highest, tolerance, most_violation, most_rounds."""


ROWS, MOST = 1 << 19, 8
"""The fewest rows of a part where there are more than two, and the most parts."""

OF_ROWS = ["constant", "weight_index", "power", "kind", "low", "high", "curvature"]
OF_ROWS += ["row_step", "dual"]
"""The arrays of frames that have a number for every row."""


class Rounds:
    """Rounds by one thread."""

    def __init__(self, problem: admm.AdmmProblem, iterate: admm.Iterate) -> None:
        self.problem, self.iterate = problem, iterate

    def prepare(self, before: Floats, resumes: bool) -> float:
        """See ``admm_rows.prepare``."""
        sums = np.zeros(len(self.iterate.y))
        return admm_rows.prepare(self.problem, self.iterate, sums, before, resumes)

    def advance(self, y: Floats, dual: Floats, control: Floats, n: int) -> None:
        """See ``admm_solve.advance``."""
        admm_solve.advance(self.problem, self.iterate, y, dual, control, n)

    def solve(
        self, y: Floats, dual: Floats, control: Floats, until: Until
    ) -> tuple[int, float, float, float]:
        """See ``admm_solve.solve``."""
        return admm_solve.solve(self.problem, self.iterate, y, dual, control, *until)


class TeamRounds(Rounds):
    """Rounds of a large model by a team: the numbers are the same to the bit for any number of threads.

    They differ from those of ``Rounds`` by rounding, since the parts that the rows are divided into,
    as the model's size says, add up their gradients apart.
    """

    def __init__(self, problem: admm.AdmmProblem, iterate: admm.Iterate, team: ThreadTeam) -> None:
        super().__init__(problem, iterate)
        self._team = team
        m, n, parts = len(iterate.dual), len(iterate.y), number_of_parts(len(iterate.dual))
        self._ranges = [slice(m * k // parts, m * (k + 1) // parts) for k in range(parts)]
        self._run_end = np.empty(m, np.int32)
        self._gradients = np.zeros((parts, n))
        self._iterates = [replace(iterate, gradient=gradient) for gradient in self._gradients]

    def prepare(self, before: Floats, resumes: bool) -> float:
        """See ``admm_rows.prepare``."""
        weight_sums, degrees = np.zeros(len(self.iterate.y)), np.zeros_like(self._gradients)
        problem = self.problem
        highest = admm_rows.weigh(problem.rows, problem.weights, weight_sums, problem.ridge)

        def set_up(k: int) -> None:
            part = self._ranges[k]
            rows = _with_rows(problem.rows, part)
            of_part = _with_rows(problem, part, rows=rows, degree=degrees[k])
            iterate = _with_rows(self._iterates[k], part)
            admm_rows.set_up(of_part, iterate, weight_sums, before[part], resumes)
            admm_parts.find_runs(of_part, self._run_end[part])
            self._run_end[part] += part.start

        self._for_each_part(set_up)
        degrees.sum(0, out=problem.degree)
        return highest

    def advance(self, y: Floats, dual: Floats, control: Floats, n: int) -> None:
        """See ``admm_solve.advance``."""
        control[admm_solve.ROUNDS] += n
        due = control[admm_solve.ROUNDS] >= control[admm_solve.NEXT]
        step = float(control[admm_solve.ETA]), admm_solve.RELAXATION
        if due:
            y[:] = self.iterate.y
            self._for_each_part(
                lambda k: np.copyto(dual[self._ranges[k]], self.iterate.dual[self._ranges[k]])
            )
        self._team.run(self._rounds, n, step)
        if due:
            distances = np.empty(len(self._ranges))

            def move(k: int) -> None:
                arrays = dual, self.iterate.dual, self.problem.row_step
                distances[k] = admm_solve.moved(*(array[self._ranges[k]] for array in arrays))

            self._for_each_part(move)
            moved = float(distances.sum())
            admm_solve.balance(self.problem, self.iterate, y, moved, control)

    def _rounds(self, n: int, step: tuple[float, float], rank: int, threads: int) -> None:
        """Do a thread's share of n rounds."""
        problem, iterate, parts = self.problem, self.iterate, len(self._iterates)
        for _ in range(n):
            admm_parts.x_update(problem, iterate, self._gradients, rank, threads, *step)
            self._team.barrier(rank)
            for k in range(rank, parts, threads):
                arguments = problem, self._iterates[k], self._run_end
                admm_parts.dual_update(*arguments, k, parts, *step)
            self._team.barrier(rank)

    def solve(
        self, y: Floats, dual: Floats, control: Floats, until: Until
    ) -> tuple[int, float, float, float]:
        """See ``admm_solve.solve``."""
        *limits, most_rounds = until
        gradients = np.empty_like(self._gradients)
        while True:
            self.advance(y, dual, control, admm_solve.PERIOD)
            figures = self._certificate(gradients)
            verdict = admm_solve.verdict(*figures, *limits)
            if verdict != admm_solve.OPEN or control[admm_solve.ROUNDS] >= most_rounds:
                admm_rows.duals(self.problem, self.iterate, dual)
                return verdict, *figures[:3]

    def _certificate(self, gradients: Floats) -> tuple[float, float, float, float]:
        """See ``admm.certificate``; ``gradients``, as those of the rounds, are working memory."""
        parts, terms = len(gradients), np.empty((len(gradients), 4))

        def of_part(k: int) -> None:
            gradients[k] = 0.0
            terms[k] = admm.of_rows(self.problem, self.iterate, gradients[k], k, parts)

        self._for_each_part(of_part)
        np.subtract(gradients.sum(0), self.problem.bonus, out=self.iterate.ahead)
        energy, bound, _, complementarity = terms.sum(0).tolist()
        violation = float(terms[:, 2].max())
        linear, least = admm.of_variables(self.problem, self.iterate, self.iterate.ahead)
        return energy + linear, bound + least, violation, complementarity

    def _for_each_part(self, work: Callable[[int], object]) -> None:
        """Work for each of the parts."""

        def of_thread(rank: int, threads: int) -> None:
            for k in range(rank, len(self._ranges), threads):
                work(k)

        self._team.run(of_thread)


def _with_rows(frame: F, part: slice, **values: Any) -> F:
    """Return a frame with these of its rows, and some arrays in place of its own."""
    arrays: dict[str, Any] = {
        name: vars(frame)[name][part] for name in OF_ROWS if name in vars(frame)
    }
    if "start" in vars(frame):
        arrays["start"] = vars(frame)["start"][part.start : part.stop + 1]
    return replace(frame, **arrays, **values)


def number_of_parts(rows: int) -> int:
    """Return how many parts a problem with so many rows has."""
    return min(MOST, max(2, (1 << (rows // ROWS).bit_length()) // 2))
