"""Exact MPE as an integer linear program through PuLP, for any instance.

The encoding is compact (Riedel 2008; Noessner, Niepert & Stuckenschmidt 2013). An atom is a binary ``y``.
A soft clause of two or more literals has a continuous ``z`` in [0, 1]. Once the ``y`` are integral, the
weight pushes ``z`` to the clause's truth value, so one side of the equivalence is enough. Unit clauses and
the bonus are in the objective only. Equal clauses are merged beforehand, and clauses of weight zero left
out. A group is one row, and so are hard clauses of two literals that form a clique.

Importing this module imports PuLP and HiGHS: do it where a solver is needed, not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pulp

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.search_status import doing
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.inference.clique_merging import merged
from onlinesrl.mln.inference.ilp_solvers import SOLVERS
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.rounding import Magnitude


class Ilp:
    """Exact MPE by branch and bound over the compact program; its route is ``ilp``.

    ``solver`` is ``highs`` (in this process) or ``cbc`` (the program that comes with PuLP). ``max_nodes``
    and, for HiGHS, ``max_work`` (steps times matrix entries) end the search early, at the same place on every
    run. The best state so far is then the answer, uncertified; without one, Unsolved is raised. Of several
    optimal states the solver picks the same one on every run, whatever it solved before. The program of the
    last model is reused; only its objective changes while the merged weights keep their signs.
    """

    def __init__(
        self,
        solver: Literal["highs", "cbc"] = "highs",
        *,
        max_nodes: int | None = None,
        max_work: int | None = None,
    ) -> None:
        self._solver = SOLVERS[solver](max_nodes)
        self._max_nodes, self._max_work = max_nodes, max_work
        self.takes_turns = solver == "highs" and max_nodes is None
        """Whether searches with more and more work end at each limit, and only there."""
        self._merged: Merged | None = None
        self._program: CompactProgram | None = None

    def solve(
        self,
        model: GroundMRF,
        weight: Floats,
        *,
        bonus: Floats | None = None,
        start: State | None = None,
        max_work: int | None = None,
    ) -> Solution:
        """See ``MapEngine.solve``; Unsolved where the weights or the bonus are not finite.

        The search begins with the feasible state ``start``. ``max_work`` takes the place of the engine's own.
        """
        merged = self._merge(model)
        if self._program is None or not self._program.fits(weight):
            self._program = CompactProgram(merged, weight)
        return self._optimise(self._program, weight, bonus, start, max_work)

    def _merge(self, model: GroundMRF) -> Merged:
        if self._merged is None or self._merged.model is not model:
            self._merged, self._program = Merged.of(model), None
        return self._merged

    def _optimise(
        self,
        program: CompactProgram,
        weight: Floats,
        bonus: Floats | None,
        start: State | None = None,
        max_work: int | None = None,
    ) -> Solution:
        """Solve the program for these weights; the score is counted anew from the rounded state."""
        model, problem, size = program.merged.model, program.problem, Magnitude.of(weight, bonus)
        constant = program.set_objective(weight, bonus, size.for_solvers)
        work = self._max_work if max_work is None else max_work
        if start is not None:
            program.begin_with(start)
        with doing(lambda: self._doing(model, size.for_solvers)):
            problem.solve(self._solver, warm=start is not None, max_work=work)
        if problem.status == pulp.LpStatusInfeasible:
            raise Infeasible("no state satisfies the hard clauses and the groups")
        if problem.status != pulp.LpStatusOptimal or not model.feasible(state := program.state()):
            status = pulp.LpStatus[problem.status]
            raise Unsolved(
                f"the solver found no feasible state ({status}, max_nodes {self._max_nodes}, "
                f"max_work {work}): raise max_nodes and max_work or leave them out"
            )
        score = model.score(state, weight, bonus)
        bound = max(score, self._solver.bound(problem) / size.for_solvers + constant)
        hidden = size.rounding + size.hidden(len(problem.variables()))
        close = size.certifies(bound - score + hidden)
        proven = problem.sol_status == pulp.LpSolutionOptimal
        return Solution(state, score, bound, "ilp", proven and close)

    def _doing(self, model: GroundMRF, scale: float) -> str:
        """Say what is solved, and how close the best state so far is proven to be."""
        task = (
            f"integer linear program of {model.n_atoms:,} atoms, {model.n_clauses:,} ground clauses"
        )
        gap = self._solver.gap / scale
        return task if gap == np.inf else f"{task}, at most {gap:.3g} above the least cost"


@dataclass(frozen=True, eq=False)
class Merged:
    """A model's distinct clauses, as sorted literals; its clause ``c`` is ``clauses[where[c]]``."""

    model: GroundMRF
    clauses: list[tuple[int, ...]]
    where: Ints

    @classmethod
    def of(cls, model: GroundMRF) -> Merged:
        """Merge equal clauses."""
        literals = model.literals.tolist()
        index: dict[tuple[int, ...], int] = {}
        places = [
            index.setdefault(tuple(sorted(literals[begin:end])), len(index))
            for begin, end in pairwise(model.start.tolist())
        ]
        return cls(model, list(index), np.array(places, np.int64))

    def satisfied(self, state: State) -> Bools:
        """Return which distinct clauses are true in the state."""
        true = np.zeros(len(self.clauses), np.bool_)
        true[self.where] = self.model.satisfied(state)
        return true

    def weights(self, weight: Floats) -> Floats:
        """Sum the weight of each distinct clause, float64; 0 for one that is only hard."""
        total = np.bincount(self.where, weight, minlength=len(self.clauses))
        return total.astype(np.float64)


class CompactProgram:
    """The PuLP problem of a merged model, over ``y`` (one per atom) and ``z`` (one per long clause).

    Its rows depend on the signs of the merged weights of the long clauses, its objective on the
    weights and the bonus.
    """

    def __init__(self, merged: Merged, weight: Floats) -> None:
        self.merged = merged
        self.problem = pulp.LpProblem("mpe", pulp.LpMaximize)
        length = np.array([len(clause) for clause in merged.clauses], np.int64)
        self._unit = np.flatnonzero(length == 1)
        self._unit_literal = np.array([merged.clauses[k][0] for k in self._unit], np.int64)
        self._sign = np.where(length > 1, np.sign(merged.weights(weight)), 0)
        self._long = np.flatnonzero(self._sign)
        add = self.problem.add_variable
        self._y = [add(f"y{a:07}", 0, 1, pulp.LpInteger) for a in range(merged.model.n_atoms)]
        self._z = [add(f"z{k:07}", 0, 1) for k in self._long]
        for row in self._rows():
            self.problem.addConstraint(row)

    def fits(self, weight: Floats) -> bool:
        """Whether the rows are right for these weights too."""
        sign = np.sign(self.merged.weights(weight))
        sign[self._unit] = 0
        return np.array_equal(sign, self._sign)

    def set_objective(self, weight: Floats, bonus: Floats | None, scale: float) -> float:
        """Maximise for these weights and bonus, times ``scale``.

        Returns the part of the score that is constant, not scaled.
        """
        merged_weights = self.merged.weights(weight)
        unit, negative = merged_weights[self._unit], self._unit_literal < 0
        atom = np.abs(self._unit_literal) - 1
        cost = np.zeros(len(self._y)) if bonus is None else bonus.copy()
        np.add.at(cost, atom, np.where(negative, -unit, unit))
        cost = np.concatenate((cost, merged_weights[self._long]))
        terms = zip((*self._y, *self._z), (scale * cost).tolist(), strict=True)
        self.problem.setObjective(pulp.LpAffineExpression(terms))
        return float(unit[negative].sum())

    def begin_with(self, state: State) -> None:
        """Give the variables the values of a feasible state, from which a solver may begin."""
        true = self.merged.satisfied(state)[self._long]
        for column, value in zip(
            (*self._y, *self._z), (*state.tolist(), *true.tolist()), strict=True
        ):
            column.varValue = float(value)

    def state(self) -> State:
        """Read the atoms as the solver left them, rounded, uint8[n_atoms]."""
        return np.rint([y.varValue for y in self._y]).astype(np.uint8)

    def _rows(self) -> Iterator[Any]:
        model, clauses = self.merged.model, self.merged.clauses
        hard = [clauses[k] for k in np.unique(self.merged.where[model.hard])]
        for clause in hard:
            if len(clause) != 2:
                yield self._at_least(1, clause)
        pairs = [clause for clause in hard if len(clause) == 2]
        start, literals = merged(np.array(pairs, np.int32).reshape(-1, 2))
        for begin, end in pairwise(start.tolist()):
            yield self._at_least(end - begin - 1, literals[begin:end].tolist())
        sums: list[dict[Any, int]] = [{} for _ in model.exactly]
        for y, group in zip(self._y, model.group.tolist(), strict=True):
            if group >= 0:
                sums[group][y] = 1
        for members, exactly in zip(sums, model.exactly, strict=True):
            sense = pulp.LpConstraintEQ if exactly else pulp.LpConstraintLE
            yield pulp.LpConstraint(pulp.LpAffineExpression(members), sense, rhs=1)
        for k, z in zip(self._long, self._z, strict=True):
            if self._sign[k] > 0:
                yield self._at_least(0, clauses[k], {z: -1})
            else:
                yield from (self._at_least(1, (-literal,), {z: 1}) for literal in clauses[k])

    def _at_least(
        self, bound: int, literals: Sequence[int], plus: dict[Any, int] | None = None
    ) -> Any:
        """Require of the true literals and the terms ``plus`` that they come to ``bound``."""
        terms = {self._y[abs(literal) - 1]: 1 if literal > 0 else -1 for literal in literals}
        terms.update(plus or {})
        negative = sum(literal < 0 for literal in literals)
        return pulp.LpConstraint(
            pulp.LpAffineExpression(terms), pulp.LpConstraintGE, rhs=bound - negative
        )
