"""The most violated states of worlds in which large rules are ground only where a state violates them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.kernels.averaging import clear_gap
from onlinesrl.mln.ground.ground_mrf import clause_model, clause_weights
from onlinesrl.mln.ground.grounder import KINDS, Grounder
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout, eager_groundings
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.kernels.grounding_frames import EVERY, OK
from onlinesrl.mln.kernels.weight_lookup import gap
from onlinesrl.mln.learning.problem import MlnProblem
from onlinesrl.mln.online.lazy_world import LazyWorld
from onlinesrl.mln.online.weight_table import WeightTable


class LazyRivals:
    """The world of a ``number`` of a problem, of which no ground clause is kept from call to call.

    Rules that hold by default are left out where they have more than ``most`` groundings.
    """

    def __init__(self, problem: MlnProblem, number: int, most: int) -> None:
        self._problem, self._number = problem, number
        program, example = problem.example(number, problem.worlds[number])
        layout = Layout(compile_program(program, problem.query))
        self._weights = WeightTable(layout)
        for c, clause in enumerate(self._weights.clauses):
            for rule, key in problem.keys if clause.template else ():
                if rule == clause.rule:
                    self._weights.set(c, key, 0.0)
        self._grounder = Grounder(layout, self._weights.stream, problem.limits)
        self._grounder.packer.add(example, 0)
        self._batch = self._grounder.batch(learning=True)
        self._eager = eager_groundings(layout.plan, most, learned=True)

    def leaves_out(self) -> bool:
        """Tell whether a rule is large, so that it is left out as long as its weights are not negative."""
        plans = replace(self._grounder.layout.plans, eager=self._eager)
        status, _ = self._grounder.ground(self._batch, 0, plans)
        return status == OK and bool(np.any(self._grounder.net.left_out))

    def most_violated(self, weights: Floats, inference: Inference) -> tuple[float, Floats, bool]:
        """Return its loss, f(truth) - f(state), and whether it is proven.

        Raises ExampleError, Infeasible, Unsolved.
        """
        self._ground(weights)
        grounder, table, net = self._grounder, self._weights, self._grounder.net
        place, share = self._problem.features(table)
        table.arrays.value[: len(table), 0] = (share * np.append(weights, 0.0)[place])[:-1]
        table.number(net, learning=False)
        model, ground_clause = clause_model(net)
        weight = clause_weights(model, ground_clause, table.of(net, averaged=True))
        truth = grounder.truth[: model.n_atoms]
        bonus = np.where(net.fixed[: model.n_atoms] == n.OPEN, 1.0 - 2.0 * truth, 0.0)
        cost = np.ones(model.n_atoms)
        if np.any(net.left_out):
            lazy = LazyWorld(
                grounder, self._batch, 0, table, lambda mean, part: table.of(part, mean), False
            )
            if (broken := lazy.broken(truth)) is not None:
                raise self._refused(*broken)
            solution = lazy.solve((model, weight), True, inference.max_work, bonus)
            touched, loss = lazy.gap(truth, solution.state, cost)
        else:
            solution = inference.engine.solve(model, weight, bonus=bonus)
            touched, loss = gap(net, table.arrays, truth, solution.state, cost)
        slope, places = np.zeros(len(weights) + 1), table.arrays.touched[:touched]
        np.add.at(slope, place[places], share[places] * table.arrays.delta[:touched])
        clear_gap(table.arrays, touched)
        return loss, slope[:-1], solution.certified

    def _ground(self, weights: Floats) -> None:
        """Ground the world but for large rules without a negative weight."""
        rule, eager = np.array([rule for rule, _ in self._problem.keys]), self._eager.copy()
        for c, clause in enumerate(self._weights.clauses):
            if np.any(weights[rule == clause.rule] * clause.sign < 0):
                eager[c] = EVERY
        plans = replace(self._grounder.layout.plans, eager=eager)
        status, detail = self._grounder.ground(self._batch, 0, plans)
        if status != OK:
            raise self._refused(status, detail)

    def _refused(self, status: int, detail: int) -> ExampleError:
        reason = self._grounder.reason(self._batch, 0, status, detail)
        return self._problem.located(self._number, ExampleError(reason, KINDS[status]))
