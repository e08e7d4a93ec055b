"""ADMM: the engine for hinge-loss models of any kind (Bach et al. 2015), with a certificate."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.core.parallel.threads import ThreadTeam
from onlinesrl.psl.ground.hinge_loss_mrf import HINGE, PLAIN, HingeLossMRF
from onlinesrl.psl.inference.admm_threads import Rounds, TeamRounds
from onlinesrl.psl.inference.dual import check_constants, check_weights
from onlinesrl.psl.inference.protocols import HingeSolution, Round, Watch
from onlinesrl.psl.inference.weight_scale import ScaledEngine, ScaledProblem, unscaled
from onlinesrl.psl.kernels import admm as kernel
from onlinesrl.psl.kernels import admm_rows, admm_solve

LEARNING = 1e-4, 1e-4
"""The tolerance and the violation at which rounds between updates of weights have converged."""
ROUNDS = 25_000
LOOKS = 5
"""How often it is asked whether rounds will do: after four times as many each time, the most at last."""
WORK = 25_000_000
"""Rounds times entries that cost about as much as loading HiGHS: before, no other engine is tried."""
STEP, STEPS = 3_000, 3
"""With the number of variables, how many entries cost as much as a step of the simplex; its steps for each
variable, below which it is not worth trying."""


@dataclass(frozen=True)
class Admm(ScaledEngine):
    """ADMM with over-relaxation and a step size that balances the residuals.

    It ends when the duality gap, which includes what violations may have gained, is at most
    ``tolerance`` relative to the energy (absolute below 1) and no constraint is violated by more than
    ``violation``; or, uncertified, after ``rounds``. If the gap closes so slowly that these would not do,
    another engine goes on from the values; its answer counts if it is certified so. ``watch`` is called every
    ten rounds. A variable that is in no row and has no bonus keeps its starting value, by default 1/2. A
    model of at least ``large`` rows is worked on in parts by ``threads`` threads; the answer is the same to
    the bit for any number of them.
    """

    tolerance: float = 1e-6
    violation: float = 1e-4
    rounds: int = ROUNDS
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
            state, before = AdmmState(model, weights, bonus, start, team), np.inf
            for left in reversed(range(LOOKS)):
                rounds = ROUNDS // 4**left
                solution = self._until(state, min(rounds, self.rounds), watch)
                if solution.certified or solution.iterations < rounds:
                    return solution
                excess = self._excess(solution)
                if excess * (excess / before) ** left >= 1.0:  # the gap will not close
                    other = self._by_another(state, solution, is_last=left == 0)
                    if other is not None and other.certified:
                        return other
                before = excess
            more = self.rounds > solution.iterations
            return self._until(state, self.rounds, watch) if more else solution

    def _until(self, state: AdmmState, rounds: int, watch: Watch | None) -> HingeSolution:
        """Continue up to so many rounds in all."""
        if watch is None:
            return state.solve(self.tolerance, self.violation, rounds)
        while True:
            solution = state.solve(self.tolerance, self.violation, 0)
            figures = solution.energy, solution.bound, solution.violation
            watch(Round(solution.iterations, *figures))
            if solution.certified or solution.iterations >= rounds:
                return solution

    def _excess(self, solution: HingeSolution) -> float:
        """Return how many times too large the gap or the violation is, at least 1."""
        gap = abs(solution.energy - solution.bound) / max(1.0, abs(solution.energy))
        return max(1.0, gap / self.tolerance, solution.violation / self.violation)

    def _by_another(
        self, state: AdmmState, solution: HingeSolution, is_last: bool
    ) -> HingeSolution | None:
        """Go on from a solution: by the dual simplex if potentials are linear, by TRON if they are squared.

        The simplex may take about a quarter of the time of the rounds, after the last one as long as these.
        """
        model, weights, bonus = state.model, state.problem.weights, state.problem.bonus
        work, is_linear = solution.iterations * len(model.variable), model.power == 1
        if work < WORK and not is_last:
            return None
        if np.all(is_linear):
            from onlinesrl.psl.inference.dual_simplex import optimum

            steps, least = work // (STEP + model.n_variables), STEPS * model.n_variables
            if steps < 4 * least and not is_last:
                return None
            steps = steps + 10 * least if is_last else steps // 4
            optimal = optimum(model, weights, bonus, solution.y, steps, self.violation)
            name = "dual simplex"
        elif np.all((model.kind == PLAIN) | ((model.kind == HINGE) & ~is_linear)):
            from onlinesrl.psl.inference.tron import Tron

            by_newton = Tron().solve(model, weights, bonus=bonus, start=solution)
            optimal, name = (by_newton.y, by_newton.dual), by_newton.route
        else:
            return None
        if optimal is None:
            return None
        return state.at(*optimal, self.tolerance, self.violation, f"{solution.route}, {name}")


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
        check_weights(self.model, weights)
        self.problem = replace(self.problem, weights=weights)
        self.problem.degree[:] = self.problem.ridge[:] = 0.0
        self.iterate.gradient[:] = -self.problem.bonus
        self._prepare(self.problem.row_step.copy(), resumes=True)

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

    def at(
        self, y: Floats, dual: Floats, tolerance: float, violation: float, route: str
    ) -> HingeSolution:
        """Return other values and duals with their certificate, which ``route`` is the way to."""
        iterate, duals = replace(self.iterate, y=y, dual=dual), np.empty_like(dual)
        figures = kernel.certificate(self.problem, iterate, iterate.ahead)
        verdict = admm_solve.verdict(*figures, np.inf, tolerance, violation)
        admm_rows.duals(self.problem, iterate, duals)
        certified = verdict == admm_solve.CERTIFIED
        return HingeSolution(y, figures[0], duals, *figures[1:3], self.n_rounds, route, certified)

    def certificate(self) -> tuple[float, float, float, float]:
        """Return energy, bound, violation and complementarity; see ``psl.kernels.admm.certificate``."""
        return kernel.certificate(self.problem, self.iterate, self.iterate.ahead)
