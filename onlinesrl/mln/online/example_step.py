"""One world of a batch: ground, predicted with the averaged weights, recorded, then learned from."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np

from onlinesrl.core import interrupt
from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.core.evaluation.label_loss import Costs
from onlinesrl.core.interrupt import leavable
from onlinesrl.core.jit.decorators import ready
from onlinesrl.core.timing import Slowest
from onlinesrl.mln.ground.convert import clause_model, clause_weights
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.ground.grounder import ROOM, Grounder
from onlinesrl.mln.inference.policy import Inference
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.kernels import (
    elimination,
    ground_network,
    grounding_frames,
    predict_and_learn,
    prediction_counts,
    weight_magnitude,
)
from onlinesrl.mln.kernels.elimination_order import structure_memory
from onlinesrl.mln.kernels.grounding_frames import INFEASIBLE, OK, WEIGHTS_OVERFLOW
from onlinesrl.mln.kernels.predict_and_learn import OVERFLOW
from onlinesrl.mln.kernels.weight_lookup import expected_gap, gap
from onlinesrl.mln.online import by_engines
from onlinesrl.mln.online.reporting import ILP, ROUTES, UNSOLVED, Results, with_room
from onlinesrl.mln.online.weight_table import WeightTable

GROWING = {
    *ROOM,
    predict_and_learn.GROW_WEIGHTS,
    predict_and_learn.GROW_TABLES,
    predict_and_learn.GROW_OUTPUT,
    predict_and_learn.GROW_CLAUSES,
}

TOGETHER = 1 << 16
"""Up to so many cells, the tables of a prediction and of its rival are filled together."""


class _Overflow(Exception):
    """The sum of the weights of a world is beyond doubles; its argument is the clause of the largest."""


class ExampleProcessor:
    """Processes worlds one by one, in memory for states and tables that is reused and grows.

    With ``margins``, where nothing is learned, the results have each prediction's margin: its score less
    that of the best other state.
    """

    def __init__(
        self,
        grounder: Grounder,
        weights: WeightTable,
        inference: Inference,
        by: prediction_counts.By,
        margins: bool,
    ):
        self.grounder = grounder
        self.weights = weights
        self.inference = inference
        self.by = by
        self.margins = margins
        given, names = weights.update.costs, grounder.layout.plan.query
        arities = {name: len(grounder.layout.radix_order(name)) for name in names}
        self.costs = Costs(given, arities) if given else None
        self.slowest = Slowest()
        self.routes = [*ROUTES]
        self.at = 0  # the world at hand
        self.begun = np.zeros(2, np.int64)  # the weights and blocks before it
        self.allocate()

    def allocate(self, tables: int = 1 << 14, output: int = 1 << 12) -> None:
        """Allocate, or reallocate, room for so many table cells and recorded atoms."""
        self.room = {"tables": tables, "output": output}
        self._make_states()

    def _make_states(self) -> None:
        """Make states and tables of a world, as large as the grounder's memory."""
        truth, room, tables = self.grounder.truth, self.grounder.room, self.room["tables"]
        predicted, rival = np.zeros_like(truth), np.zeros_like(truth)
        cost, bonus = np.ones(len(truth)), np.zeros(len(truth))
        self.state = prediction_counts.State(truth, predicted, rival, cost, bonus)
        self.tables = structure_memory(
            room["atoms"],
            room["rows"],
            tables,
            4 * tables,
            interrupt.flag(),
            self.inference.growth,
        )
        unary, table = np.zeros(2 * room["atoms"]), np.zeros(min(4 * tables, TOGETHER))
        self.rival = replace(self.tables, unary=unary, table=table)

    def begin(self, batch: grounding_frames.Batch) -> prediction_counts.Output:
        """Return room for the results of a batch, which is processed next."""
        room, worlds = self.room["output"], len(batch.listed)
        classes = np.zeros(worlds + 1, np.int64)
        if self.by.query >= 0:
            code = self.grounder.layout.plans
            kind = code.query_type[code.query_start[self.by.query] + self.by.argument]
            np.cumsum(batch.domain[:, kind], out=classes[1:])
        self.batch, self.out = (
            batch,
            prediction_counts.Output(
                status=np.zeros(worlds, np.int32),
                detail=np.zeros(worlds, np.int64),
                route=np.zeros(worlds, np.int32),
                counts=np.zeros((worlds, 7), np.int64),
                score=np.zeros(worlds),
                loss=np.zeros(worlds),
                margin=np.full(worlds, np.inf),
                true_start=np.zeros(worlds + 1, np.int64),
                true_query=np.zeros(room, np.int32),
                true_key=np.zeros(room, np.int64),
                true_mark=np.zeros(room, np.uint8),
                class_start=classes,
                by_class=np.zeros((int(classes[-1]), 3), np.int64),
            ),
        )
        self._set_pass()
        return self.out

    def _set_pass(self) -> None:
        """Point the kernels to the present memory."""
        grounder, weights, limits = self.grounder, self.weights, self.inference.limits
        self.memory = predict_and_learn.StepFrame(
            grounder.layout.plans,
            self.batch,
            grounder.net,
            grounder.scratch,
            self.tables,
            weights.arrays,
            weights.how,
            weights.scalar,
            self.begun,
            weights.weight,
            self.rival,
            weights.more,
            self.state,
            self.by,
            self.out,
            limits.atoms,
            limits.groundings,
            weights.update.loss == "ml",
        )

    def _grow(self, status: int, results: Results) -> None:
        """Make room for what a kernel had no room for."""
        if status in ROOM:
            self.grounder.grow(status)
            self._make_states()
        elif status == predict_and_learn.GROW_TABLES:
            self.room["tables"] *= 2
            self._make_states()
        elif status == predict_and_learn.GROW_OUTPUT:
            self.room["output"] *= 2
            results.out = self.out = with_room(self.out)
        elif status == predict_and_learn.GROW_CLAUSES:
            self.weights.room(self.grounder.net)
        else:
            self.weights.grow()
        self._set_pass()

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache."""
        batch = self.grounder.batch(learning=True)
        self.begin(batch)
        self.weights.compile()
        if self.inference.eliminates:
            ready(predict_and_learn.run, self.memory, 0, 0, predict_and_learn.PREDICT, True)
        else:
            self.grounder.compile(batch)

    # worlds by elimination -----------------------------------------------------------------

    def alone(self, learning: bool) -> bool:
        """Tell whether worlds that are narrow need nothing but elimination."""
        if not self.inference.eliminates:
            return False
        if not learning:
            return not self.margins
        return self.costs is None and not self.weights.update.drawn()

    def run(self, results: Results, first: int, stop: int, what: int, learning: bool) -> int:
        """Process worlds by elimination alone; returns ``stop``, or the first one that is too wide for it.

        That one has been ground. Raises Interrupted, before anything has been learned from world ``at``.
        """
        while True:
            first, status = predict_and_learn.run(self.memory, first, stop, what, learning)
            self.at = first
            interrupt.check()
            if status not in GROWING:
                return first
            self._grow(status, results)

    # one world -----------------------------------------------------------------------------

    def take(self, results: Results, w: int, learning: bool, audit: bool = False) -> None:
        """Process world ``w`` and write its results; with ``audit`` the ILP solves it as well.

        Raises Interrupted, before anything has been learned from the world.
        """
        self.at, self.begun[:] = w, self.weights.arrays.size
        results.out.true_start[w + 1] = results.out.true_start[w]
        wide = self._predict(results, w, learning)
        self.finish(results, w, learning, audit, wide)

    def finish(
        self, results: Results, w: int, learning: bool, audit: bool = False, wide: bool = True
    ) -> None:
        """Process the rest of a world: all of one that is ``wide`` and ground, else of one predicted."""
        learning = learning and bool(results.batch.labelled[w])
        status = results.out.status[w]
        try:
            if wide:
                self._take_wide(results, w, learning, audit)
            elif audit and status in {OK, INFEASIBLE}:
                by_engines.audit(self, results, w)
            if not wide and status == OK and learning:
                self._learn_narrow(results, w)
        except Infeasible:
            results.out.status[w] = INFEASIBLE
        except Unsolved:
            results.out.status[w] = UNSOLVED
        except _Overflow as overflow:
            results.out.status[w], results.out.detail[w] = WEIGHTS_OVERFLOW, overflow.args[0]

    def _predict(self, results: Results, w: int, learning: bool) -> bool:
        """Ground a world and predict it, if it is narrow; tell whether it is too wide for that."""
        if not self.inference.eliminates:
            return self._ground(results, w, learning)
        try:
            wide = self.run(results, w, w + 1, predict_and_learn.PREDICT, learning) == w
        finally:
            self.at = w  # nothing was learned from it yet
        if wide:
            return True
        if results.out.status[w] == OK and self.margins and not learning:
            state, score = self.state, float(results.out.score[w])
            net, weight, best = self.grounder.net, self.weights.weight, state.predicted
            results.out.margin[w] = elimination.margin(
                net, self.tables, weight, best, score, state.bonus, state.rival
            )
            interrupt.check()
        return False

    def _ground(self, results: Results, w: int, learning: bool) -> bool:
        """Ground a world for the engines; False: it is bad, as its status says."""
        status, detail = self.grounder.ground(results.batch, w)
        if status != OK:
            results.out.status[w], results.out.detail[w] = status, detail
            return False
        if self.state.truth is not self.grounder.truth:
            self._make_states()
        self.weights.number(self.grounder.net, learning and bool(results.batch.labelled[w]))
        return True

    def _record(self, results: Results, w: int, route: int, score: float) -> None:
        """Write the prediction, its counts and its score to the results."""
        net, state, code = self.grounder.net, self.state, self.grounder.layout.plans
        while not prediction_counts.record(
            code, results.batch, w, net, state, self.by, route, score, results.out
        ):
            self._grow(predict_and_learn.GROW_OUTPUT, results)

    def _learn_narrow(self, results: Results, w: int) -> None:
        """Learn from a world that elimination has predicted."""
        update = self.weights.update
        if update.drawn():
            with leavable():
                self._contrast(results, w, *clause_model(self.grounder.net))
            return
        self._price(results.batch, w)
        if self.run(results, w, w + 1, predict_and_learn.LEARN, True) == w:
            self._find_rival(results, w, *clause_model(self.grounder.net))

    def _contrast(self, results: Results, w: int, model: GroundMRF, place: Ints) -> None:
        """Learn from the truth of a world and states sampled from there on. Raises Infeasible."""
        from onlinesrl.mln.inference.mcsat import from_on

        net, truth, weights = self.grounder.net, self.state.truth, self.weights
        weight = clause_weights(model, place, self._weights(averaged=False))
        chain = from_on(truth[: model.n_atoms], model, weight, self.inference.seed, weights.updates)
        samples = np.stack([*islice(chain, weights.update.drawn())])
        self._learn(results, w, expected_gap(net, weights.arrays, truth, samples), 0.0)

    def _price(self, batch: grounding_frames.Batch, w: int) -> None:
        """Write the label loss of each atom of a world to the state."""
        if self.costs is None:
            return
        state = self.state
        for name, first, rows in self.grounder.atoms(batch, w):
            truth = state.truth[first : first + len(rows)]
            of = self.costs.of(name, rows)
            state.cost[first : first + len(rows)] = of[np.arange(len(rows)), truth]

    def _learn(self, results: Results, w: int, n: int, rho: float) -> None:
        """Update the weights along a gap; the status is OVERFLOW where that is out of range."""
        loss = self.weights.learn(n, rho)
        results.out.loss[w] = loss
        if math.isnan(loss):
            results.out.status[w] = OVERFLOW

    # by engines ------------------------------------------------------------------------------

    def _take_wide(self, results: Results, w: int, learning: bool, audit: bool) -> None:
        """Process a world that is too wide for elimination, by the engines."""
        net, out = self.grounder.net, results.out
        atoms = int(np.sum(net.fixed[: net.size[ground_network.ATOMS]] == ground_network.OPEN))

        def route() -> str:
            return results.routes[int(out.route[w])] if out.status[w] == OK else "unsolved"

        with self.slowest.timing(results.worlds[w].example.id, atoms, route):
            if audit:
                by_engines.audit(self, results, w)
            with leavable():
                model, place = clause_model(net)
            if w not in results.answered:
                self._predict_wide(results, w, model, place)
            else:
                self.state.predicted[: model.n_atoms] = 0
                self._record(results, w, ILP, 0.0)
            if learning and self.weights.update.drawn():
                self._contrast(results, w, model, place)
            elif learning:
                self._find_rival(results, w, model, place)

    def _weights(self, averaged: bool) -> Floats:
        """Return the weights of the world's ground clauses; see ``WeightTable.of``. Raises _Overflow."""
        found = self.weights.of(net := self.grounder.net, averaged)
        if not weight_magnitude.total(net, found) <= weight_magnitude.HIGHEST:
            raise _Overflow(weight_magnitude.largest(net, found))
        return found

    def _predict_wide(self, results: Results, w: int, model: GroundMRF, place: Ints) -> None:
        """Predict a world and record it. Raises Unsolved, Infeasible."""
        ground = self._weights(averaged=True)
        weight = clause_weights(model, place, ground)
        if self.inference.marginals is not None:
            found = by_engines.likeliest(self, results, w, model, weight, self.inference.marginals)
        else:
            found = self._solve(results, w, model, weight)
        self.state.predicted[: model.n_atoms] = found.state
        score = ground_network.soft_score(self.grounder.net, self.state.predicted, ground)
        if found.route not in results.routes:
            results.routes.append(found.route)
        self._record(results, w, results.routes.index(found.route), score)
        if not found.certified:
            results.unproven.add(w)
        elif self.margins:
            with suppress(Unsolved), leavable():
                results.out.margin[w] = by_engines.margin(self, model, weight, found)

    def _find_rival(self, results: Results, w: int, model: GroundMRF, place: Ints) -> None:
        """Learn from a world, if its rival is proven optimal or need not be.

        Raises Unsolved, Infeasible.
        """
        net, state, update = self.grounder.net, self.state, self.weights.update
        self._price(results.batch, w)
        elimination.set_bonus(net, state.truth, update.loss == "ml", state.cost, state.bonus)
        weight = clause_weights(model, place, self._weights(averaged=False))
        bonus = state.bonus[: model.n_atoms].copy()
        rival = self._solve(results, w, model, weight, bonus)
        if rival.certified or not self.inference.proven:
            state.rival[: model.n_atoms] = rival.state
            arrays = self.weights.arrays
            self._learn(results, w, *gap(net, arrays, state.truth, state.rival, state.cost))

    def _solve(
        self,
        results: Results,
        w: int,
        model: GroundMRF,
        weight: Floats,
        bonus: Floats | None = None,
    ) -> Solution:
        """Solve a world, or fall back. Raises Infeasible, and Unsolved where there is no fallback."""
        inference = self.inference
        found = None
        try:
            with leavable():
                found = inference.engine.solve(model, weight, bonus=bonus)
            if found.certified or not inference.proven:
                return found
        except Unsolved:
            pass
        results.unsolved.add(w)
        if inference.fallback is None:
            raise Unsolved("the search ended at its limit")
        with leavable():
            return found or inference.fallback.solve(model, weight, bonus=bonus)
