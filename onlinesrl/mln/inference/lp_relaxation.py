"""The LP relaxation of the compact integer program, rounded (Huynh & Mooney 2009, section 3).

Importing this module imports PuLP and HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pulp

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.kernels.random import generator
from onlinesrl.core.search_status import doing
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.ilp import CompactProgram, Merged
from onlinesrl.mln.inference.ilp_solvers import Highs
from onlinesrl.mln.inference.maxwalksat import WalkSat, feasible_state
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.kernels.unit_propagation import BY_GAIN

INTEGRAL = 1e-6
"""How close to 0 or 1 an atom's value counts as integral: the solver's tolerance is 1e-7."""


@dataclass(frozen=True)
class Lp:
    """The optimum of the relaxation as the bound, and a feasible state rounded from it.

    An integral optimum is the MPE, and is certified. Any other answer is only as good as the rounding. Where
    that reaches its limit of backtracking, WalkSAT by ``seed`` goes on from there. Raises Unsolved if it
    finds no feasible state either.
    """

    seed: int = 0

    def solve(self, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None) -> Solution:
        """See ``MapEngine.solve``; Unsolved where the weights or the bonus are not finite."""
        size = Magnitude.of(weight, bonus)
        program, solver = CompactProgram(Merged.of(model), weight), Highs(None)
        scale = size.for_solvers
        problem, constant = program.problem, program.set_objective(weight, bonus, scale)
        columns = problem.variables()
        for column in columns:
            column.cat = pulp.LpContinuous
        with doing(lambda: f"linear program of {model.n_atoms:,} atoms"):
            problem.solve(solver)
        if problem.status != pulp.LpStatusOptimal:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        truth = np.array([column.varValue for column in columns[: model.n_atoms]], np.float64)
        objective = float(problem.objective.valueOrDefault())
        optimum = objective / scale + constant
        hidden = (solver.proven(problem) - objective) / scale  # what the duals prove less than that
        integral = bool(np.all(np.abs(truth - np.rint(truth)) < INTEGRAL))
        state = np.rint(truth).astype(np.uint8)
        if not (integral and model.feasible(state)):
            state = round_up(model, weight, bonus, truth, self.seed)
        score = model.score(state, weight, bonus)
        bound = max(score, optimum)
        rounding = size.rounding + max(0.0, optimum + hidden - bound)
        close = size.certifies(bound - score + rounding)
        return Solution(state, score, bound, "lp", integral and close)


def round_up(
    model: GroundMRF, weight: Floats, bonus: Floats | None, truth: Floats, seed: int = 0
) -> State:
    """Round by ROUNDUP (Huynh & Mooney 2009, algorithm 1), kept within the hard clauses and groups.

    Integral atoms keep their value. Each other atom, from the last to the first, gets the value that
    satisfies more weight of the clauses that are still false. Hard clauses then fix the values that this
    one implies. A value that leads to a contradiction is reversed. Raises Unsolved, see ``Lp``.
    """
    problem = reduced(model, weight, bonus)
    relaxed = truth[problem.atoms]
    fractional = np.abs(relaxed - np.rint(relaxed)) >= INTEGRAL
    preferred = np.where(fractional, BY_GAIN, np.rint(relaxed)).astype(np.uint8)
    order = np.lexsort((-problem.atoms, fractional)).astype(np.int32)
    try:
        state = feasible_state(problem, WalkSat.flips, generator(seed), preferred, order)
    except Unsolved as error:
        raise Unsolved(
            "neither rounding the LP nor WalkSAT found a feasible state: use the engine mpe"
        ) from error
    return problem.expand(state)
