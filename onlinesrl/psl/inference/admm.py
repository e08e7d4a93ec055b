"""ADMM: the engine for hinge-loss models of any kind (Bach et al. 2015), with a certificate."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.core.parallel.threads import ThreadTeam
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.admm_threads import Rounds, TeamRounds
from onlinesrl.psl.inference.dual import check_constants, check_weights
from onlinesrl.psl.inference.protocols import HingeSolution, Round, Watch
from onlinesrl.psl.inference.weight_scale import ScaledEngine, ScaledProblem, unscaled
from onlinesrl.psl.kernels import admm as kernel
from onlinesrl.psl.kernels import admm_rows, admm_solve

LEARNING = 1e-4, 1e-4
"""The tolerance and the violation at which rounds between updates of weights have converged."""


@dataclass(frozen=True)
class Admm(ScaledEngine):
    """ADMM with over-relaxation and a step size that balances the residuals.

    It ends when the duality gap, which includes what violations may have gained, is at most
    ``tolerance`` relative to the energy (absolute below 1) and no constraint is violated by more than
    ``violation``; or, uncertified, after ``rounds``. ``watch`` is called every ten rounds. A variable
    that is in no row and has no bonus keeps its starting value, by default 1/2. A model of at least
    ``large`` rows is worked on in parts by ``threads`` threads; the answer is the same to the bit for any
    number of them.
    """

    tolerance: float = 1e-6
    violation: float = 1e-4
    rounds: int = 25_000
    watch: Watch | None = field(default=None, compare=False)
    threads: int = field(default=1, compare=False)
    large: int = 50_000

    @property
    def gap(self) -> float:
        """See ``ScaledEngine``."""
        return self.tolerance

    def solve_scaled(self, problem: ScaledProblem) -> HingeSolution:
        """See ``ScaledEngine``."""
        model, weights, bonus, start, factor = problem
        watch = unscaled(self.watch, factor)
        team = ThreadTeam(self.threads) if model.n_rows >= self.large else None
        with team or nullcontext():
            state = AdmmState(model, weights, bonus, start, team)
            if watch is None:
                return state.solve(self.tolerance, self.violation, self.rounds)
            while True:
                solution = state.solve(self.tolerance, self.violation, 0)
                figures = solution.energy, solution.bound, solution.violation
                watch(Round(solution.iterations, *figures))
                if solution.certified or solution.iterations >= self.rounds:
                    return solution


class AdmmState:
    """The state of ADMM between two rounds, for algorithms that interleave it with others.

    The penalties of copies are ``eta`` times those of ``psl.kernels.admm_rows``. The step size ``eta`` starts
    at 1 and changes after 10, 20, 30, 45, ... rounds. A ``team`` does them together, in parts.
    """

    def __init__(
        self,
        model: HingeLossMRF,
        weights: Floats,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
        team: ThreadTeam | None = None,
    ):
        check_constants(model)
        n, m = model.n_variables, model.n_rows
        bonus = np.zeros(n) if bonus is None else bonus
        self.model, self._team = model, team
        check_weights(model, weights)
        low, high, curvature, row_step = np.empty((4, m))
        conjugates = low, high, curvature, row_step
        of_variables = np.zeros(n), bonus, np.zeros(n)
        self.problem = kernel.AdmmProblem(model, weights, *conjugates, *of_variables)
        y = np.full(n, 0.5) if start is None else start.y.copy()
        dual = np.empty(m) if start is None else start.dual.copy()
        self.iterate = kernel.Iterate(y, dual, -bonus, np.empty(n))
        self._prepare(np.empty(0), resumes=start is not None)
        self._control = np.array([1.0, 0.0, admm_solve.PERIOD])

    @property
    def y(self) -> Floats:
        """The values, float64[n_variables] in [0, 1]."""
        return np.clip(self.iterate.y, 0.0, 1.0)

    @property
    def n_rounds(self) -> int:
        """The number of rounds done."""
        return int(self._control[admm_solve.ROUNDS])

    @property
    def eta(self) -> float:
        """The step size."""
        return float(self._control[admm_solve.ETA])

    def step(self, n: int) -> None:
        """Do ``n`` rounds."""
        memory = np.empty_like(self.iterate.y), np.empty_like(self.iterate.dual)
        self._rounds.advance(*memory, self._control, n)

    def keep(self, eta: float) -> None:
        """Use the step size ``eta`` in all rounds."""
        self._control[[admm_solve.ETA, admm_solve.NEXT]] = eta, np.inf

    def copies(self) -> Floats:
        """Do a round, and return the forms at its local copies, float64[n_rows]."""
        eta, before, form = self.eta, self.iterate.dual.copy(), np.empty_like(self.iterate.dual)
        self.step(1)
        kernel.copied(self.problem, self.iterate, before, eta, admm_solve.RELAXATION, form)
        return form

    def up_to(self, n: int) -> Floats:
        """Do ``n`` rounds, or fewer where every tenth shows that they converge; return as ``copies`` does."""
        left = n - 1
        while left > 0:
            if admm_solve.verdict(*self.certificate(), np.inf, *LEARNING) == admm_solve.CERTIFIED:
                break
            rounds = min(left, admm_solve.PERIOD)
            self.step(rounds)
            left -= rounds
        return self.copies()

    def reweigh(self, weights: Floats) -> None:
        """Change the weights; values, step size, and each dual divided by the step of its row stay."""
        self._set_weights(weights)
        self.problem.degree[:] = self.problem.ridge[:] = 0.0
        self.iterate.gradient[:] = -self.problem.bonus
        self._prepare(self.problem.row_step.copy(), resumes=True)

    def _set_weights(self, weights: Floats) -> None:
        check_weights(self.model, weights)
        self.problem = replace(self.problem, weights=weights)

    def _prepare(self, before: Floats, resumes: bool) -> None:
        arguments = self.problem, self.iterate
        self._rounds = (
            Rounds(*arguments) if self._team is None else TeamRounds(*arguments, self._team)
        )
        self._highest = self._rounds.prepare(before, resumes)
        self._highest += float(np.maximum(-self.problem.bonus, 0.0).sum())
        admm_rows.free_variables(self.problem)

    def solve(self, tolerance: float, violation: float, rounds: int) -> HingeSolution:
        """Continue as ``Admm`` does up to ``rounds`` in all, at least for ten more; raises Infeasible."""
        dual = np.empty_like(self.iterate.dual)
        until = self._highest, tolerance, violation, float(rounds)
        memory = np.empty_like(self.iterate.y)
        verdict, energy, bound, excess = self._rounds.solve(memory, dual, self._control, until)
        if verdict == admm_solve.INFEASIBLE:
            raise Infeasible("no values satisfy the constraints")
        certified = verdict == admm_solve.CERTIFIED
        return HingeSolution(self.y, energy, dual, bound, excess, self.n_rounds, "admm", certified)

    def certificate(self) -> tuple[float, float, float, float]:
        """Return energy, bound, violation and complementarity; see ``psl.kernels.admm.certificate``."""
        return kernel.certificate(self.problem, self.iterate, self.iterate.ahead)
