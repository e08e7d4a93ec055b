"""One world of a batch: ground, predicted with the averaged weights, told, then learned from."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from onlinesrl import interrupt
from onlinesrl.arrays import Floats, Ints
from onlinesrl.errors import Infeasible, OnlinesrlError, Unsolved
from onlinesrl.ground.convert import clause_model, clause_weights
from onlinesrl.ground.grounder import LIMITS, Grounder, Limits
from onlinesrl.ground.model import ClauseModel, State
from onlinesrl.infer.engine import (
    MapEngine,
    MarginalEngine,
    RankingEngine,
    Solution,
)
from onlinesrl.interrupt import leavable
from onlinesrl.kernels import elimination, narrow, network, outcome
from onlinesrl.kernels import structure as order
from onlinesrl.kernels.jit import ready
from onlinesrl.kernels.plans import INFEASIBLE, OK
from onlinesrl.kernels.truth import ground_labelled
from onlinesrl.kernels.weights import gap
from onlinesrl.lang.example import ValuedAtom
from onlinesrl.learn.outcomes import ELIMINATION, ILP, OVERFLOW, ROUTES, UNSOLVED, Taken
from onlinesrl.learn.slowest import Slowest
from onlinesrl.learn.weights import WeightTable

AUDIT_TOLERANCE = 1e-6


class AuditError(OnlinesrlError):
    """Two exact engines disagree on the value of an example: a defect, never to be passed over."""


@dataclass(frozen=True)
class Inference:
    """How MPE problems are solved and how large they may be.

    ``whole`` is the engine for problems given to it whole (``presolve: none``, audits), ``exact`` the
    one for worlds that elimination finds too wide. Where a search of these ends at its limit without
    proof, the example is bad; or, with ``fallback``, it is predicted with the best state found, by this
    engine where there was none, and learned from only if its rival is proven.
    With ``marginals`` worlds are predicted by their atoms' probabilities; rivals are found as ever. Where
    answers need not be ``proven``, those of ``exact``, any engine then, are taken as they are: the bound
    on the regret is none.
    """

    whole: RankingEngine
    exact: MapEngine
    fallback: MapEngine | None = None
    marginals: MarginalEngine | None = None
    proven: bool = True
    presolve: bool = True
    audit_every: int = 0
    limits: Limits = LIMITS

    @property
    def eliminates(self) -> bool:
        """Whether narrow worlds are solved by elimination."""
        return self.presolve and self.marginals is None


class Worlds:
    """Takes worlds one by one; memory for their states and tables is used again, and grows.

    ``margins``: how far ahead of every other state a prediction is, is said where nothing is learned.
    """

    def __init__(
        self,
        grounder: Grounder,
        weights: WeightTable,
        inference: Inference,
        by: outcome.By,
        margins: bool,
    ):
        self.grounder = grounder
        self.weights = weights
        self.inference = inference
        self.by = by
        self.margins = margins
        self.slowest = Slowest()
        self.allocate()

    def allocate(self, tables: int = 1 << 14, output: int = 1 << 12) -> None:
        """Begin, also once more, with so many cells of tables and so many atoms to tell of."""
        self.room = {"tables": tables, "output": output}
        self._make_states()
        self._make_tables(tables)

    def _make_states(self) -> None:
        """Make the states of a world, as large as the grounder's memory."""
        truth = self.grounder.truth
        predicted, rival = np.zeros_like(truth), np.zeros_like(truth)
        self.state = outcome.State(truth, predicted, rival, np.zeros(len(truth)))

    def _make_tables(self, tables: int) -> None:
        atoms, rows = self.grounder.room["atoms"], self.grounder.room["rows"]
        made = order.structure_memory(atoms, rows, tables, 4 * tables, interrupt.flag())
        self.tables, self.room["tables"], self._fit = made, tables, (atoms, rows)

    def output(self, worlds: int, classes: Ints) -> outcome.Output:
        """Return room for what will be said of so many worlds; ``classes`` are [world + 1] sums."""
        room = self.room["output"]
        return outcome.Output(
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
        )

    def compile(self) -> None:
        """Compile the kernels that the worlds take, or load them from the cache."""
        grounder, state, tables, by = self.grounder, self.state, self.tables, self.by
        net, truth, plans = grounder.net, grounder.truth, grounder.layout.plans
        batch, zeros = grounder.batch(learning=True), state.bonus
        limits = self.inference.limits
        ready(ground_labelled, plans, batch, 0, net, grounder.scratch, truth, limits.atoms, 0)
        self.weights.compile(net)
        out = self.output(0, np.zeros(1, np.int64))
        ready(outcome.record, plans, batch, 0, net, state, by, 0, 0.0, out)
        if self.inference.eliminates:
            ready(order.structure, net, tables)
            arrays, weight = self.weights.arrays, self.weights.weight
            ready(narrow.predict, net, tables, arrays, 0.0, 0.0, weight, state)
            ready(narrow.find_gap, net, tables, arrays, 0.0, False, weight, state)
        if self.margins and self.inference.eliminates:
            ready(elimination.margin, net, tables, zeros, truth, 0.0, zeros, truth)

    # one world -----------------------------------------------------------------------------

    def take(self, taken: Taken, w: int, learning: bool, audit: bool = False) -> None:
        """Take a world, writing what is said of it. Raises Interrupted, and nothing has been learned.

        With ``audit`` the ILP solves it whole as well.
        """
        out, batch = taken.out, taken.batch
        out.true_start[w + 1] = out.true_start[w]
        status, detail = self.grounder.ground(batch, w)
        if status != OK:
            out.status[w], out.detail[w] = status, detail
            return
        if self.state.truth is not self.grounder.truth:
            self._make_states()
        learning = learning and bool(batch.labelled[w])
        self.weights.number(self.grounder.net, learning)
        try:
            if self.inference.eliminates and self._narrow():
                if audit:
                    self._audit(taken, w)
                self._take_narrow(taken, w, learning)
            else:
                self._take_wide(taken, w, learning, audit)
        except Infeasible:
            out.status[w] = INFEASIBLE
        except Unsolved:
            out.status[w] = UNSOLVED

    def _narrow(self) -> bool:
        """Find an order of elimination; False: there is none with tables small enough."""
        room = self.grounder.room
        if self._fit != (room["atoms"], room["rows"]):
            self._make_tables(self.room["tables"])
        while True:
            status = order.structure(self.grounder.net, self.tables)
            interrupt.check()
            if status != order.TABLES_FULL:
                return status == order.SOLVED
            self._make_tables(2 * self.room["tables"])

    def _take_narrow(self, taken: Taken, w: int, learning: bool) -> None:
        """Take a world by elimination."""
        net, state, arrays = self.grounder.net, self.state, self.weights.arrays
        weight = self.weights.room(net)
        if w not in taken.served:
            cu, cv = self.weights.mean()
            score = narrow.predict(net, self.tables, arrays, cu, cv, weight, state)
            interrupt.check()
            if score == -np.inf:
                raise Infeasible("no state satisfies the hard rules")
            self._record(taken, w, ELIMINATION, score)
            if self.margins and not learning:
                taken.out.margin[w] = elimination.margin(
                    net,
                    self.tables,
                    weight,
                    state.predicted,
                    score,
                    state.bonus,
                    state.rival,
                )
                interrupt.check()
        else:
            self._record(taken, w, ELIMINATION)
        if learning:
            update = self.weights.update
            cu, augmented = update.scale(self.weights.updates + 1), update.loss == "ml"
            n, rho = narrow.find_gap(net, self.tables, arrays, cu, augmented, weight, state)
            interrupt.check()
            if n < 0:
                raise Infeasible("no state satisfies the hard rules")
            self._learn(taken, w, n, rho)

    def _record(self, taken: Taken, w: int, route: int, score: float | None = None) -> None:
        """Write what is said of the prediction and its score; None: it was given out before."""
        net, state = self.grounder.net, self.state
        if score is None:
            score = 0.0
            state.predicted[: net.size[network.ATOMS]] = 0
        plans, by = self.grounder.layout.plans, self.by
        while not outcome.record(plans, taken.batch, w, net, state, by, route, score, taken.out):
            taken.out = self._with_room(taken.out)

    def _with_room(self, out: outcome.Output) -> outcome.Output:
        """Return the same with twice the room for atoms."""
        pad = np.zeros(len(out.true_key), np.int64)
        self.room["output"] = 2 * len(pad)
        return replace(
            out,
            true_query=np.concatenate([out.true_query, pad.astype(np.int32)]),
            true_key=np.concatenate([out.true_key, pad]),
            true_mark=np.concatenate([out.true_mark, pad.astype(np.uint8)]),
        )

    def _learn(self, taken: Taken, w: int, n: int, rho: float) -> None:
        """Make the update along a gap."""
        loss = self.weights.learn(n, rho)
        taken.out.loss[w] = loss
        if math.isnan(loss):
            taken.out.status[w] = OVERFLOW

    # by engines ------------------------------------------------------------------------------

    def _take_wide(self, taken: Taken, w: int, learning: bool, audit: bool) -> None:
        """Take a world by the engines."""
        net, out = self.grounder.net, taken.out
        atoms = int(np.sum(net.fixed[: net.size[network.ATOMS]] == network.OPEN))

        def route() -> str:
            return ROUTES[int(out.route[w])] if out.status[w] == OK else "unsolved"

        with self.slowest.timing(taken.worlds[w].example.id, atoms, route):
            if audit:
                self._audit(taken, w)
            with leavable():
                model, place = clause_model(net)
            if w not in taken.served:
                self._predict(taken, w, model, place)
            else:
                self._record(taken, w, ILP)
            if learning:
                self._find_rival(taken, w, model, place)

    def _predict(self, taken: Taken, w: int, model: ClauseModel, place: Ints) -> None:
        """Predict a world and say so. Raises Unsolved, Infeasible."""
        ground = self.weights.of(self.grounder.net, averaged=True)
        weight = clause_weights(model, place, ground)
        if self.inference.marginals is not None:
            found = self._likeliest(taken, w, model, weight, self.inference.marginals)
        else:
            found = self._solve(taken, w, model, weight)
        self.state.predicted[: model.n_atoms] = found.state
        score = network.soft_score(self.grounder.net, self.state.predicted, ground)
        self._record(taken, w, _NUMBER.get(found.route, ELIMINATION), score)
        if not found.certified:
            taken.unproven.add(w)
        elif self.margins:
            with suppress(Unsolved), leavable():
                second = self.inference.whole.second_best(model, weight, found.state)
                if second is not None:
                    taken.out.margin[w] = found.score - second.score

    def _find_rival(self, taken: Taken, w: int, model: ClauseModel, place: Ints) -> None:
        """Learn from a world, if its rival is proven or need not be. Raises Unsolved, Infeasible."""
        net, state, update = self.grounder.net, self.state, self.weights.update
        elimination.set_bonus(net, state.truth, update.loss == "ml", state.bonus)
        weight = clause_weights(model, place, self.weights.of(net, averaged=False))
        bonus = state.bonus[: model.n_atoms].copy()
        rival = self._solve(taken, w, model, weight, bonus)
        if rival.certified or not self.inference.proven:
            state.rival[: model.n_atoms] = rival.state
            self._learn(taken, w, *gap(net, self.weights.arrays, state.truth, state.rival))

    def _solve(
        self,
        taken: Taken,
        w: int,
        model: ClauseModel,
        weight: Floats,
        bonus: Floats | None = None,
    ) -> Solution:
        """Solve a world, or fall back. Raises Unsolved where it is left, Infeasible."""
        inference = self.inference
        engine = inference.exact if inference.presolve or not inference.proven else inference.whole
        found = None
        try:
            with leavable():
                found = engine.solve(model, weight, bonus=bonus)
            if found.certified or not inference.proven:
                return found
        except Unsolved:
            pass
        taken.unsolved.add(w)
        if inference.fallback is None:
            raise Unsolved("the search ended at its limit")
        with leavable():
            return found or inference.fallback.solve(model, weight, bonus=bonus)

    def _likeliest(
        self, taken: Taken, w: int, model: ClauseModel, weight: Floats, engine: MarginalEngine
    ) -> Solution:
        """Predict each atom, or group, by its likeliest value. Raises Unsolved: none to start from."""
        try:
            with leavable():
                marginals = engine.marginals(model, weight)
        except Unsolved:
            taken.unsolved.add(w)
            raise
        net = self.grounder.net
        state = _values(model, marginals.probability)
        network.define(net, state)
        values = np.round(marginals.probability, 6).tolist()
        if marginals.diagnostics is not None:
            taken.diagnostics[w] = marginals.diagnostics
        taken.marginals[w] = {
            name: [
                ValuedAtom(args, values[n])
                for n, args in enumerate(atoms, first)
                if net.fixed[n] == network.OPEN
            ]
            for name, first, atoms in self.grounder.atoms(taken.batch, w)
        }
        return Solution(state, 0.0, math.inf, "mcsat", certified=False)

    # audits ----------------------------------------------------------------------------------

    def _audit(self, taken: Taken, w: int) -> None:
        """Solve a world whole by the ILP, with the averaged weights; see ``check_audits``."""
        net = self.grounder.net
        with leavable():
            model, place = clause_model(net)
        ground = self.weights.of(net, averaged=True)
        weight = clause_weights(model, place, ground)
        none = (net.fixed[: net.size[network.ATOMS]] == network.TRUE).astype(np.uint8)
        constant = network.soft_score(net, none, ground) - model.score(none, weight)
        try:
            with leavable():
                whole = self.inference.whole.solve(model, weight)
        except Infeasible:
            taken.audits[w] = -math.inf
        except Unsolved:
            return
        else:
            if whole.certified:
                taken.audits[w] = whole.score + constant


_NUMBER = {name: number for number, name in ROUTES.items()}


def check_audits(taken: Taken) -> None:
    """Compare the values that the worlds got with those of the ILP. Raises AuditError."""
    out = taken.out
    for w, value in taken.audits.items():
        found = float(out.score[w]) if out.status[w] == OK else -math.inf
        if not math.isclose(found, value, rel_tol=AUDIT_TOLERANCE, abs_tol=AUDIT_TOLERANCE):
            raise AuditError(
                f"audit of example {taken.worlds[w].example.id}: {ROUTES[int(out.route[w])]} "
                f"gives {found!r}, the whole ILP {value!r}"
            )


def _values(model: ClauseModel, probability: Floats) -> State:
    """Return the likeliest value of each group, which may be none of its atoms, and of other atoms."""
    state = (probability > 0.5).astype(np.uint8)
    for group, exactly in enumerate(model.exactly.tolist()):
        members = np.flatnonzero(model.group == group)
        best = members[np.argmax(probability[members])]
        none = 0.0 if exactly else 1.0 - float(probability[members].sum())
        state[members] = 0
        state[best] = exactly or probability[best] > none
    return state
