"""ADMM over rows in pages on disk.

A round needs the values ahead and the step size, and gives back what the rows add over the variables. The
rows keep one number each, their dual.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.core.parallel.threads import ahead as read_ahead
from onlinesrl.psl.inference.row_pages import Page, Pages
from onlinesrl.psl.kernels import admm
from onlinesrl.psl.kernels import admm_rows as kernel
from onlinesrl.psl.kernels.admm_solve import (
    CERTIFIED,
    GROWTH,
    INFEASIBLE,
    PERIOD,
    RELAXATION,
    balanced,
    verdict,
)

_NONE = np.empty(0)


@dataclass(frozen=True, eq=False)
class PagedSolution:
    """What was found, as in HingeSolution.

    ``potentials`` and ``constraints`` count the rows, ``iterations`` the rounds of ADMM;
    ``bytes_on_disk`` is the size of the pages.
    """

    y: Floats
    energy: float
    bound: float
    violation: float
    potentials: int
    constraints: int
    iterations: int
    bytes_on_disk: int
    certified: bool


class Certificate(NamedTuple):
    """As ``psl.kernels.admm.certificate``."""

    energy: float = 0.0
    bound: float = 0.0
    violation: float = 0.0
    complementarity: float = 0.0

    def add(self, part: tuple[float, float, float, float]) -> Certificate:
        """Return the certificate of these rows and others."""
        energy, bound, violation, complementarity = part
        return Certificate(
            self.energy + energy,
            self.bound + bound,
            max(self.violation, violation),
            self.complementarity + complementarity,
        )


class InitialSums(NamedTuple):
    """Sums over rows at the start: the degrees, and the gradient of the duals and of the clipped duals."""

    certificate: Certificate
    degree: Floats
    gradient: Floats
    clipped: Floats


class RoundSums(NamedTuple):
    """Sums over rows in a round: the gradient, and how far duals have moved since the last mark.

    Where values were given: their certificate with the duals before the round, and the gradient of these
    duals, clipped.
    """

    gradient: Floats
    moved: float
    certificate: Certificate
    clipped: Floats


class Rows(Protocol):
    """All rows, or a part of them; arrays that they return are valid until the next call."""

    def begin(self, y: Floats) -> InitialSums:
        """Set the duals to the slopes at values."""

    def round(self, ahead: Floats, eta: float, y: Floats | None, mark: bool) -> RoundSums:
        """Update the duals; with ``y`` certify them before, with ``mark`` remember them."""


class PageRows:
    """Rows in pages, in memory a page at a time (two for several threads).

    ``weight_sums`` float64[n] are of all rows of the model.
    """

    def __init__(self, pages: Pages, weight_sums: Floats, threads: int = 1) -> None:
        self._pages, self._weight_sums = pages, weight_sums
        self._threads = threads
        self._degree, self._gradient, self._clipped = np.zeros((3, len(weight_sums)))
        self._memory = deque(np.empty((pages.in_memory, 4, pages.most_rows)))

    def begin(self, y: Floats) -> InitialSums:
        """See ``Rows.begin``."""
        self._degree[:] = self._gradient[:] = self._clipped[:] = 0.0
        certificate = Certificate()
        for k, (page, problem) in enumerate(self._read()):
            iterate = admm.Iterate(y, page.dual, self._gradient, _NONE)
            kernel.begin(page.rows, self._weight_sums, problem, iterate, False)
            page.mark[:] = page.dual
            self._pages.keep(k, page, with_mark=True)
            certificate = certificate.add(admm.of_rows(problem, iterate, self._clipped, 0, 1))
        return InitialSums(certificate, self._degree, self._gradient, self._clipped)

    def round(self, ahead: Floats, eta: float, y: Floats | None, mark: bool) -> RoundSums:
        """See ``Rows.round``."""
        self._gradient[:] = self._clipped[:] = 0.0
        certificate, moved = Certificate(), 0.0
        for k, (page, problem) in enumerate(self._read()):
            if y is not None:
                before = admm.Iterate(y, page.dual, _NONE, _NONE)
                certificate = certificate.add(admm.of_rows(problem, before, self._clipped, 0, 1))
            iterate = admm.Iterate(_NONE, page.dual, self._gradient, ahead)
            admm.dual_update(problem, iterate, eta, RELAXATION)
            if mark:
                change = page.dual - page.mark
                moving = change != 0  # not in a row without variables, whose row_step is 0
                moved += float(np.sum(change[moving] ** 2 / problem.row_step[moving]))
                page.mark[:] = page.dual
            self._pages.keep(k, page, with_mark=mark)
        return RoundSums(self._gradient, moved, certificate, _NONE if y is None else self._clipped)

    def _read(self) -> Iterator[tuple[Page, admm.AdmmProblem]]:
        """Yield the pages in their order, also as ADMM's kernels read them."""
        pages = map(self._page, range(len(self._pages)))
        return pages if self._threads == 1 else read_ahead(pages)

    def _page(self, k: int) -> tuple[Page, admm.AdmmProblem]:
        page = self._pages.read(k)
        self._memory.rotate()
        rows = page.rows
        low, high, curvature, row_step = self._memory[0][:, : len(page.dual)]
        forms = rows.start, rows.variable, rows.coefficient, rows.constant
        conjugates = low, high, curvature, row_step
        problem = admm.AdmmProblem(*forms, *conjugates, self._degree, bonus=_NONE, ridge=_NONE)
        kernel.expand(rows, self._weight_sums, problem)
        return page, problem


class Consensus:
    """The values of ADMM, which asks its rows for what they add; see ``AdmmState``."""

    def __init__(self, rows: Rows, y: Floats, ridge: Floats) -> None:
        n = len(y)
        self.iterate = admm.Iterate(y, _NONE, np.zeros(n), np.empty(n))
        self.y_before = y.copy()
        self.count = 0
        self.eta = 1.0
        self._next = PERIOD
        self._rows = rows
        start, variable = np.zeros(1, np.int32), np.empty(0, np.int32)
        no_rows = start, variable, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE
        self._variables = admm.AdmmProblem(*no_rows, np.zeros(n), bonus=np.zeros(n), ridge=ridge)
        self._marked = y.copy()

    def start(self) -> Certificate:
        """Set the duals to the slopes at the values; return the certificate of both."""
        sums = self._rows.begin(self.iterate.y)
        self._variables.degree[:] = sums.degree
        self.iterate.gradient[:] = sums.gradient
        kernel.free_variables(self._variables)
        return self._certificate(sums.certificate, self.iterate, sums.clipped)

    def look(self) -> Certificate:
        """Do a round; return the certificate of the values before it, which are ``y_before``."""
        sums = self.step(self.y_before)
        before = replace(self.iterate, y=self.y_before)
        return self._certificate(sums.certificate, before, sums.clipped)

    def step(self, y: Floats | None = None) -> RoundSums:
        """Do a round; ``y`` is as in ``Rows.round``."""
        self.y_before[:] = self.iterate.y
        self.count += 1
        mark = self.count % PERIOD == 0
        admm.x_update(self._variables, self.iterate, self.eta, RELAXATION)
        sums = self._rows.round(self.iterate.ahead, self.eta, y, mark)
        self.iterate.gradient[:] += sums.gradient
        if mark:
            if self.count >= self._next:  # the step size, by the movement since the last mark
                self._next = int(GROWTH * self.count)
                change = self.iterate.y - self._marked
                primal = float(np.sum(change**2 * self._variables.degree))
                self.eta = balanced(primal, sums.moved, self.eta)
            self._marked[:] = self.iterate.y
        return sums

    def _certificate(
        self, rows: Certificate, iterate: admm.Iterate, clipped: Floats
    ) -> Certificate:
        """Add the part of the variables to a certificate."""
        energy, bound = admm.of_variables(self._variables, iterate, clipped)
        return rows.add((energy, bound, 0.0, 0.0))


class Limits(NamedTuple):
    """When ADMM ends: as ``Admm`` says it, and ``highest``, an upper bound on the least energy."""

    tolerance: float
    violation: float
    rounds: int
    highest: float

    def merit(self, certificate: Certificate) -> tuple[float, float]:
        """Return a key that is smaller for better values: less violation first, then less energy."""
        excess = certificate.violation if certificate.violation > self.violation else 0.0
        return excess, certificate.energy


def polish(
    rounds: Consensus, limits: Limits, report: Callable[[int, Certificate], object]
) -> tuple[Certificate, Floats, bool]:
    """Do rounds; return the best values' certificate, the values, whether certified. Raises Infeasible.

    ``report`` is called with the number of every round and the last certificate.
    """
    lowest = certificate = rounds.start()
    best = np.clip(rounds.iterate.y, 0.0, 1.0)
    while True:
        status = verdict(*certificate, limits.highest, limits.tolerance, limits.violation)
        if status == INFEASIBLE:
            raise Infeasible("no values satisfy the constraints")
        certified = status == CERTIFIED
        if certified or limits.merit(certificate) < limits.merit(lowest):
            lowest, best = certificate, np.clip(rounds.y_before, 0.0, 1.0)
        if certified or rounds.count >= limits.rounds:
            return lowest, best, certified
        for _ in range(min(PERIOD, limits.rounds - rounds.count) - 1):
            rounds.step()
            report(rounds.count, certificate)
        certificate = rounds.look()
        report(rounds.count, certificate)
