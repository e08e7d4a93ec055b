"""Tandem inference (Srinivasan 2020, chapter 4): rows are optimised while they are grounded, out of core.

Rows come in chunks, are written to pages on disk and optimised page by page in the same pass. Later
rounds read the pages back. Memory holds one page (two for several threads), one chunk and some vectors
over the variables, however many rows there are. Srinivasan uses stochastic gradient descent in all
rounds; here some rounds of it give the start for ADMM, which reads the pages in order, stores one number
per row in them, and ends with a certificate as in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.parallel.threads import ahead
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HingeLossMRF, with_powers
from onlinesrl.psl.inference.admm import AdmmState
from onlinesrl.psl.inference.admm_paged import (
    Certificate,
    Limits,
    PagedRounds,
    PagedSolution,
    polish,
)
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.row_pages import Page, Pages
from onlinesrl.psl.inference.weight_scale import ScaledEngine, ScaledProblem
from onlinesrl.psl.kernels import admm_rows, sgd


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


@dataclass(frozen=True)
class Tandem:
    """SGD while the rows arrive and over shuffled pages, ``descents`` passes, then ADMM over pages.

    A step of SGD is equation 4.5 of Srinivasan (2020), with AdaGrad's rates; it starts from 1/2. Values are
    projected onto violated constraints, which keeps them nearly feasible; ADMM then finds the optimum. The
    order of pages, and of rows within a page, depends on ``seed`` only.

    ADMM ends as ``Admm`` does, ``tolerance`` and ``violation`` as there, or after ``rounds`` of it; with
    none the answer is that of SGD. ``folder`` takes the pages, of ``page_bytes`` each. With more than one
    of ``threads`` another thread reads the next page while one is processed; the answer is the same.
    """

    folder: Path
    descents: int = 10
    rounds: int = 25_000
    rate: float = 0.3
    tolerance: float = 1e-4
    violation: float = 1e-4
    page_bytes: int = 1 << 23
    seed: int = 0
    threads: int = 1

    def solve(
        self,
        chunks: Iterable[HingeLossMRF],
        n_variables: int,
        weights: Floats,
        report: Callable[[TandemProgress], None] = lambda _: None,
        keeps_dual: bool = False,
    ) -> PagedSolution:
        """Minimise ``w . Phi(y)`` over the feasible values, rows as of one model of all chunks.

        The chunks' variables are ``0 .. n_variables - 1`` of the whole model. With ``keeps_dual`` the
        solution has the duals of its certificate; those of squared priors towards 0 are 0. Raises
        StorageError where the folder cannot take the pages, UsageError where a row is larger than a page,
        Infeasible and ValueError as the other engines.
        """
        with Pages(self.folder, n_variables, self.page_bytes, min(self.threads, 2)) as pages:
            y, (weight_sums, ridge) = np.full(n_variables, 0.5), np.zeros((2, n_variables))
            squares, random = np.zeros(n_variables), np.random.default_rng(self.seed)

            def descend(page: Page) -> float:
                """Take a step for every row in random order; return the sum of their energies before."""
                order = random.permutation(len(page.dual))
                return sgd.descend(page.rows, weights, order, y, self.rate, squares)

            highest, n_rows, constraints, energy = 0.0, 0, 0, 0.0
            for page in pages.fill(chunks, weights):
                highest += admm_rows.weigh(page.rows, weights, weight_sums, ridge)
                energy += descend(page)
                n_rows += len(page.dual)
                constraints += int((page.rows.kind >= AT_MOST).sum())
                report(TandemProgress("ground", 1, n_rows, energy))
            for t in range(2, self.descents + 1):
                shuffled = map(pages.read, random.permutation(len(pages)))
                in_turn = shuffled if self.threads == 1 else ahead(shuffled)
                energy = sum(descend(page) for page in in_turn)
                report(TandemProgress("descend", t, n_rows, energy))

            def report_round(count: int, certificate: Certificate) -> None:
                report(TandemProgress("admm", count, n_rows, *certificate[:3]))

            sums = weight_sums, ridge
            rounds = PagedRounds(pages, weights, sums, y, self.threads, keeps_dual)
            limits = Limits(self.tolerance, self.violation, self.rounds, highest)
            best = polish(rounds, limits, report_round)
            dual = np.concatenate([np.empty(0), *best.duals])
            energy, bound, violation, _ = best.certificate
            proof = bound, violation, rounds.count, "tandem", best.certified
            counts = n_rows - constraints, constraints, pages.bytes_on_disk
            return PagedSolution(best.y, energy, dual, *proof, *counts)


@dataclass(frozen=True)
class TandemEngine(ScaledEngine):
    """Tandem inference of models in memory; a start is ignored. Raises what ``Tandem.solve`` does."""

    tandem: Tandem

    @property
    def gap(self) -> float:
        """See ``ScaledEngine``."""
        return self.tandem.tolerance

    def solve_scaled(self, problem: ScaledProblem) -> HingeSolution:
        """See ``ScaledEngine``."""
        model, weights, bonus, _, _ = problem
        extended, all_weights = model, weights
        if bonus is not None:
            extended = with_powers(model, len(weights), 1)
            all_weights = np.append(weights, -bonus)
        paged = self.tandem.solve([extended], model.n_variables, all_weights, keeps_dual=True)
        limits = self.tandem.tolerance, self.tandem.violation
        solution = AdmmState(extended, all_weights).at(paged.y, paged.dual, *limits, paged.route)
        dual, certified = solution.dual[: model.n_rows], paged.certified
        return replace(solution, dual=dual, iterations=paged.iterations, certified=certified)
