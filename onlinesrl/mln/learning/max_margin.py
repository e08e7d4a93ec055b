"""Max-margin weights by cutting planes (Joachims, Finley & Yu 2009; Huynh & Mooney 2009).

The objective to minimise is 1/2 |w|^2 + c xi. The slack xi is the mean over the worlds of the largest
margin violation, max over y of [rho(y, truth) - w . (f(truth) - f(y))]. Each step finds the most violated
state of every world and adds the mean violation as one cut. The quadratic program over the cuts gives the
next weights and a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.config_types import Count, Positive
from onlinesrl.core.learning.batch import BatchLearner, Learned, Trace, Watch
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import EAGER, eager_groundings
from onlinesrl.mln.inference.registry import LpSection, MpeSection
from onlinesrl.mln.kernels.grounding_frames import EVERY
from onlinesrl.mln.learning.problem import LIMITS, MlnProblem
from onlinesrl.mln.learning.reweighted_world import ReweightedWorld

if TYPE_CHECKING:
    from onlinesrl.mln.learning.lazy_rivals import LazyRivals


class MaxMargin(BatchLearner):
    """Max-margin learning by one-slack cutting planes."""

    name = "max-margin"
    c: Positive = 100.0
    """the cost of a unit of loss, relative to half the squared norm of the weights."""
    gap: Positive = 1e-3
    """the relative gap between the objective and its lower bound at which learning stops."""
    steps: Count = 500
    """the maximal number of steps."""
    inference: Literal["exact", "lp"] = "exact"
    """how the most violated state is found: exactly, or by rounding the linear relaxation, unproven."""
    lazy: Literal["auto", "never"] = "auto"
    """auto: exact inference grounds large rules only where a state violates them; never: all first."""

    def needs(self) -> Mapping[str, str]:
        """See ``Section.needs``."""
        return {"kind": "clarabel"}

    def learn(self, problem: MlnProblem, watch: Watch) -> Learned:
        """Return the weights of the smallest objective; the gap is certified only if all inference is."""
        trace, n = Trace(watch), len(problem.start)
        cuts, best = Cuts(n), (np.inf, np.zeros(n))
        worlds = self._worlds(problem)
        weights, bound, certified, limit = best[1], 0.0, True, np.inf
        for _ in range(self.steps):
            excess, slope, proven = self._most_violated(worlds, weights)
            certified &= proven
            objective = 0.5 * float(weights @ weights) + self.c * max(
                0.0, excess - float(weights @ slope)
            )
            best = min(best, (objective, weights), key=lambda step: step[0])
            trace.add(best[0])
            limit = best[0] - bound
            if limit <= self.gap * max(best[0], 1e-12):
                break
            cuts.add(excess, slope)
            weights, bound = cuts.solve(self.c)
        stats = {
            "worlds": len(worlds),
            "cuts": len(cuts.excess),
            "objective": best[0],
            "lower_bound": bound if certified else None,
            "gap": limit if certified else None,
            "certified": certified and limit <= self.gap * max(best[0], 1e-12),
        }
        late = f"after {self.steps} steps the objective may be {limit:.3g} above the minimum"
        warnings = [] if limit <= self.gap * max(best[0], 1e-12) else [late]
        if not certified:
            warnings.append("some states were not proven to be the most violated: no bound holds")
        return Learned(best[1], trace.steps, stats, warnings)

    def _worlds(self, problem: MlnProblem) -> list[ReweightedWorld | LazyRivals]:
        """Return the worlds, ground but for those with large rules that hold by default."""
        most, lazy = EAGER[self.lazy if self.inference == "exact" else "never"], {}
        plan = compile_program(problem.program, problem.query)
        if np.any(eager_groundings(plan, most, learned=True) < EVERY):
            from onlinesrl.mln.learning.lazy_rivals import LazyRivals

            worlds = ((k, LazyRivals(problem, k, most)) for k in range(len(problem.worlds)))
            lazy = {number: world for number, world in worlds if world.leaves_out()}
        if not lazy:
            return [*problem.ground]
        whole = [number for number in range(len(problem.worlds)) if number not in lazy]
        return [*problem.ground_worlds(whole), *lazy.values()]

    def _most_violated(
        self, worlds: Sequence[ReweightedWorld | LazyRivals], weights: Floats
    ) -> tuple[float, Floats, bool]:
        """Return mean loss, mean f(truth) - f(y) of the most violated states, and whether they are proven."""
        section = MpeSection() if self.inference == "exact" else LpSection()
        inference, n = section.make(0, LIMITS.atoms), len(weights)
        loss, slope, certified = 0.0, np.zeros(n), True
        for world in worlds:
            if not isinstance(world, ReweightedWorld):
                of_world, more, proven = world.most_violated(weights, inference)
                loss, slope, certified = loss + of_world, slope + more, certified and proven
                continue
            solution = inference.engine.solve(
                world.model, world.weigh(weights), bonus=world.loss_gain
            )
            loss += world.loss(solution.state)
            slope += world.features(world.truth, n) - world.features(solution.state, n)
            certified &= solution.certified
        return loss / len(worlds), slope / len(worlds), certified


@dataclass
class Cuts:
    """The cuts, which are lower bounds of the slack: xi >= excess - slope . w."""

    size: int
    excess: list[float] = field(default_factory=list)
    slopes: list[Floats] = field(default_factory=list)
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, excess: float, slope: Floats) -> None:
        """Add a cut."""
        row = np.array([float(slope @ slope_) for slope_ in [*self.slopes, slope]])
        k = len(self.slopes)
        self.gram = np.block([[self.gram, row[:k, None]], [row[None, :k], row[k:, None]]])
        self.excess.append(excess)
        self.slopes.append(slope)

    def solve(self, c: float) -> tuple[Floats, float]:
        """Return the optimal weights under the cuts, and a lower bound of the objective.

        The dual: maximise excess . a - 1/2 a' G a over a >= 0 with sum a <= c; w = sum_j a_j slope_j. The
        answer is scaled to a feasible one, so that it gives a bound.
        """
        import clarabel
        from scipy import sparse

        k, excess = len(self.excess), np.array(self.excess)
        settings: Any = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
        rows = sparse.csc_matrix(np.vstack([-np.eye(k), np.ones((1, k))]))
        solver = clarabel.DefaultSolver(
            sparse.csc_matrix(np.triu(self.gram)),
            -excess,
            rows,
            np.append(np.zeros(k), c),
            [clarabel.NonnegativeConeT(k + 1)],
            settings,
        )
        a = np.maximum(np.array(solver.solve().x), 0.0)
        a = a * min(1.0, c / max(float(a.sum()), 1e-300))
        weights = sum((x * s for x, s in zip(a, self.slopes, strict=True)), np.zeros(self.size))
        return weights, float(a @ self.excess - 0.5 * a @ self.gram @ a)
