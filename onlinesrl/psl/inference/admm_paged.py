"""ADMM over rows in pages on disk.

A round needs the values ahead and the step size, and gives back what the rows add over the variables. The
rows keep one number each, their dual.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.core.parallel.threads import ahead as read_ahead
from onlinesrl.psl.ground.hinge_loss_mrf import united
from onlinesrl.psl.inference.protocols import HingeSolution
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
class PagedSolution(HingeSolution):
    """A solution whose ``dual`` is empty, unless it was to be kept.

    ``potentials`` and ``constraints`` count the rows, ``iterations`` the rounds of ADMM;
    ``bytes_on_disk`` is the size of the pages.
    """

    potentials: int
    constraints: int
    bytes_on_disk: int


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


class PagedRounds:
    """ADMM's rounds over rows in pages, in memory a page at a time (two for several threads).

    ``weight_sums`` and ``ridge``, float64[n], are those of ``admm_rows.weigh`` over all rows; the values
    begin with ``y``, float64[n]. The rows keep one number each between rounds, their dual; ``y_before`` are
    the values before the last round. With ``keeps_duals``, ``duals`` are those of the last certificate.
    """

    def __init__(
        self,
        pages: Pages,
        weights: Floats,
        sums: tuple[Floats, Floats],
        y: Floats,
        threads: int = 1,
        keeps_duals: bool = False,
    ) -> None:
        n, (weight_sums, ridge) = len(y), sums
        self.count, self.eta, self._next = 0, 1.0, PERIOD
        self.y, self.y_before, self._marked = y, y.copy(), y.copy()
        self._pages, self._weight_sums, self._threads = pages, weight_sums, threads
        self._iterate = admm.Iterate(y, _NONE, np.zeros(n), np.empty(n))
        self._memory = deque(np.empty((pages.in_memory, 4, pages.most_rows)))
        no_rows = united(n, []), weights, _NONE, _NONE, _NONE, _NONE
        self._variables = admm.AdmmProblem(*no_rows, np.zeros(n), bonus=np.zeros(n), ridge=ridge)
        self._keeps_duals, self.duals = keeps_duals, list[Floats]()

    def start(self) -> Certificate:
        """Set the duals to the slopes at the values; return the certificate of both."""
        certificate, gradient = Certificate(), np.zeros_like(self.y)
        self.duals = []
        for k, (page, problem) in enumerate(self._read()):
            iterate = replace(self._iterate, dual=page.dual)
            kernel.begin(problem, iterate, self._weight_sums, False)
            page.mark[:] = page.dual
            self._pages.keep(k, page, with_mark=True)
            certificate = certificate.add(self._of_rows(problem, iterate, gradient))
        kernel.free_variables(self._variables)
        return certificate.add(self._of_variables(self.y, gradient))

    def step(self) -> None:
        """Do a round."""
        self._round(None)

    def look(self) -> Certificate:
        """Do a round; return the certificate of the values before it."""
        gradient, self.duals = np.zeros_like(self.y), []
        certificate = self._round(gradient)
        return certificate.add(self._of_variables(self.y_before, gradient))

    def _round(self, certified: Floats | None) -> Certificate:
        """Do a round; return the rows' part of a certificate before it, and set its gradient, if any."""
        self.y_before[:] = self.y
        self.count += 1
        mark, certificate, moved = self.count % PERIOD == 0, Certificate(), 0.0
        admm.x_update(self._variables, self._iterate, self.eta, RELAXATION)
        for k, (page, problem) in enumerate(self._read()):
            iterate = replace(self._iterate, dual=page.dual)
            if certified is not None:
                before = replace(iterate, y=self.y_before)
                certificate = certificate.add(self._of_rows(problem, before, certified))
            admm.dual_update(problem, iterate, self.eta, RELAXATION)
            if mark:
                change = page.dual - page.mark
                moving = change != 0  # not in a row without variables, whose row_step is 0
                moved += float(np.sum(change[moving] ** 2 / problem.row_step[moving]))
                page.mark[:] = page.dual
            self._pages.keep(k, page, with_mark=mark)
        if mark:
            if self.count >= self._next:  # the step size, by the movement since the last mark
                self._next = int(GROWTH * self.count)
                primal = float(np.sum((self.y - self._marked) ** 2 * self._variables.degree))
                self.eta = balanced(primal, moved, self.eta)
            self._marked[:] = self.y
        return certificate

    def _of_rows(
        self, problem: admm.AdmmProblem, iterate: admm.Iterate, gradient: Floats
    ) -> tuple[float, float, float, float]:
        """Return a page's part of a certificate, and add to its gradient."""
        if self._keeps_duals:
            self.duals.append(iterate.dual.copy())
        return admm.of_rows(problem, iterate, gradient, 0, 1)

    def _of_variables(self, y: Floats, gradient: Floats) -> tuple[float, float, float, float]:
        """Return the variables' part of a certificate."""
        iterate = replace(self._iterate, y=y)
        return *admm.of_variables(self._variables, iterate, gradient), 0.0, 0.0

    def _read(self) -> Iterator[tuple[Page, admm.AdmmProblem]]:
        """Yield the pages in their order, also as ADMM's kernels read them."""
        pages = map(self._page, range(len(self._pages)))
        return pages if self._threads == 1 else read_ahead(pages)

    def _page(self, k: int) -> tuple[Page, admm.AdmmProblem]:
        page = self._pages.read(k)
        self._memory.rotate()
        low, high, curvature, row_step = self._memory[0][:, : len(page.dual)]
        of_rows = page.rows, self._variables.weights, low, high, curvature, row_step
        problem = admm.AdmmProblem(*of_rows, self._variables.degree, bonus=_NONE, ridge=_NONE)
        kernel.expand(problem, self._weight_sums)
        return page, problem


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


class Polished(NamedTuple):
    """The best values, their certificate, the duals of its pages if they are kept, and whether it is one."""

    y: Floats
    certificate: Certificate
    duals: list[Floats]
    certified: bool


def polish(
    rounds: PagedRounds, limits: Limits, report: Callable[[int, Certificate], object]
) -> Polished:
    """Do rounds, and return the best. Raises Infeasible.

    ``report`` is called with the number of every round and the last certificate.
    """
    lowest = certificate = rounds.start()
    best, duals = np.clip(rounds.y, 0.0, 1.0), rounds.duals
    while True:
        status = verdict(*certificate, limits.highest, limits.tolerance, limits.violation)
        if status == INFEASIBLE:
            raise Infeasible("no values satisfy the constraints")
        certified = status == CERTIFIED
        if certified or limits.merit(certificate) < limits.merit(lowest):
            lowest, best = certificate, np.clip(rounds.y_before, 0.0, 1.0)
            duals = rounds.duals
        if certified or rounds.count >= limits.rounds:
            return Polished(best, lowest, duals, certified)
        for _ in range(min(PERIOD, limits.rounds - rounds.count) - 1):
            rounds.step()
            report(rounds.count, certificate)
        certificate = rounds.look()
        report(rounds.count, certificate)
