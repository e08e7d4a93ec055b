"""ADMM's rounds by a team of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.threads import Team
from onlinesrl.psl.kernels import admm, admm_parts, admm_rows, admm_solve
from onlinesrl.psl.kernels.potentials import Potentials

F = TypeVar("F", Potentials, admm.Problem, admm.Iterate)
Until: TypeAlias = tuple[float, float, float, float]
"""When to end, as ``admm_solve.solve`` says it: highest, tolerance, most_violation, most_rounds."""


ROWS, MOST = 1 << 19, 8
"""The fewest rows of a part where there are more than two, and the most parts."""

OF_ROWS = ["constant", "weight", "hinge", "square", "low", "high", "curvature", "row_step", "dual"]
"""The arrays of frames that have a number for every row."""


class Rounds:
    """Rounds by one thread."""

    def __init__(self, rows: Potentials, problem: admm.Problem, now: admm.Iterate) -> None:
        self.rows, self.problem, self.now = rows, problem, now

    def prepare(self, before: Floats, known: bool) -> float:
        """See ``admm_rows.prepare``."""
        sums = np.zeros(len(self.now.y))
        return admm_rows.prepare(self.rows, sums, self.problem, self.now, before, known)

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
    as the model's size says, add up their gradients apart. Every thread updates y for itself, which takes
    less time than to wait for the others' share.
    """

    def __init__(
        self, rows: Potentials, problem: admm.Problem, now: admm.Iterate, team: Team
    ) -> None:
        super().__init__(rows, problem, now)
        self._team = team
        m, n, parts = len(now.dual), len(now.y), number_of_parts(len(now.dual))
        self._run_end = np.empty(m, np.int32)
        others = range(1, min(team.threads, parts))
        self._own = [now, *(replace(now, y=np.empty(n), ahead=np.empty(n)) for _ in others)]
        self._sides = [_Side.of(self._own, np.zeros((parts, n))) for _ in range(2)]
        self._ranges = [slice(m * k // parts, m * (k + 1) // parts) for k in range(parts)]

    def prepare(self, before: Floats, known: bool) -> float:
        """See ``admm_rows.prepare``."""
        gradients, _ = self._sides[0]
        weight_sums, degrees = np.zeros(len(self.now.y)), np.zeros_like(gradients)
        highest = admm_rows.weigh(self.rows, weight_sums, self.problem.ridge)

        def of_range(k: int) -> None:
            which = self._ranges[k]
            rows = _some(self.rows, which)
            problem = _some(self.problem, which, degree=degrees[k])
            now = _some(self.now, which, gradient=gradients[k])
            admm_rows.expand(rows, weight_sums, problem)
            admm_rows.rescale(before[which], problem.row_step, now.dual)
            admm_rows.begin(rows, weight_sums, problem, now, known)
            admm_parts.find_runs(problem, self._run_end[which])
            self._run_end[which] += which.start

        self._each(of_range)
        degrees.sum(0, out=self.problem.degree)
        return highest

    def advance(self, y: Floats, dual: Floats, control: Floats, n: int) -> None:
        """See ``admm_solve.advance``."""
        control[admm_solve.ROUNDS] += n
        due = control[admm_solve.ROUNDS] >= control[admm_solve.NEXT]
        step = float(control[admm_solve.ETA]), admm_solve.RELAXATION
        for own in self._own[1:]:
            own.y[:] = self.now.y
        if due:
            y[:] = self.now.y
            self._each(lambda k: np.copyto(dual[self._ranges[k]], self.now.dual[self._ranges[k]]))
        for _ in range(n):
            self._round(*step)
        if due:
            admm_solve.balance(self.problem, self.now, y, self._moved(dual), control)

    def _moved(self, before: Floats) -> float:
        """See ``admm_solve.moved``."""
        found = np.empty(len(self._ranges))

        def of_range(k: int) -> None:
            arrays = before, self.now.dual, self.problem.row_step
            found[k] = admm_solve.moved(*(each[self._ranges[k]] for each in arrays))

        self._each(of_range)
        return float(found.sum())

    def _round(self, *step: float) -> None:
        (before, _), (gradients, iterates) = self._sides
        problem, run_end, parts = self.problem, self._run_end, len(gradients)

        def of_thread(rank: int, threads: int) -> None:
            if rank < parts:
                admm_parts.x_update(problem, self._own[rank], before, *step)
            for k in range(rank, parts, threads):
                admm_parts.dual_update(problem, iterates[k], run_end, k, parts, *step)

        self._team.run(of_thread)
        self._sides.reverse()

    def solve(
        self, y: Floats, dual: Floats, control: Floats, until: Until
    ) -> tuple[int, float, float, float]:
        """See ``admm_solve.solve``."""
        *limits, most_rounds = until
        while True:
            self.advance(y, dual, control, admm_solve.PERIOD)
            found = self._certificate()
            verdict = admm_solve.verdict(*found, *limits)
            if verdict != admm_solve.OPEN or control[admm_solve.ROUNDS] >= most_rounds:
                admm_rows.duals(self.rows, self.problem, self.now, dual)
                return verdict, *found[:3]

    def _certificate(self) -> tuple[float, float, float, float]:
        """See ``admm.certificate``."""
        gradients, iterates = self._sides[1]  # which the next round sets
        parts, terms = len(gradients), np.empty((len(gradients), 4))

        def of_part(k: int) -> None:
            terms[k] = admm_parts.of_rows(self.problem, iterates[k], k, parts)

        self._each(of_part)
        np.subtract(gradients.sum(0), self.problem.bonus, out=self.now.ahead)
        energy, bound, _, complementarity = terms.sum(0).tolist()
        violation = float(terms[:, 2].max())
        linear, least = admm.of_variables(self.problem, self.now, self.now.ahead)
        return energy + linear, bound + least, violation, complementarity

    def _each(self, work: Callable[[int], object]) -> None:
        """Work for each of the parts."""

        def of_thread(rank: int, threads: int) -> None:
            for k in range(rank, len(self._ranges), threads):
                work(k)

        self._team.run(of_thread)


class _Side(NamedTuple):
    """The parts' gradients, float64[part, variable]: one side is read while the other is set.

    The iterate of a part has its gradient, and the y of the thread that works on it.
    """

    gradients: Floats
    iterates: list[admm.Iterate]

    @classmethod
    def of(cls, own: list[admm.Iterate], gradients: Floats) -> _Side:
        """Return the side of these gradients, for threads with iterates of their own."""
        each = enumerate(gradients)
        return cls(gradients, [replace(own[k % len(own)], gradient=of) for k, of in each])


def _some(of: F, rows: slice, **others: Any) -> F:
    """Return a frame with these of its rows, and some arrays in place of its own."""
    arrays: dict[str, Any] = {name: vars(of)[name][rows] for name in OF_ROWS if name in vars(of)}
    if "start" in vars(of):
        arrays["start"] = vars(of)["start"][rows.start : rows.stop + 1]
    return replace(of, **arrays, **others)


def number_of_parts(rows: int) -> int:
    """Return how many parts a problem with so many rows has."""
    return min(MOST, max(2, (1 << (rows // ROWS).bit_length()) // 2))
