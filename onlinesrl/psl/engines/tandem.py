"""Tandem inference (Srinivasan 2020, chapter 4): rows are optimised while they are grounded, out of core.

Rows come in chunks, are written to pages on disk and optimised page by page in the same pass. Later
rounds read the pages back. Memory holds one page (two for several threads), one chunk and some vectors
over the variables, however many rows there are. Srinivasan uses stochastic gradient descent in all
rounds; here some rounds of it, with AdaGrad's rates, give the start for ADMM, which reads the pages in
order, stores one number per row in them, and ends with a certificate as in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.core.threads import ahead
from onlinesrl.psl.engines.pages import Page, Pages
from onlinesrl.psl.ground.hinges import HingeModel
from onlinesrl.psl.kernels import admm, sgd
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

T = TypeVar("T")


class TandemProgress(NamedTuple):
    """The progress of tandem inference, after every page of the first pass and every round.

    ``rows`` is the number of rows so far. In the passes of SGD (``phase`` "ground" and "descend") the
    energy is that of each row just before its step, and bound and violation are not known; in
    those of ADMM ("admm") all three are those of the last certificate.
    """

    phase: str
    round: int
    rows: int
    energy: float
    bound: float = -np.inf
    violation: float = np.nan


@dataclass(frozen=True, eq=False)
class TandemSolution:
    """What tandem inference found, as in HingeSolution.

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


class _Certificate(NamedTuple):
    """As ``kernels.admm.certificate``."""

    energy: float = 0.0
    bound: float = 0.0
    violation: float = 0.0
    complementarity: float = 0.0

    def add(self, part: tuple[float, float, float, float]) -> _Certificate:
        """Return the certificate of these rows and others."""
        energy, bound, violation, complementarity = part
        return _Certificate(
            self.energy + energy,
            self.bound + bound,
            max(self.violation, violation),
            self.complementarity + complementarity,
        )


@dataclass(frozen=True)
class Tandem:
    """SGD while the rows arrive and over shuffled pages, ``descents`` passes, then ADMM over pages.

    A step of SGD is equation 4.5 of Srinivasan (2020) with AdaGrad's rates: ``rate`` over the root of the
    sum of the variable's squared slopes so far; it starts from 1/2. Values are projected onto violated
    constraints, which keeps them nearly feasible; ADMM then finds the optimum. The order of pages, and of
    rows within a page, depends on ``seed`` only.

    ADMM ends as ``Admm`` does, ``tolerance`` and ``violation`` as there, or after ``rounds`` of it; with
    none the answer is that of SGD. ``folder`` takes the pages, of ``page_bytes`` each. With more than one
    of ``threads`` another thread reads the next page while one is processed; the answer is the same.
    """

    folder: Path
    descents: int = 10
    rounds: int = 1000
    rate: float = 0.3
    tolerance: float = 1e-4
    violation: float = 1e-4
    page_bytes: int = 1 << 23
    seed: int = 0
    threads: int = 1

    def solve(
        self,
        chunks: Iterable[HingeModel],
        n_variables: int,
        weights: Floats,
        report: Callable[[TandemProgress], None] = lambda _: None,
    ) -> TandemSolution:
        """Minimise ``w . Phi(y)`` over the feasible values, rows as of one model of all chunks.

        The chunks' variables are ``0 .. n_variables - 1`` of the whole model. Raises StorageError where
        the folder cannot take the pages, UsageError where a row is larger than a page, Infeasible
        and ValueError as the other engines.
        """
        with Pages(self.folder, self.page_bytes, min(self.threads, 2)) as pages:
            descent = _Descent(self, n_variables)
            highest, n_rows, constraints, energy = 0.0, 0, 0, 0.0
            for page in pages.fill(chunks, weights):
                highest += descent.weigh(page)
                energy += descent.step(page)
                n_rows += len(page.dual)
                constraints += int(np.isinf(page.rows.weight).sum())
                report(TandemProgress("ground", 1, n_rows, energy))
            for t in range(2, self.descents + 1):
                energy = descent.round(pages)
                report(TandemProgress("descend", t, n_rows, energy))
            rounds = _PagedAdmm(pages, descent)
            found, y, certified = self._polish(rounds, highest, n_rows, report)
            return TandemSolution(
                y,
                found.energy,
                found.bound,
                found.violation,
                n_rows - constraints,
                constraints,
                rounds.count,
                pages.bytes_on_disk,
                certified,
            )

    def _polish(
        self,
        rounds: _PagedAdmm,
        highest: float,
        n_rows: int,
        report: Callable[[TandemProgress], None],
    ) -> tuple[_Certificate, Floats, bool]:
        """Do rounds of ADMM; return the best values' certificate, the values, whether certified."""
        found, best = rounds.start(), np.clip(rounds.now.y, 0.0, 1.0)
        lowest = found
        while True:
            proven = verdict(*found, highest, self.tolerance, self.violation)
            if proven == INFEASIBLE:
                raise Infeasible("no values satisfy the constraints")
            certified = proven == CERTIFIED
            if certified or self._merit(found) < self._merit(lowest):
                lowest, best = found, np.clip(rounds.looked_at, 0.0, 1.0)
            if certified or rounds.count >= self.rounds:
                return lowest, best, certified
            for _ in range(min(PERIOD, self.rounds - rounds.count) - 1):
                rounds.step()
                report(TandemProgress("admm", rounds.count, n_rows, *found[:3]))
            found = rounds.look()
            report(TandemProgress("admm", rounds.count, n_rows, *found[:3]))

    def ahead(self, pages: Iterator[T]) -> Iterator[T]:
        """Return pages in turn, the next one read by another thread, where there may be one."""
        return pages if self.threads == 1 else ahead(pages)

    def _merit(self, found: _Certificate) -> tuple[float, float]:
        """Return a key that is smaller for better values: less violation first, then less energy."""
        excess = found.violation if found.violation > self.violation else 0.0
        return excess, found.energy


class _Descent:
    """The values during SGD, and the sums over rows that ADMM needs."""

    def __init__(self, options: Tandem, n_variables: int) -> None:
        self.y = np.full(n_variables, 0.5)
        self.weight_sums = np.zeros(n_variables)
        self.ridge = np.zeros(n_variables)
        self._squares = np.zeros(n_variables)
        self._rate = options.rate
        self._random = np.random.default_rng(options.seed)
        self.ahead = options.ahead

    def weigh(self, page: Page) -> float:
        """Add a page's weights to ``weight_sums`` and ``ridge``; return an upper bound of its energy."""
        return kernel.weigh(page.rows, self.weight_sums, self.ridge)

    def step(self, page: Page) -> float:
        """Take a step for every row of a page, in random order; return the sum of their energies before."""
        order = self._random.permutation(len(page.dual))
        return sgd.descend_adagrad(page.rows, order, self.y, self._rate, self._squares)

    def round(self, pages: Pages) -> float:
        """Do a pass over the pages, in random order."""
        order = self._random.permutation(len(pages))
        return sum(map(self.step, self.ahead(map(pages.read, order))))


class _PagedAdmm:
    """ADMM over pages, whose rows and duals are in memory one page at a time; see ``AdmmState``."""

    def __init__(self, pages: Pages, descent: _Descent) -> None:
        n = len(descent.y)
        self.now = admm.Iterate(descent.y, np.empty(0), np.zeros(n), np.empty(n))
        self.looked_at = descent.y.copy()
        self.count = 0
        self.eta = 1.0
        self._next = PERIOD
        self._pages = pages
        self._weight_sums = descent.weight_sums
        no_start, no_variable, none = np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0)
        self._variables = admm.Problem(
            no_start,
            no_variable,
            coefficient=none,
            constant=none,
            low=none,
            high=none,
            curvature=none,
            row_step=none,
            degree=np.zeros(n),
            bonus=np.zeros(n),
            ridge=descent.ridge,
        )
        self._gradient = np.empty(n)
        self._marked = descent.y.copy()
        self._memory = deque(np.empty((pages.in_memory, 4, pages.most_rows)))
        self._ahead = descent.ahead

    def start(self) -> _Certificate:
        """Set the duals to the slopes at the values; return the certificate of both."""
        self._gradient[:] = 0.0
        found = _Certificate()
        for k, (page, problem) in enumerate(self._ahead(self._read())):
            now = replace(self.now, dual=page.dual)
            kernel.begin(page.rows, self._weight_sums, problem, now, False)
            page.mark[:] = page.dual
            self._pages.keep(k, page, with_mark=True)
            found = found.add(admm.of_rows(problem, now, self._gradient))
        kernel.free_variables(self._variables)
        return self._certificate(found, self.now)

    def step(self) -> None:
        """Do a round."""
        self._round(look=False)

    def look(self) -> _Certificate:
        """Do a round; return the certificate of the values before it, which are ``looked_at``."""
        return self._round(look=True)

    def _round(self, look: bool) -> _Certificate:
        self.looked_at[:] = self.now.y
        before = replace(self.now, y=self.looked_at)
        self._gradient[:] = 0.0
        found, moved = _Certificate(), 0.0
        self.count += 1
        mark = self.count % PERIOD == 0
        admm.x_update(self._variables, self.now, self.eta, RELAXATION)
        for k, (page, problem) in enumerate(self._ahead(self._read())):
            if look:
                found = found.add(
                    admm.of_rows(problem, replace(before, dual=page.dual), self._gradient)
                )
            admm.dual_update(problem, replace(self.now, dual=page.dual), self.eta, RELAXATION)
            if mark:
                change = page.dual - page.mark
                moving = change != 0  # not in a row without variables, whose row_step is 0
                moved += float(np.sum(change[moving] ** 2 / problem.row_step[moving]))
                page.mark[:] = page.dual
            self._pages.keep(k, page, with_mark=mark)
        if mark:
            self._balance(moved)
            self._marked[:] = self.now.y
        return self._certificate(found, before)

    def _certificate(self, rows: _Certificate, now: admm.Iterate) -> _Certificate:
        """Add the part of the variables to a certificate."""
        energy, bound = admm.of_variables(self._variables, now, self._gradient)
        return rows.add((energy, bound, 0.0, 0.0))

    def _balance(self, dual: float) -> None:
        """Set the step size by the movement since the last mark, as ``AdmmState`` does."""
        if self.count < self._next:
            return
        self._next = int(GROWTH * self.count)
        change = self.now.y - self._marked
        primal = float(np.sum(change**2 * self._variables.degree))
        self.eta = balanced(primal, dual, self.eta)

    def _read(self) -> Iterator[tuple[Page, admm.Problem]]:
        """Yield the pages in their order, also as ADMM's kernels read them."""
        for k in range(len(self._pages)):
            page = self._pages.read(k)
            yield page, self._problem(page)

    def _problem(self, page: Page) -> admm.Problem:
        self._memory.rotate()
        low, high, curvature, row_step = self._memory[0][:, : len(page.dual)]
        problem = replace(
            self._variables,
            start=page.rows.start,
            variable=page.rows.variable,
            coefficient=page.rows.coefficient,
            constant=page.rows.constant,
            low=low,
            high=high,
            curvature=curvature,
            row_step=row_step,
        )
        kernel.expand(page.rows, self._weight_sums, problem)
        return problem
