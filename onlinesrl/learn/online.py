"""The online learner: examples in, outcomes out, strictly one at a time.

An example is predicted with the averaged weights before its truth is looked at; then the update is
made. Micro-batches only share the overhead of a call: every size gives the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from msgspec.structs import replace

from onlinesrl.errors import ExampleError, Infeasible, OnlinesrlError, Unsolved
from onlinesrl.ground.background import Background
from onlinesrl.ground.convert import clause_model
from onlinesrl.ground.encode import Layout
from onlinesrl.ground.model import ClauseModel, Floats, Indices, State
from onlinesrl.ground.pack import KEYS, NO_NEWS, LimitKeys, News, Packer, World
from onlinesrl.ground.plan import Plan
from onlinesrl.infer.diagnostics import Diagnostics
from onlinesrl.infer.engine import MapEngine, MarginalEngine, RankingEngine, Solution
from onlinesrl.interrupt import Interrupted, leavable
from onlinesrl.kernels import ground, network, updates
from onlinesrl.kernels import learn as k
from onlinesrl.lang.example import Constant, Example, ValuedAtom, arguments
from onlinesrl.learn.learner import UPDATES, Answered, Hyper, Item, Outcome, Prediction, Tally
from onlinesrl.learn.memory import Memory
from onlinesrl.learn.outcomes import KINDS, ROUTES, UNSOLVED, Taken, Teller
from onlinesrl.learn.slowest import Slowest
from onlinesrl.learn.together import TOO_LARGE, Together
from onlinesrl.learn.weights import WeightTable
from onlinesrl.ranking import Ranking

AUDIT_TOLERANCE = 1e-6


class AuditError(OnlinesrlError):
    """Two exact engines disagree on the value of an example: a defect, never to be passed over."""


@dataclass(frozen=True)
class Inference:
    """How MPE problems are solved and how large they may be.

    ``whole`` is the engine for problems given to it whole (``presolve: none``, audits), ``exact`` the
    one for worlds that the kernel's elimination finds too wide. Where a search of these ends at its
    limit without proof, the example is bad; or, with ``fallback``, it is predicted with the best state
    found, by this engine where there was none, and learned from only if its rival is proven.
    With ``marginals`` worlds are predicted by their atoms' probabilities; rivals are found as ever. Where
    answers need not be ``proven``, those of ``exact``, any engine then, are taken as they are: the bound
    on the regret is none. ``keys`` are what the limits are set by.
    """

    whole: RankingEngine
    exact: MapEngine
    fallback: MapEngine | None = None
    marginals: MarginalEngine | None = None
    proven: bool = True
    presolve: bool = True
    audit_every: int = 0
    max_groundings: int = 1_000_000
    max_atoms: int = 1_000_000
    keys: LimitKeys = KEYS


@dataclass(frozen=True)
class Ground:
    """The ground network of one example: its model and weights, and what its atoms are.

    ``atoms`` are (query predicate, arguments), [atom]; ``fixed`` holds those that evidence decides, which
    the model has as hard unit clauses. Atoms that hard rules make false are among them.
    """

    model: ClauseModel
    weights: Floats
    atoms: list[tuple[str, list[Constant]]]
    fixed: dict[int, bool]


class OnlineLearner:
    """Owns the weights; ``step`` takes a micro-batch, all of which have the facts of ``background``."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a learner is made of
        self,
        plan: Plan,
        hyper: Hyper,
        inference: Inference,
        by: tuple[str, int] | None = None,
        margins: bool = False,
        background: Background | None = None,
    ):
        self.layout = Layout(plan)
        self.weights = WeightTable(self.layout)
        self.hyper = hyper
        self.inference = inference
        self.by = by
        self.settings = self._settings(margins)
        table, limit = self.weights, (inference.max_atoms, inference.keys)
        self.packer = Packer(self.layout, table.plans, table.stream, *limit, background)
        self.memory = Memory(self.layout, self.weights)
        self.teller = Teller(self.layout, self.weights, self.packer, self.settings)
        self.together = Together()
        self.slowest = Slowest()
        self.seen = 0
        self.audits: dict[int, float] = {}
        self.unproven: set[int] = set()
        self.unsolved: set[int] = set()
        self.marginals: dict[int, dict[str, list[ValuedAtom]]] = {}
        self.diagnostics: dict[int, Diagnostics] = {}

    def _settings(self, margins: bool) -> k.Settings:
        hyper, inference = self.hyper, self.inference
        query, argument = -1, 0
        if self.by is not None:
            query = self.layout.plan.query.index(self.by[0])
            argument = self.layout.radix_order(self.by[0]).index(self.by[1])
        return k.Settings(
            UPDATES[hyper.update],
            hyper.loss == "ml",
            float(hyper.sigma),
            float(hyper.eta),
            inference.max_atoms,
            inference.max_groundings,
            2**62 if hyper.max_weights is None else hyper.max_weights,
            query,
            argument,
            margins,
        )

    @property
    def model_text(self) -> str:
        """The model's text, with what it includes."""
        return self.layout.plan.program.text

    def describe(self) -> str:
        """Say how large the model is."""
        plan = self.layout.plan
        return (
            f"{len(plan.program.rules)} rules, {len(plan.clauses)} clauses to ground, "
            f"{len(plan.groups)} groups"
        )

    def compile(self) -> float:
        """Compile the kernels, or load them from the cache; returns the seconds it took."""
        started = time.perf_counter()
        self.packer.clear()
        batch = self.packed(learning=True)
        self.memory.begin(batch, self.settings)
        self._call(batch, 0, np.zeros(0, np.uint8), True)
        return time.perf_counter() - started

    def packed(self, learning: bool) -> ground.Batch:
        """Return the worlds that have been packed, with what hard rules leave open of each."""
        return self.memory.with_found(self.packer.batch(learning), self.settings)

    def rule_sizes(self, example: Example) -> Indices:
        """Return how many ground clauses each rule has in an example, int64[rules].

        Of one beyond a limit, so many as have been made. Raises ExampleError where none can be.
        """
        self.packer.clear()
        self.packer.add(example, 0)
        batch = self.packed(learning=False)
        self.memory.begin(batch, self.settings)
        self._prepare(batch)
        net, rules = self.memory.net, self.layout.plan.program.rules
        rows = int(net.size[network.ROWS])
        rule = np.array([clause.rule for clause in self.weights.clauses], np.int64)
        of = rule[net.row_clause[:rows]]
        return np.bincount(of, net.row_len[:rows], minlength=len(rules)).astype(np.int64)

    def ground_network(self, example: Example) -> Ground:
        """Ground one example, without learning. Raises ExampleError for a bad one."""
        self.packer.clear()
        self.packer.add(example, 0)
        batch = self.packer.batch(learning=False)
        self.memory.begin(batch, self.settings)
        status, detail = self._prepare(batch)
        net, out = self.memory.net, self.memory.out
        if status not in (ground.OK, k.EXTERNAL):
            out.status[0], out.detail[0] = status, detail
            reason = self.teller.reason(Taken(batch, self.packer.worlds, out, {}, (), ()), 0)
            raise ExampleError(reason, KINDS[status])
        model, used = clause_model(net)
        atoms = [(name, args) for name, _, rows in self._atoms(batch, 0) for args in rows]
        values = net.fixed[: len(atoms)].tolist()
        fixed = {n: v == network.TRUE for n, v in enumerate(values) if v != network.OPEN}
        return Ground(model, self._current(used, *k.mean(self.weights.arrays)), atoms, fixed)

    def _atoms(
        self, batch: ground.Batch, w: int
    ) -> Iterator[tuple[str, int, list[list[Constant]]]]:
        """Yield the query predicates of the world just prepared: name, first atom, all arguments."""
        for q, names in enumerate(self.teller.names):
            first, last = self.memory.scratch.query_base[q : q + 2].tolist()
            listed = batch.listed[w]
            keys = self.memory.net.key[first:last].tolist() if listed else range(last - first)
            domains = [self.packer.names(batch, w, kind) for kind in names.kinds]
            yield names.name, first, list(names.constants(keys, domains))

    def _prepare(self, batch: ground.Batch) -> tuple[int, int]:
        """Prepare the only world of a batch, with as much room as it takes."""
        while True:
            memory = self.memory
            status, detail = k.prepare(
                self.weights.plans,
                batch,
                0,
                memory.net,
                memory.scratch,
                memory.structure,
                memory.state,
                self.weights.arrays,
                self.settings,
                False,
            )
            if not ground.GROW_ATOMS <= status <= k.GROW_OUTPUT:
                return status, detail
            self.memory.grow(status)

    def predict(self, items: Sequence[Item]) -> list[Outcome]:
        """Predict between two steps, with margins; learning goes on as if nothing had been asked."""
        seen, settings = self.seen, self.settings
        self.settings = replaced(settings, margins=True)
        try:
            return self.step(items, learning=False)[0]
        finally:
            self.seen, self.settings = seen, settings

    # the step ------------------------------------------------------------------------------

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        """As ``Learner.step``; an example that shows new constants of open types is a batch of its own."""
        if not self.layout.open:
            return self._step(items, learning)
        first, parts = 0, []
        for place, item in enumerate(items):
            news = self._news(item)
            if news is None or news.constants:
                parts.append(self._step(items[first:place], learning))
                if len(parts[-1][0]) < place - first:
                    break
                parts.append(self._met(item, news, learning))
                if not parts[-1][0]:
                    break
                first = place + 1
        else:
            parts.append(self._step(items[first:], learning))
        outcomes = [outcome for part, _ in parts for outcome in part]
        return outcomes, reduce(add, (tally for _, tally in parts))

    def _news(self, item: Item) -> News | None:
        """Return what an example shows for the first time; None: there is not the memory to tell."""
        if isinstance(item, ExampleError):
            return NO_NEWS
        try:
            return self.packer.news(item.example if isinstance(item, Answered) else item)
        except MemoryError:
            return None

    def _met(self, item: Item, news: News | None, learning: bool) -> tuple[list[Outcome], Tally]:
        """Take an example that shows new constants, or that takes too much memory to tell."""
        known, updates = self.packer.stream_sizes(), self.weights.updates
        if news is not None and not isinstance(item, ExampleError):
            try:
                return self._first_sight(item, news, learning)
            except MemoryError:
                if self.weights.updates > updates:
                    raise
            self.packer.forget(known)
        return self._step([ExampleError(TOO_LARGE, "memory")], learning)

    def _first_sight(
        self, item: Example | Answered, news: News, learning: bool
    ) -> tuple[list[Outcome], Tally]:
        """Take an example that shows new constants; if it is learned from, all later ones have them.

        Where only its truth shows them it is predicted without, then scored and learned from with them.
        """
        if not news.hidden:
            outcomes, tally = self._step([item], learning)
            labelled = isinstance(item, Answered) or item.truth is not None
            if learning and labelled and _predicted(outcomes):
                self.packer.share(news.constants, learning)
            return outcomes, tally
        predicted, seen = None, self.seen
        if isinstance(item, Example):
            blind, predicted = self._step([replace(item, truth=None)], learning=False)
            if not (prediction := _predicted(blind)):
                return blind, predicted
            item = Answered(item, prediction)
        outcomes, tally = self._admit(item, news, learning, predicted)
        if not outcomes:
            self.seen = seen
        return outcomes, tally

    def _admit(
        self, item: Answered, news: News, learning: bool, predicted: Tally | None
    ) -> tuple[list[Outcome], Tally]:
        """Score and learn from an example with its new constants, which stay if it was learned from."""
        shown, stay = self.packer.shown(), False
        self.packer.share(news.constants, learning)
        try:
            outcomes, tally = self._step([item], learning)
            if not _predicted(outcomes):
                return outcomes, tally
            stay = learning
            return outcomes, tally if predicted is None else predicted + tally
        finally:
            if not stay:
                self.packer.set_shown(shown)

    def _step(self, items: Sequence[Item], learning: bool) -> tuple[list[Outcome], Tally]:
        """Take examples in turn, none of which shows constants that a later one is to have."""
        tallies: list[Tally] = []
        outcomes = self.together.take(
            items, lambda some: self._attempt(some, learning, tallies), self.weights
        )
        return outcomes, reduce(add, tallies)

    def _attempt(
        self, items: Sequence[Item], learning: bool, tallies: list[Tally]
    ) -> list[Outcome]:
        """Take examples in turn, as far as memory allows; see ``Together``."""
        known, dropped = self.packer.stream_sizes(), self.weights.dropped
        outcomes, bad = self._pack(items)
        worlds, batch = self.packer.worlds, self._prepared(learning)
        done, enough = (0, False) if batch is None else self._run(batch, worlds, learning)
        if batch is None or not enough:
            self._give_back(batch)
            if batch is None or worlds[done].place == 0:
                self.packer.forget(known)
                raise MemoryError
        self.audits.pop(done, None)
        self._check_audits(worlds)
        out = self.memory.out
        taken = Taken(batch, worlds, out, self.served, self.unproven, self.unsolved).first(done)
        ranking = dict[str, Ranking]()
        for w, outcome in enumerate(self.teller.outcomes(taken)):
            outcomes[worlds[w].place] = outcome
            if outcome.prediction is not None:
                if w in self.marginals:
                    self._add_marginals(outcome.prediction, w)
                _rank(outcome.prediction, worlds[w].example, ranking)
        end = worlds[done].place if done < len(worlds) else len(items)
        errors = [kind for place, kind in bad.items() if place < end]
        tally = self.teller.tally(taken, errors, len(self.audits))
        tallies.append(replaced(tally, ranking=ranking))
        self.seen += done
        self.packer.clear()
        if not enough:
            self._number_again(worlds[:done], known, learning)
        if self.weights.dropped > dropped:
            self._forget()
        return [outcome for outcome in outcomes[:end] if outcome is not None]

    def _pack(self, items: Sequence[Item]) -> tuple[list[Outcome | None], dict[int, str]]:
        """Pack the good examples; returns the outcomes of the bad ones, and by place their kinds."""
        outcomes = [Outcome(None, str(e)) if isinstance(e, ExampleError) else None for e in items]
        bad = {n: e.kind for n, e in enumerate(items) if isinstance(e, ExampleError)}
        self.packer.clear()
        self.served = dict[int, Prediction]()
        for place, item in enumerate(items):
            if not isinstance(item, ExampleError):
                try:
                    self._add(item, place)
                except ExampleError as error:
                    outcomes[place] = Outcome(None, str(error))
                    bad[place] = error.kind
        return outcomes, bad

    def _prepared(self, learning: bool) -> ground.Batch | None:
        """Return the packed worlds as arrays, with room for what will be said of them; None: no memory."""
        self.audits.clear()
        self.unproven, self.unsolved = set(), set()
        self.marginals, self.diagnostics = {}, {}
        try:
            batch = self.packed(learning)
            self.memory.begin(batch, self.settings)
        except MemoryError:
            return None
        return batch

    def _give_back(self, batch: ground.Batch | None) -> None:
        """Give back what memory a world took that there was not enough for, and its weights."""
        if batch is not None:
            self.weights.cut(*self.memory.out.begun.tolist())
        self.memory.allocate()

    def _number_again(
        self, worlds: Sequence[World], known: Mapping[str, int], learning: bool
    ) -> None:
        """Let the stream have the constants of these worlds, and of none that were packed after them."""
        self.packer.forget(known)
        for world in worlds:
            self.packer.add(world.example, world.place)
        self.packer.batch(learning)
        self.packer.clear()

    def _add(self, item: Example | Answered, place: int) -> None:
        """Pack an example, and note what was given out for it."""
        self.packer.add(item.example if isinstance(item, Answered) else item, place)
        if isinstance(item, Answered):
            self.served[len(self.packer) - 1] = item.prediction

    def _run(
        self, batch: ground.Batch, worlds: Sequence[World], learning: bool
    ) -> tuple[int, bool]:
        """Take worlds in turn; returns how many, and whether there was the memory for them.

        They are fewer where there was not, or where a signal asked to stop.
        """
        external = self._external(len(worlds))
        w, begun = 0, self.memory.out.begun
        begun[:] = self.weights.arrays.size
        with suppress(Interrupted):
            while w < len(worlds):
                w, code = self._call(batch, w, external, learning)
                if code == k.STOPPED:
                    break
                if code not in (k.OVER_LIMIT, ground.OK):
                    if not self._helped(batch, w, code, external, learning):
                        return w, False
                    if code != k.EXTERNAL:
                        continue
                w += 1
                if len(self.weights) > self.settings.max_weights:
                    self.weights.drop_least(self.settings.max_weights)
                begun[:] = self.weights.arrays.size
        return min(w, len(worlds)), True

    def _helped(
        self, batch: ground.Batch, w: int, code: int, external: network.Bytes, learning: bool
    ) -> bool:
        """Do what the kernel has stopped for; False: there is not the memory."""
        updates = self.weights.updates
        try:
            if code == k.AUDIT:
                self._audit(w)
                external[w] = self._route()
            elif code == k.EXTERNAL:
                with self._timing(w):
                    self._solve_outside(batch, w, learning)
            else:
                self.memory.grow(code)
        except MemoryError:
            if self.weights.updates > updates:
                raise
            return False
        return True

    def _timing(self, w: int) -> AbstractContextManager[None]:
        """Time what is done for the world that the kernel has just prepared."""
        net, out = self.memory.net, self.memory.out
        atoms = int(np.sum(net.fixed[: net.size[network.ATOMS]] == network.OPEN))

        def route() -> str:
            return ROUTES[int(out.route[w])] if out.status[w] == ground.OK else "unsolved"

        return self.slowest.timing(self.packer.worlds[w].example.id, atoms, route)

    def _call(
        self, batch: ground.Batch, first: int, external: network.Bytes, learning: bool
    ) -> tuple[int, int]:
        stopped: tuple[int, int] = k.run_batch(
            self.weights.plans,
            batch,
            first,
            external,
            self.memory.net,
            self.memory.scratch,
            self.memory.structure,
            self.memory.state,
            self.weights.arrays,
            self.settings,
            learning,
            self.memory.out,
        )
        return stopped

    def _route(self) -> int:
        """Return EXTERNAL where inference is never the kernel's, else 0."""
        inside = self.inference.presolve and self.inference.marginals is None
        return 0 if inside else k.EXTERNAL

    def _external(self, worlds: int) -> network.Bytes:
        """Mark the worlds that are audited, and those whose inference is not the kernel's."""
        external = np.full(worlds, self._route(), np.uint8)
        every = self.inference.audit_every
        if every:
            external[(self.seen + 1 + np.arange(worlds)) % every == 0] = k.AUDIT
            external[list(self.served)] = self._route()  # nothing is predicted that an audit checks
        return external

    # inference outside the kernel ------------------------------------------------------------

    def _solve_outside(self, batch: ground.Batch, w: int, learning: bool) -> None:
        """Predict and learn from the world that the kernel has just prepared."""
        with leavable():
            model, used = clause_model(self.memory.net)
        try:
            if self._predict_outside(batch, w, model, used) and learning and batch.labelled[w]:
                self._learn_outside(model, used, w)
        except Infeasible:
            self.memory.out.status[w] = k.INFEASIBLE

    def _predict_outside(
        self, batch: ground.Batch, w: int, model: ClauseModel, used: Indices
    ) -> bool:
        """Predict a world, unless it has been; False: it is left unsolved."""
        route, memory = k.ILP, self.memory
        if w not in self.served:
            weights = self._current(used, *k.mean(self.weights.arrays))
            if self.inference.marginals is not None:
                predicted = self._likeliest(batch, w, model, weights, self.inference.marginals)
            else:
                predicted = self._solve(w, model, weights)
            if predicted is None:
                return False
            memory.state.predicted[: model.n_atoms] = predicted.state
            if predicted.certified:
                self._margin(model, used, predicted, w)
            else:
                self.unproven.add(w)
            numbers = {name: number for number, name in ROUTES.items()}
            route = numbers.get(predicted.route, k.ELIMINATION)
        while not k.record(
            self.weights.plans,
            batch,
            w,
            memory.net,
            memory.scratch,
            memory.state,
            self.weights.arrays,
            self.settings,
            route,
            memory.out,
        ):
            memory.grow(k.GROW_OUTPUT)
        return True

    def _likeliest(
        self,
        batch: ground.Batch,
        w: int,
        model: ClauseModel,
        weights: Floats,
        engine: MarginalEngine,
    ) -> Solution | None:
        """Predict each atom, or group, by its likeliest value; None: no state was found to start from."""
        try:
            with leavable():
                marginals = engine.marginals(model, weights)
        except Unsolved:
            self.unsolved.add(w)
            self.memory.out.status[w] = UNSOLVED
            return None
        net = self.memory.net
        state = _values(model, marginals.probability)
        network.define(net, state)
        values = np.round(marginals.probability, 6).tolist()
        if marginals.diagnostics is not None:
            self.diagnostics[w] = marginals.diagnostics
        self.marginals[w] = {
            name: [
                ValuedAtom(args, values[n])
                for n, args in enumerate(atoms, first)
                if net.fixed[n] == network.OPEN
            ]
            for name, first, atoms in self._atoms(batch, w)
        }
        return Solution(state, 0.0, math.inf, "mcsat", certified=False)

    def _add_marginals(self, prediction: Prediction, w: int) -> None:
        """Say the marginals of a world, and how far to trust them where they were sampled."""
        prediction.marginals = self.marginals[w]
        if w in self.diagnostics:
            prediction.r_hat = round(self.diagnostics[w].largest_r_hat, 4)
            prediction.ess = round(self.diagnostics[w].least_ess, 1)

    def _solve(
        self, w: int, model: ClauseModel, weights: Floats, bonus: Floats | None = None
    ) -> Solution | None:
        """Solve a world, or fall back; None, with the world's status set, where it is left."""
        whole = self.inference.proven and not self.inference.presolve
        engine = self.inference.whole if whole else self.inference.exact
        fallback = self.inference.fallback
        try:
            with leavable():
                found = engine.solve(model, weights, bonus=bonus)
            if found.certified or not self.inference.proven:
                return found
        except Unsolved:
            found = None
        self.unsolved.add(w)
        if fallback is not None:
            with suppress(Unsolved), leavable():
                return found or fallback.solve(model, weights, bonus=bonus)
        self.memory.out.status[w] = UNSOLVED
        return None

    def _current(self, used: Indices, cu: float, cv: float) -> Floats:
        value = self.weights.arrays.value[used]
        return value[:, 0] + cu * value[:, 1] + cv * value[:, 2]

    def _learn_outside(self, model: ClauseModel, used: Indices, w: int) -> None:
        arrays, settings = self.weights.arrays, self.settings
        k.set_bonus(self.memory.net, self.memory.state, settings.augmented)
        scale = updates.scale(settings.rule, self.weights.updates + 1)
        bonus = self.memory.state.bonus[: model.n_atoms].copy()
        rival = self._solve(w, model, self._current(used, scale, 0.0), bonus)
        if rival is None or not (rival.certified or not self.inference.proven):
            return
        self.memory.state.rival[: model.n_atoms] = rival.state
        self.memory.out.loss[w] = k.learn_world(
            self.memory.net, arrays, self.memory.state.truth, self.memory.state.rival, settings
        )
        if math.isnan(self.memory.out.loss[w]):
            self.memory.out.status[w] = k.OVERFLOW

    def _audit(self, w: int) -> None:
        """Solve a world whole by the ILP, with the averaged weights; see ``_check_audits``."""
        with leavable():
            model, used = clause_model(self.memory.net)
        mean, none = k.mean(self.weights.arrays), np.zeros(self.memory.net.size[0], np.uint8)
        weights = self._current(used, *mean)
        constant = network.soft_score(self.memory.net, none, self.weights.arrays.value, *mean)
        try:
            with leavable():
                whole = self.inference.whole.solve(model, weights)
        except Infeasible:
            self.audits[w] = -math.inf
        except Unsolved:
            return
        else:
            if whole.certified:
                self.audits[w] = whole.score + constant - model.score(none, weights)

    def _check_audits(self, worlds: Sequence[World]) -> None:
        """Compare the values that the worlds got with those of the ILP. Raises AuditError."""
        out = self.memory.out
        for w, value in self.audits.items():
            found = float(out.score[w]) if out.status[w] == ground.OK else -math.inf
            if not math.isclose(found, value, rel_tol=AUDIT_TOLERANCE, abs_tol=AUDIT_TOLERANCE):
                raise AuditError(
                    f"audit of example {worlds[w].example.id}: {ROUTES[int(out.route[w])]} "
                    f"gives {found!r}, the whole ILP {value!r}"
                )

    def _margin(self, model: ClauseModel, used: Indices, best: Solution, w: int) -> None:
        if self.settings.margins:
            weights = self._current(used, *k.mean(self.weights.arrays))
            with suppress(Unsolved), leavable():
                second = self.inference.whole.second_best(model, weights, best.state)
                if second is not None:
                    self.memory.out.margin[w] = best.score - second.score

    # certificate and checkpoint ----------------------------------------------------------------

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value D_T and the bound it gives on the regret.

        CDA2, subgradient: an upper bound on the regret. CDA1: on the excess of the summed loss over
        the least regularised one. None for MIRA and the perceptron, and once weights were dropped. Of
        rivals that need not be proven the loss is too low, so that there is no bound.
        """
        scalar, rule = self.weights.arrays.scalar, self.settings.rule
        t, sigma = float(scalar[k.T]), self.settings.sigma
        loss = float(scalar[k.LOSS]) / t if t else None
        if rule in (updates.MIRA, updates.PERCEPTRON) or self.weights.dropped or not t:
            return {"loss": loss, "dual": None, "regret_bound": None}
        scale = sigma / (2.0 * t) if updates.shrinks(rule) else sigma / 2.0
        dual = float(scalar[k.DUAL]) - scale * float(scalar[k.NORM])
        bound = float(scalar[k.PRIMAL]) - dual if self.inference.proven else None
        return {"loss": loss, "dual": dual, "regret_bound": bound}

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        self._forget()
        header, arrays = self.weights.save()
        return {**header, "seen": self.seen, "shown": self.packer.shown()}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Go on from what ``save`` returned, bit for bit."""
        self.weights.restore(header, arrays)
        self.packer.set_stream(self.weights.stream)
        self.packer.set_shown(header.get("shown", {}))
        self.seen = header["seen"]

    def _forget(self) -> None:
        """Forget the constants of weights that were dropped."""
        if self.weights.dropped:
            self.weights.forget_constants(self.packer.shown())
            self.packer.set_stream(self.weights.stream)


def _predicted(outcomes: Sequence[Outcome]) -> Prediction | None:
    """Return the prediction of the only example, if it was taken and is good."""
    return outcomes[0].prediction if outcomes else None


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


def _rank(prediction: Prediction, example: Example, ranking: dict[str, Ranking]) -> None:
    """Count the probabilities of the true and of the false atoms, by predicate, where both are known."""
    if prediction.marginals is None or example.truth is None:
        return
    for name, atoms in prediction.marginals.items():
        true = {
            tuple(map(str, arguments(atom)))
            for atom in example.truth.get(name, ())
            if not isinstance(atom, ValuedAtom) or atom.value
        }
        scores = np.array([atom.value for atom in atoms], np.float64)
        is_true = np.array([tuple(map(str, atom.args)) in true for atom in atoms], np.bool_)
        ranking.setdefault(name, Ranking()).add(scores, is_true)
