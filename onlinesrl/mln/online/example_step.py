"""The online step: ground each world of a batch, predict it, record the result and learn from it.

Predictions use the averaged weights, or with ``predict: current`` those of the next update. A kernel
processes consecutive worlds together if variable elimination suffices for them. Other worlds are processed
one by one: those that are audited (solved by a second engine as well), those that need further best states,
those whose expected counts are sampled, and those whose treewidth is too large for
elimination. The engines of ``inference`` solve the last.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints
from onlinesrl.core.errors import ExampleError, Infeasible, OnlinesrlError, Unsolved, UsageError
from onlinesrl.core.evaluation import label_sets
from onlinesrl.core.evaluation.class_balance import BALANCED, LABELS, ClassBalance
from onlinesrl.core.evaluation.decision_threshold import Thresholds
from onlinesrl.core.evaluation.label_loss import Costs
from onlinesrl.core.evaluation.label_sets import LabelSets
from onlinesrl.core.example import Constant, Rows, ValuedAtom
from onlinesrl.core.jit.decorators import ready
from onlinesrl.core.learner import Alternative, Prediction
from onlinesrl.core.online.temperature import Temperature, fit
from onlinesrl.core.timing import Slowest
from onlinesrl.mln.ground.atom_names import Named
from onlinesrl.mln.ground.batch_packer import Packed
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import KINDS, ROOM, Grounder
from onlinesrl.mln.ground.model_index import PAIRS, eager_groundings
from onlinesrl.mln.inference.best_states import best_states, narrow_states, ranked
from onlinesrl.mln.inference.protocols import MarginalEngine, Solution
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import (
    elimination,
    ground_network,
    grounding_frames,
    predict_and_learn,
    prediction_counts,
    weight_lookup,
    weight_magnitude,
)
from onlinesrl.mln.kernels.elimination_order import structure_memory
from onlinesrl.mln.kernels.ground import partly_labelled
from onlinesrl.mln.kernels.ground_network import Network
from onlinesrl.mln.kernels.grounding_frames import EVERY, INFEASIBLE, OK, WEIGHTS_BEYOND, Plans
from onlinesrl.mln.kernels.predict_and_learn import OVERFLOW
from onlinesrl.mln.kernels.unit_curvature import UnitRows
from onlinesrl.mln.kernels.weight_lookup import by_true_atoms, expected_gap, gap, mean_cost
from onlinesrl.mln.kernels.weight_magnitude import UNIT
from onlinesrl.mln.online import answer_sets
from onlinesrl.mln.online.atom_counts import AtomCounter
from onlinesrl.mln.online.lazy_world import LazyWorld
from onlinesrl.mln.online.results import ILP, ROUTES, UNSOLVED, Results
from onlinesrl.mln.online.weight_table import WeightTable
from onlinesrl.mln.query.ground_formulas import FormulaQuery, FormulaWorld

GROWING = {
    *ROOM,
    predict_and_learn.GROW_WEIGHTS,
    predict_and_learn.GROW_TABLES,
    predict_and_learn.GROW_OUTPUT,
    predict_and_learn.GROW_CLAUSES,
    predict_and_learn.GROW_UNITS,
}

AUDIT_TOLERANCE = 1e-6
SAMPLES = 100
"""How many sampled states stand for the expected score of a world that is too wide for elimination."""
NO_TEMPERATURE = np.zeros(0)


class AuditError(OnlinesrlError):
    """Two exact engines disagree on the optimal score of an example, which is a defect of the program."""


class _Bad(Exception):
    """A world cannot be learned from; the arguments are its status and the status's detail."""


class ExampleProcessor:
    """A processor of the worlds of a batch in turn; its memory for states and tables is reused and grows.

    With ``margins``, predictions without learning get a margin: the score of the predicted state minus the
    score of the best other state. With ``inference.best`` above 1, all predictions list further states.
    """

    results: Results
    memory: predict_and_learn.StepFrame

    def __init__(
        self,
        grounder: Grounder,
        weights: WeightTable,
        inference: Inference,
        counter: AtomCounter,
        margins: bool,
    ):
        self.grounder = grounder
        self.weights = weights
        self.inference = inference
        self.counter = counter
        self.margins = margins
        costs, names = weights.update.costs, grounder.layout.plan.query
        arities = {name: len(grounder.layout.radix_order(name)) for name in names}
        self.costs = Costs(costs, arities) if costs else None
        self.balance = ClassBalance() if costs == BALANCED else None
        self.thresholds = Thresholds(inference.threshold or {})
        self.temperature = Temperature() if weights.update.calibrated else None
        groups = grounder.layout.plan.groups.items()
        self.sets = None
        if inference.coverage is not None:
            exclusive = {name: (group.arguments, group.exactly) for name, group in groups}
            rate = answer_sets.RATE if inference.best > 1 else label_sets.RATE
            self.sets = LabelSets(inference.coverage, exclusive, inference.by_class, rate)
        counted = {
            "labels": self.balance,
            "scores": inference.threshold and self.thresholds,
            "temperature": self.temperature,
            "sets": self.sets,
        }
        self.formulas: FormulaQuery | None = None
        if inference.formulas or inference.given:
            program = grounder.layout.plan.program
            self.formulas = FormulaQuery.of_examples(program, inference.formulas, inference.given)
        self.counted: dict[str, Any] = {name: part for name, part in counted.items() if part}
        """What is counted, or fitted, of the examples learned from, by its name in checkpoints."""
        update = weights.update
        self.sampled = update.drawn() > 0 and not update.expects  # the rival is always sampled
        by_state = not (update.expects or self.sampled or update.calibrated)
        plans, most = grounder.layout.plans, inference.eager if by_state else EVERY
        self.eager = eager_groundings(grounder.layout.plan, most, learned=True)
        """How many groundings of each clause are ground before any state violates them, in a wide world."""
        first = np.where(self.eager < EVERY, min(EVERY, PAIRS * most), EVERY)
        self.plans = replace(plans, eager=first)
        """The plans by which it is seen whether a world is wide."""
        self.lazy: LazyWorld | None = None
        """The clauses that the network of the world at hand leaves out."""
        self.moved, self.gradient = np.zeros(0, np.int64), np.zeros((3, 0))
        self.slowest = Slowest()
        self.again = False
        """Whether the worlds of the batch were learned from before."""
        self.routes = [*ROUTES]
        self.allocate()

    @contextmanager
    def asking(self, marginals: bool, best: int | None = None) -> Iterator[None]:
        """Predict with margins for a while, and with ``marginals`` by the probabilities of atoms.

        ``best`` states are listed instead. Raises UsageError where both are asked for.
        """
        before = self.margins, self.inference
        inference = self.inference.ranking() if marginals else self.inference
        if best is not None:
            if inference.marginals is not None:
                reason = "probabilities search for no state"
                raise UsageError(f"best: {reason}; expected no marginals, and inference='mpe'")
            inference = replace(inference, best=best)
        self.margins, self.inference = True, inference
        try:
            yield
        finally:
            self.margins, self.inference = before

    def allocate(
        self, tables: int = 1 << 14, output: int = 1 << 12, unit_rows: int = 1 << 12
    ) -> None:
        """Allocate, or reallocate, memory for so many table cells, recorded atoms and rows of units."""
        self.room = {"tables": tables, "output": output, "unit_rows": unit_rows}
        self._make_states()

    def _make_states(self) -> None:
        """Allocate the states and tables of a world to match the grounder's memory."""
        truth, room, tables = self.grounder.truth, self.grounder.room, self.room["tables"]
        predicted, rival = np.zeros_like(truth), np.zeros_like(truth)
        cost, bonus = np.ones(len(truth)), np.zeros(len(truth))
        self.state = prediction_counts.State(truth, predicted, rival, cost, bonus)
        self.tables = structure_memory(
            room["atoms"], room["rows"], tables, 4 * tables, self.inference.growth
        )
        self.tables.last[:] = 1  # so that states next to the best one may differ in all variables
        together = 4 * tables if self.temperature else min(4 * tables, predict_and_learn.TOGETHER)
        unary, table = np.zeros(2 * room["atoms"]), np.zeros(together)
        self.rival = replace(self.tables, unary=unary, table=table)
        self.rows = UnitRows.zeros(atom=room["atoms"], entry=self.room["unit_rows"])

    def begin(
        self,
        batch: grounding_frames.Batch,
        worlds: Sequence[Packed],
        answered: Mapping[int, Prediction],
        again: bool = False,
    ) -> Results:
        """Return empty results for the batch that is processed next.

        ``again``: its worlds were learned from before, and ``learn_again`` processes them.
        """
        self.again = again
        room, n = self.room["output"], len(batch.listed)
        classes = np.zeros(n + 1, np.int64)
        if self.counter.by.query >= 0:
            np.cumsum(batch.domain[:, self.counter.kind], out=classes[1:])
        out = prediction_counts.Output.zeros(
            {"margin": np.full(n, np.inf), "class_start": classes},
            world=n,
            atom=room,
            class_=int(classes[-1]),
        )
        predict = self.inference.marginals is not None
        probabilities = prediction_counts.Probabilities.zeros(
            {
                "predict": predict,
                "heat": np.zeros(2) if self.temperature is None else self.temperature.state,
                "least": np.full(len(self.grounder.names), 0.5 + prediction_counts.TIE),
            },
            world=n,
            atom=room if predict else 0,
        )
        probabilities.answered[[*answered]] = 1
        self.results = Results(batch, worlds, out, self.routes, answered, probabilities)
        if self.thresholds.values:
            self._set_least()
        self._set_frame()
        return self.results

    def _set_least(self) -> None:
        """Make the kernel use the current thresholds."""
        for q, names in enumerate(self.grounder.names):
            value = self.thresholds.of(names.name)
            if value is not None:
                self.results.probabilities.least[q] = value

    def _set_frame(self) -> None:
        """Make the kernels use the current arrays."""
        grounder, weights, limits = self.grounder, self.weights, self.inference.limits
        places = len(weights.arrays.delta)  # as many as weights
        if weights.update.covers and places > len(self.moved):
            self.moved = np.zeros(places, np.int64)
            self.gradient = np.zeros((3, places))
        whole = self.inference.marginals is not None
        self.memory = predict_and_learn.StepFrame(
            grounder.layout.plans if whole else self.plans,
            self.results.batch,
            grounder.net,
            grounder.scratch,
            self.tables,
            weights.arrays,
            weights.how,
            weights.scalar,
            weights.weight,
            self.rival,
            weights.more,
            self.state,
            self.counter.by,
            self.results.out,
            self.results.probabilities,
            limits.atoms,
            limits.groundings,
            weights.update.loss == "ml",
            weights.update.label_loss == "f1",
            weights.update.predict == "current",
            NO_TEMPERATURE if self._fitted is None else self._fitted.state,
            self.rows,
            self.moved,
            *self.gradient,
        )

    @property
    def _fitted(self) -> Temperature | None:
        """The temperature, if it is fitted to the examples that are learned from."""
        return self.temperature if self.temperature and self.temperature.fitted else None

    def _grow(self, status: int) -> None:
        """Enlarge the memory that a kernel reported as too small by ``status``."""
        if status in ROOM:
            self.grounder.grow(status)
            self._make_states()
        elif status == predict_and_learn.GROW_TABLES:
            self.room["tables"] *= 2
            self._make_states()
        elif status == predict_and_learn.GROW_UNITS:
            self.room["unit_rows"] *= 2
            self._make_states()
        elif status == predict_and_learn.GROW_OUTPUT:
            self.room["output"] *= 2
            self.results.grow()
        elif status == predict_and_learn.GROW_CLAUSES:
            self.weights.room(self.grounder.net)
        else:
            self.weights.grow()
        self._set_frame()

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache."""
        batch = self.grounder.batch(learning=True)
        self.begin(batch, [], {})
        ready(weight_lookup.rehash, self.weights.arrays)
        ready(predict_and_learn.learn_from_gap, self.memory, 0, 0.0, 1.0, False)
        if self.inference.presolve:
            ready(predict_and_learn.run, self.memory, 0, 0, False, True)
        else:
            self.grounder.compile(batch)

    # the worlds of a batch in turn ---------------------------------------------------------

    def process(self, seen: int, learning: bool) -> None:
        """Process the worlds of the current batch; ``seen`` is the number of earlier examples."""
        w, results = 0, self.results
        while w < len(results.worlds):
            begin, thresholds = w, dict(self.thresholds.values)
            stop = self._eliminated(w, seen, learning)
            if stop == w:
                self._take(w, learning, self._audited(seen, w))
                w += 1
            else:
                first = w
                w = self.run(w, stop, learning, learning)
                self._name_probabilities(first, w)
                if w < stop:
                    self._finish(w, learning)
                    w += 1
                elif learning and results.batch.labelled[w - 1] and results.out.status[w - 1] == OK:
                    self._count(w - 1)
            if thresholds:
                results.thresholds |= dict.fromkeys(range(begin, w), thresholds)
            self.weights.enforce_limit()

    def _eliminated(self, w: int, seen: int, learning: bool) -> int:
        """Return the end of the range of worlds, starting at ``w``, that the kernel may process together."""
        update = self.weights.update
        if not self.inference.presolve or self._audited(seen, w) or self._asked(w):
            return w
        if self._best(learning) > 1 or (learning and (self.costs is not None or self.sampled)):
            return w
        if update.max_weights is not None:
            return w + 1
        interval, last = self.inference.audit_every, len(self.results.worlds)
        if self.formulas is not None:
            last = next((v for v in range(w, last) if self._asked(v)), last)
        if learning and self.thresholds.counts:  # the next labelled world changes them
            labelled = self.results.batch.labelled[w:last]
            return w + 1 + int(labelled.argmax()) if labelled.any() else last
        return last if interval <= 0 else min(last, w + interval - 1 - (seen + w) % interval)

    def _asked(self, w: int) -> bool:
        """Tell whether formulas are asked about in a world."""
        return self.formulas is not None and w not in self.results.answered

    def _best(self, learning: bool) -> int:
        """Return how many best states of a world are searched for; probabilities predict by none."""
        if self.inference.marginals is not None:
            return 1
        return max(self.inference.best, 2 if self.margins and not learning else 1)

    def _audited(self, seen: int, w: int) -> bool:
        """Tell whether a world is to be audited."""
        interval = self.inference.audit_every
        return interval > 0 and (seen + 1 + w) % interval == 0 and w not in self.results.answered

    def run(self, first: int, stop: int, learns: bool, learning: bool) -> int:
        """Process worlds by elimination alone; return ``stop`` or the first world too wide for elimination.

        A world that is too wide is already ground.
        """
        while True:
            first, status = predict_and_learn.run(self.memory, first, stop, learns, learning)
            if status not in GROWING:
                return first
            self._grow(status)

    # one world -----------------------------------------------------------------------------

    def _take(self, w: int, learning: bool, audit: bool) -> None:
        """Process a world and write its results; with ``audit``, the ILP solves it as well."""
        out = self.results.out
        out.true_start[w + 1] = out.true_start[w]
        if self.inference.presolve:
            wide = self.run(w, w + 1, False, learning) == w
            if not wide:
                self._name_probabilities(w, w + 1)
            if not wide and out.status[w] == OK and w not in self.results.answered:
                self._rank_narrow(w, self._best(learning))
        else:
            status, detail = self._ground(w, self.grounder.layout.plans, learning)
            wide = status == OK
            if not wide:
                out.status[w], out.detail[w] = status, detail
        self._finish(w, learning, audit, wide)

    def _ground(self, w: int, plans: Plans, learning: bool) -> tuple[int, int]:
        """Ground a world for the engines; returns a status and its detail."""
        status, detail = self.grounder.ground(self.results.batch, w, plans)
        if status == OK:
            if self.state.truth is not self.grounder.truth:
                self._make_states()
            labelled = bool(self.results.batch.labelled[w])
            self.weights.number(self.grounder.net, learning and labelled)
            self._set_frame()
        return status, detail

    def _clauses(self, w: int, learning: bool) -> tuple[GroundMRF, Ints]:
        """Return the clauses of a ground wide world, and leave the others to ``lazy``. Raises _Bad.

        Left out is what is large, holds by default, and has no negative weight.
        """
        net, plans = self.grounder.net, self.plans
        rows = int(net.size[ground_network.ROWS])
        sizes = np.bincount(net.row_clause[:rows], net.row_len[:rows], minlength=len(self.eager))
        large = net.left_out.astype(np.bool_) | (sizes > self.eager)
        if self.inference.marginals is not None or not np.any(large):
            return clause_model(net)
        eager = np.full_like(self.eager, EVERY)
        for c in np.flatnonzero(large).tolist():
            weights = [self.weights.of_clause(c, *self.weights.scales(a)) for a in (True, False)]
            if plans.hard[c] or np.min(np.concatenate(weights) * plans.sign[c]) >= 0:
                eager[c] = self.eager[c]
        status, detail = self._ground(w, replace(plans, eager=eager), learning)
        if status != OK:
            raise _Bad(status, detail)
        if np.any(self.grounder.net.left_out):
            batch = self.results.batch
            learns = learning and bool(batch.labelled[w])
            self.lazy = LazyWorld(self.grounder, batch, w, self.weights, self._weights, learns)
            if batch.labelled[w] and not self._partly(w):
                truth = self.state.truth[: self.grounder.net.size[ground_network.ATOMS]]
                if (broken := self.lazy.broken(truth)) is not None:
                    raise _Bad(*broken)
        return clause_model(self.grounder.net)

    def _finish(self, w: int, learning: bool, audit: bool = False, wide: bool = True) -> None:
        """Complete the step of a ground world.

        A ``wide`` world is still to be predicted, by the engines; other worlds already have a prediction.
        """
        results, net = self.results, self.grounder.net
        out = results.out
        atoms = int(np.sum(net.fixed[: net.size[ground_network.ATOMS]] == ground_network.OPEN))

        def route() -> str:
            return results.routes[int(out.route[w])] if out.status[w] == OK else "unsolved"

        identity = results.worlds[w].example.id
        try:
            with self.slowest.timing(identity, atoms, route) if wide else nullcontext():
                if audit and out.status[w] in {OK, INFEASIBLE}:
                    self._audit(w, learning)
                clauses = self._clauses(w, learning) if wide else None
                if clauses is not None:
                    self._predict_wide(w, *clauses, self._best(learning))
                if self.formulas is not None and self._asked(w) and out.status[w] == OK:
                    self._ask(w, self.formulas)
                if learning and results.batch.labelled[w] and out.status[w] == OK:
                    self._learn(w, clauses)
        except Infeasible:
            out.status[w] = INFEASIBLE
        except Unsolved as unsolved:
            out.status[w], results.reasons[w] = UNSOLVED, str(unsolved)
        except ExampleError as error:  # of a rule that is ground lazily
            out.status[w] = next(status for status, kind in KINDS.items() if kind == error.kind)
            results.reasons[w] = error.reason
        except _Bad as bad:
            out.status[w], out.detail[w] = bad.args
        finally:
            self._end()

    def _end(self) -> None:
        """Forget the clauses that the network of the world at hand leaves out."""
        if self.lazy is not None:
            self.lazy = None
            self._set_frame()  # they may have grown the table of weights

    def learn_again(self, w: int) -> bool:
        """Learn from a world of the batch that was learned from before; it is neither predicted nor counted.

        Returns False, and learns nothing, where that would make the example a bad one.
        """
        while (status := predict_and_learn.ground_alone(self.memory, w)) in GROWING:
            self._grow(status)
        if status != OK:
            return False
        try:
            self._learn(w, None)
        except (ExampleError, Infeasible, Unsolved, _Bad):
            return False
        finally:
            self._end()
        return bool(self.results.out.status[w] == OK)

    def _record(self, w: int, route: int, score: float) -> None:
        """Write the prediction, its counts and its score to the results."""
        net, code, results = self.grounder.net, self.grounder.layout.plans, self.results
        while not prediction_counts.record(
            code, results.batch, w, net, self.state, self.counter.by, route, score, results.out
        ):
            self._grow(predict_and_learn.GROW_OUTPUT)

    def _name_probabilities(self, first: int, stop: int) -> None:
        """Note the probabilities that the kernel found for the worlds ``first .. stop - 1``."""
        results, by = self.results, self.results.probabilities
        if not by.predict:
            return
        begin, end = by.start[[first, stop]].tolist()
        query, keys = by.query[begin:end].tolist(), by.key[begin:end].tolist()
        values = np.round(by.value[begin:end], 6).tolist()
        for w in range(first, stop):
            if results.out.status[w] != OK or w in results.answered:
                continue
            at, end = (by.start[w : w + 2] - begin).tolist()
            marginals = results.marginals[w] = {}
            for q, names in enumerate(self.grounder.names):
                domains = [self.grounder.packer.names(results.batch, w, k) for k in names.kinds]
                part = slice(at, bisect_right(query, q, at, end))
                rows, at = names.constants(keys[part], domains), part.stop
                marginals[names.name] = [*map(ValuedAtom, rows, values[part])]

    # prediction by engines -------------------------------------------------------------------

    def _weights(self, averaged: bool, net: Network | None = None) -> Floats:
        """Return the weights of the world's ground clauses, or of ``net``; see ``WeightTable.of``.

        Raises _Bad.
        """
        net = self.grounder.net if net is None else net
        weight = self.weights.of(net, averaged)
        if weight_magnitude.beyond(net, weight, weight_magnitude.total(net, weight)):
            raise _Bad(WEIGHTS_BEYOND, weight_magnitude.largest(net, weight)[0])
        return weight

    def _predict_wide(self, w: int, model: GroundMRF, place: Ints, n: int) -> None:
        """Predict a world by its ``n`` best states and record it, unless it was predicted earlier.

        Raises Unsolved, Infeasible.
        """
        results, predicted = self.results, self.state.predicted
        if w in results.answered:
            predicted[: model.n_atoms] = 0
            self._record(w, ILP, 0.0)
            return
        weight = clause_weights(model, place, self._weights(averaged=True))
        if self.inference.marginals is not None:
            best = self._likeliest(w, model, weight, self.inference.marginals)
        else:
            best = self._solve(w, model, weight, averaged=True)
        predicted[: model.n_atoms] = best.state
        score = self._score(predicted, self._weights(averaged=True))
        if best.route not in results.routes:
            results.routes.append(best.route)
        self._record(w, results.routes.index(best.route), score)
        if not best.certified:
            results.unproven.add(w)
        elif n > 1:
            if self.lazy is not None:
                states, proven = self.lazy.ranking.first(n), self.lazy.ranking.proven
            else:
                atoms, inference = np.arange(model.n_atoms), self.inference
                engine, max_work = inference.engine, inference.max_work
                rows, proven = best_states(model, weight, atoms, n, engine, max_work, best)
                states = [row.solution for row in rows]
            others = [x for x in states if not np.array_equal(x.state, best.state)][: n - 1]
            self._rank(w, others, self._weights(averaged=True))
            if not proven and self.inference.best > 1:
                results.unsolved.add(w)

    def _score(self, state: State, ground: Floats) -> float:
        """Return the sum of the weights, averaged or current, of the world's soft clauses that hold."""
        score: float = ground_network.soft_score(self.grounder.net, state, ground)
        return score if self.lazy is None else score + self.lazy.score(state, averaged=True)

    def _rank_narrow(self, w: int, n: int) -> None:
        """Find the ``n`` best states of a world that elimination has just predicted, by its tables."""
        net, tables, weight = self.grounder.net, self.tables, self.weights.weight
        if n > 1 and self.inference.best > 1:
            states = islice(narrow_states(net, tables, weight, n), 1, n)
            self._rank(w, [Solution(x, 0.0, 0.0, "", certified=True) for x in states], weight)
        elif n > 1:
            variables = int(net.size[ground_network.VARIABLES])
            loss = np.empty(int(net.size[ground_network.ATOMS]) + variables)
            elimination.complete(net, tables, weight, variables, loss)
            self.results.out.margin[w] = loss.min(initial=np.inf)

    def _rank(self, w: int, others: Sequence[Solution], ground: Floats) -> None:
        """Note how much less than the prediction the next best states score, and where they differ.

        ``ground`` [ground clause] are the weights that they are the best by.
        """
        net, results = self.grounder.net, self.results
        score = float(results.out.score[w])
        others = [replace(x, score=self._score(x.state, ground)) for x in others]
        if others and others[0].certified:
            results.out.margin[w] = max(0.0, score - others[0].score)
        if self.inference.best < 2:
            return
        atoms = np.arange(net.size[ground_network.ATOMS])
        state = self.state.predicted[: len(atoms)]
        predicted = Solution(state, score, score, "", certified=True)
        size = weight_magnitude.total(net, ground) + abs(score)
        clauses = int(net.clause_start[net.size[ground_network.ROWS]])
        named = [*self.grounder.named(results.batch, w)]
        results.best[w] = [
            Alternative(
                row.rank,
                row.solution.score,
                row.difference,
                row.solution.certified,
                _only(named, row.solution.state, state),
                _only(named, state, row.solution.state),
            )
            for row in ranked([predicted, *others], atoms, (clauses + 1) * UNIT * size)
            if row.solution is not predicted
        ]

    def _likeliest(
        self, w: int, model: GroundMRF, weight: Floats, engine: MarginalEngine
    ) -> Solution:
        """Predict the most probable value of each atom or group.

        Raises Unsolved if the engine finds no feasible start state.
        """
        from onlinesrl.mln.inference.exact_marginals import likeliest

        results, net, weight = self.results, self.grounder.net, self._tempered(weight)
        try:
            marginals = engine.marginals(model, weight)
        except Unsolved:
            results.unsolved.add(w)
            raise
        threshold = None  # the least probability of a true atom, above 1/2
        if self.thresholds.values:
            threshold = np.full(model.n_atoms, np.nextafter(0.5, 1.0))
            for part in self.grounder.named(results.batch, w):
                value = self.thresholds.of(part.names.name)
                if value is not None:
                    threshold[part.first : part.first + len(part.keys)] = value
        state = likeliest(model, marginals.probability, threshold)
        ground_network.define(net, state)
        values = np.round(marginals.probability, 6).tolist()
        if marginals.diagnostics is not None:
            results.diagnostics[w] = marginals.diagnostics
        results.marginals[w] = {
            name: [
                ValuedAtom(args, values[n])
                for n, args in enumerate(atoms, first)
                if net.fixed[n] == ground_network.OPEN
            ]
            for name, first, atoms in self.grounder.atoms(results.batch, w)
        }
        return Solution(state, 0.0, math.inf, engine.route, certified=False)

    def _ask(self, w: int, formulas: FormulaQuery) -> None:
        """Note the probabilities of formulas in a ground world that is predicted by probabilities."""
        assert self.inference.marginals is not None
        results, weight = self.results, self._tempered(self._weights(averaged=True))
        world = FormulaWorld(self.grounder, results.batch, w, results.worlds[w].example)
        results.formulas[w] = formulas.probabilities(world, weight, self.inference.marginals)

    def _tempered(self, weight: Floats) -> Floats:
        """Return the weights whose probabilities are at the temperature."""
        return weight if self.temperature is None else self.temperature.inverse * weight

    def _solve(
        self, w: int, model: GroundMRF, weight: Floats, averaged: bool, bonus: Floats | None = None
    ) -> Solution:
        """Solve a world by its averaged or current weights.

        Raises Infeasible, and Unsolved where a proof is needed and missing.
        """
        inference = self.inference
        try:
            if self.lazy is not None:
                solution = self.lazy.solve((model, weight), averaged, inference.max_work, bonus)
            else:
                solution = inference.engine.solve(model, weight, bonus=bonus)
        except Unsolved:
            self.results.unsolved.add(w)
            raise
        if inference.proven and not solution.certified:
            self.results.unsolved.add(w)
            if not inference.predicts_unproven:
                raise Unsolved(
                    "the search ended at its limit (inference.max_work, max_nodes) without a proven answer"
                )
        return solution

    # learning ----------------------------------------------------------------------------------

    def _learn(self, w: int, clauses: tuple[GroundMRF, Ints] | None) -> None:
        """Learn from a world, and count it; ``clauses`` has those of a wide one. Raises Unsolved, Infeasible.

        A kernel finds the gap of a narrow world, and expected features as far as it can. Else states are
        sampled, or the engine finds the rival.
        """
        update = self.weights.update
        if self.sampled or not (clauses is None or update.expects) or not self._learned_alone(w):
            model, place = clauses or self._clauses(w, learning=True)
            slope = self._slope(w, model, place)
            if self._complete(w):
                learn = self._contrast if self.sampled or update.expects else self._find_rival
                learn(w, model, place, slope)
        if self.results.out.status[w] == OK and not self.again:
            self._count(w)

    def _learned_alone(self, w: int) -> bool:
        """Learn from a world by a kernel; return False if it is too wide."""
        self._price(w)
        while (status := predict_and_learn.learn_alone(self.memory, w, self.again)) in GROWING:
            self._grow(status)
        return status not in {predict_and_learn.TOO_WIDE, INFEASIBLE}

    def _contrast(self, w: int, model: GroundMRF, place: Ints, slope: float) -> None:
        """Learn from the truth of a world and states sampled from a chain that starts there.

        Where atoms are unlabelled and features are expected, states sampled beside the labels stand for the
        truth. Raises Infeasible.
        """
        net, weights = self.grounder.net, self.weights
        truths = self.state.truth[None, : model.n_atoms]
        if self._partly(w) and weights.update.expects:
            with self._beside_labels() as beside:
                truths = self._samples(*beside)
        samples = self._samples(model, place)
        self._update(w, expected_gap(net, weights.arrays, truths, samples), 0.0, slope)
        if weights.update.expects and self.results.out.status[w] == OK and not self.again:
            weights.sampled += 1

    def _samples(self, model: GroundMRF, place: Ints) -> Bytes:
        """Return states of a chain that starts at the truth: uint8[sample, atom]. Raises Infeasible."""
        weight = clause_weights(model, place, self._weights(averaged=False))
        return np.stack([*islice(self._chain(model, weight), self.weights.update.drawn())])

    def _chain(self, model: GroundMRF, weight: Floats) -> Iterator[State]:
        """Return a chain of sampled states that starts at the truth. Raises Infeasible."""
        from onlinesrl.mln.inference.mcsat import from_on

        truth = self.state.truth[: model.n_atoms]
        return from_on(truth, model, weight, self.inference.seed, self.weights.updates)

    def _find_rival(self, w: int, model: GroundMRF, place: Ints, slope: float) -> None:
        """Learn from a world if its rival is proven optimal or needs no proof.

        The rival is the state of highest loss-augmented score. Raises Unsolved, Infeasible.
        """
        net, state, weights = self.grounder.net, self.state, self.weights
        self._price(w)
        augmented = weights.update.loss == "ml"
        elimination.set_bonus(net, state.truth, augmented, state.cost, state.bonus)
        weight = clause_weights(model, place, self._weights(averaged=False))
        bonus = state.bonus[: model.n_atoms].copy()
        rival = self._solve(w, model, weight, averaged=False, bonus=bonus)
        if rival.certified or not self.inference.proven:
            state.rival[: model.n_atoms] = rival.state
            if self.lazy is not None:
                n, rho = self.lazy.gap(state.truth, state.rival, state.cost)
            else:
                n, rho = gap(net, weights.arrays, state.truth, state.rival, state.cost)
            if weights.update.label_loss == "f1":
                rho = by_true_atoms(net, state.truth, state.rival, rho)
            cost = mean_cost(net, state.truth, state.rival, state.cost)
            self._update(w, n, rho, slope, cost)

    def _slope(self, w: int, model: GroundMRF, place: Ints) -> float:
        """Return the slope for the temperature: exact if the world is narrow, else by samples.

        It is 0 where nothing is fitted, and in a wide world that lists unlabelled atoms. Raises Infeasible.
        """
        if self._fitted is None or self.again:
            return 0.0
        partly = self._partly(w)
        while True:
            status, slope = predict_and_learn.slope_alone(self.memory, partly)
            if status not in GROWING:
                break
            self._grow(status)
        if status != predict_and_learn.TOO_WIDE or partly:
            return float(slope)
        truth = self.state.truth[: model.n_atoms]
        weight = self._tempered(clause_weights(model, place, self._weights(averaged=True)))
        scores = [
            model.score(state, weight) for state in islice(self._chain(model, weight), SAMPLES)
        ]
        return float(model.score(truth, weight) - np.mean(scores))

    def _partly(self, w: int) -> bool:
        """Tell whether a world lists unlabelled atoms."""
        return bool(partly_labelled(self.grounder.layout.plans, self.results.batch, w))

    @contextmanager
    def _beside_labels(self) -> Iterator[tuple[GroundMRF, Ints]]:
        """Fix the labelled atoms for a while; yields the clauses of the others."""
        net = self.grounder.net
        ground_network.clamp(net, self.state.truth)
        try:
            yield clause_model(net)
        finally:
            ground_network.release(net)

    def _complete(self, w: int) -> bool:
        """Give unlabelled atoms their most probable values beside the labels (Yu & Joachims 2009, eq. 5).

        Returns False if a proof of them is needed and missing: where features are expected they are only the
        start of a chain. Raises Unsolved, and _Bad if there are none.
        """
        if not self._partly(w):
            return True
        try:
            with self._beside_labels() as (model, place):
                weight = clause_weights(model, place, self._weights(averaged=False))
                best = self._solve(w, model, weight, averaged=False)
        except Infeasible:
            raise _Bad(predict_and_learn.NO_COMPLETION, 0) from None
        self.state.truth[: model.n_atoms] = best.state
        return best.certified or self.weights.update.expects or not self.inference.proven

    def _price(self, w: int) -> None:
        """Write the label loss of each atom of a world to the state."""
        if self.costs is None:
            return
        state = self.state
        for name, first, rows in self.grounder.atoms(self.results.batch, w):
            truth = state.truth[first : first + len(rows)]
            costs = self.costs.of(name, rows)
            state.cost[first : first + len(rows)] = costs[np.arange(len(rows)), truth]
        for name, units, labels in self._labels(w):
            by_label = {} if self.balance is None else self.balance.costs(name, labels)
            for atoms, label in zip(units, labels, strict=True):
                state.cost[atoms] = by_label[label]

    def _count(self, w: int) -> None:
        """Count the labels, and the scores, of a world that was learned from."""
        if self.balance is not None:
            for name, _, labels in self._labels(w):
                self.balance.add(name, labels)
        if self.thresholds.counts:
            for name, scores, true in self.counter.scored(self.results, w):
                self.thresholds.add(name, scores, true)
            self._set_least()

    def _labels(self, w: int) -> Iterator[tuple[str, list[list[int]], list[str]]]:
        """Yield by predicate the open atoms of each unit, and its label, where labels are balanced."""
        if self.balance is None:
            return
        net, truth = self.grounder.net, self.state.truth
        unlabelled = self.results.worlds[w].unlabelled
        for name, first, rows in self.grounder.atoms(self.results.batch, w):
            group = self.grounder.layout.plan.groups.get(name)
            exclusive = () if group is None else group.arguments
            units: dict[tuple[Constant, ...], list[int]] = {}
            label: dict[tuple[Constant, ...], str] = {}
            for n, row in enumerate(rows, first):
                is_unlabelled = unlabelled and (name, tuple(map(str, row))) in unlabelled
                if net.fixed[n] != ground_network.OPEN or is_unlabelled:
                    continue
                unit = tuple(c for place, c in enumerate(row) if place not in exclusive)
                units.setdefault(unit, []).append(n)
                if group is None:
                    label[unit] = LABELS[truth[n]]
                elif truth[n]:
                    label[unit] = ", ".join(str(row[place]) for place in exclusive)
            yield name, [*units.values()], [label.get(unit, "") for unit in units]

    def _update(self, w: int, n: int, rho: float, slope: float, cost: float = 1.0) -> None:
        """Update the weights along a gap, and the temperature; OVERFLOW is the status of too large a step."""
        loss = predict_and_learn.learn_from_gap(self.memory, n, rho, cost, self.again)
        self.results.out.loss[w] = loss
        if math.isnan(loss):
            self.results.out.status[w] = OVERFLOW
        elif self._fitted is not None and not self.again:
            fit(self._fitted.state, slope)

    # audits --------------------------------------------------------------------------------------

    def _audit(self, w: int, learning: bool) -> None:
        """Solve a whole world by the ILP with the averaged weights; see ``check_audits``.

        One that is too large to be ground whole is not audited.
        """
        if np.any(self.grounder.net.left_out):
            status, _ = self._ground(w, self.grounder.layout.plans, learning)
            if status != OK:
                return
        net, audits = self.grounder.net, self.results.audits
        model, place = clause_model(net)
        ground = self.weights.of(net, averaged=True)
        weight = clause_weights(model, place, ground)
        baseline = net.fixed[: net.size[ground_network.ATOMS]] == ground_network.TRUE
        baseline = baseline.astype(np.uint8)
        constant = ground_network.soft_score(net, baseline, ground) - model.score(baseline, weight)
        try:
            solution = self.inference.whole.solve(model, weight)
        except Infeasible:
            audits[w] = -math.inf
        except Unsolved:
            return
        else:
            if solution.certified:
                audits[w] = solution.score + constant


def _only(named: Sequence[Named], state: State, other: State) -> Rows:
    """Return the atoms that are true in a state and not in another one."""
    rows = {}
    for names, first, keys, domains in named:
        part = slice(first, first + len(keys))
        if len(true := keys[state[part] > other[part]]):
            rows[names.name] = names.constants(true.tolist(), domains)
    return rows


def check_audits(results: Results) -> None:
    """Compare the scores of the predictions with the optimal scores of the ILP. Raises AuditError."""
    out = results.out
    for w, value in results.audits.items():
        score = float(out.score[w]) if out.status[w] == OK else -math.inf
        if not math.isclose(score, value, rel_tol=AUDIT_TOLERANCE, abs_tol=AUDIT_TOLERANCE):
            raise AuditError(
                f"audit of example {results.worlds[w].example.id}: {results.routes[int(out.route[w])]} "
                f"gives {score!r}, the whole ILP {value!r}"
            )
