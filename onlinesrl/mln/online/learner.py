"""The online learner of Markov logic: it predicts each example, then learns from it, one at a time.

The averaged weights predict an example before its truth is used; then the weights are updated.
Micro-batches only share the overhead of a call: results are bit-equal for every batch size.
"""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import add
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from onlinesrl.core.arrays import Bytes, Floats
from onlinesrl.core.background import Background
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Atom, Atoms, Constant, Example, decode, decoded
from onlinesrl.core.explain.counterfactual import DEFAULTS, CounterfactualQuery
from onlinesrl.core.explain.explanation import Explanation
from onlinesrl.core.io.restoring import Natural, converted
from onlinesrl.core.learner import Answered, Estimate, Item, Outcome, Prediction, Tally, heaviest
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.core.online.reservoir import NO_DUAL, Held, Reservoir, line_of
from onlinesrl.core.online.temperature import scaled_by
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.logic.ast import Program
from onlinesrl.mln.explain.explanation import explain, least_certain, words_of
from onlinesrl.mln.explain.predicted_world import Predictor
from onlinesrl.mln.ground.advice import largest, undeclared
from onlinesrl.mln.ground.constant_index import News
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.join_planner import Plan
from onlinesrl.mln.ground.json_line_reader import NumberedExample
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels.ground_network import Network
from onlinesrl.mln.kernels.weight_lookup import gap
from onlinesrl.mln.lang import weight_file as weight_files
from onlinesrl.mln.online import merging
from onlinesrl.mln.online.atom_counts import AtomCounter
from onlinesrl.mln.online.example_step import ExampleProcessor, check_audits
from onlinesrl.mln.online.reporting import Reporter
from onlinesrl.mln.online.weight_table import WeightTable
from onlinesrl.mln.query.ground_formulas import FormulaQuery


class _Saved(msgspec.Struct):
    """The header of a checkpoint, without the header of the weights."""

    seen: Natural
    shown: dict[str, list[Constant]] = {}


class MlnOnlineLearner:
    """The learner of the weights of a model; ``step`` processes a micro-batch.

    The facts of ``background`` are evidence of all worlds.
    """

    valued = False

    def __init__(
        self,
        plan: Plan,
        update: Update,
        inference: Inference,
        by: tuple[str, int] | None = None,
        margins: bool = False,
        background: Background | None = None,
    ):
        self.layout = Layout(plan)
        self.update = update
        self.inference = inference
        self.weights = WeightTable(self.layout, update)
        self.grounder = Grounder(self.layout, self.weights.stream, inference.limits, background)
        self.packer = self.grounder.packer
        counter = AtomCounter(self.grounder, by)
        self.worlds = ExampleProcessor(self.grounder, self.weights, inference, counter, margins)
        self.temperature = self.worlds.temperature
        self.slowest = self.worlds.slowest
        self.reporter = Reporter(self.grounder, counter, self.worlds.sets, inference.best)
        self.reservoir = None if update.replay is None else Reservoir(update.replay, inference.seed)
        self.exclusive = {name: group.arguments for name, group in plan.groups.items()}
        self.seen = 0

    @property
    def model_text(self) -> str:
        """The text of the model and of the files that it includes."""
        return self.layout.plan.program.text

    def describe(self) -> str:
        """Return the size of the model in words."""
        plan, full = self.layout.plan, self.weights.update.slots
        covariance = (
            f"; covariances of up to {full:,} weights take {8e-6 * full**2:,.1f} MB" if full else ""
        )
        return (
            f"{len(plan.program.rules)} rules, {len(plan.clauses)} clauses to ground, "
            f"{len(plan.groups)} groups{covariance}"
        )

    def compile(self) -> float:
        """Compile the kernels, or load them from the cache; return the duration in seconds."""
        started = time.perf_counter()
        self.packer.clear()
        self.packer.lines.read(b"{}")
        self.worlds.compile()
        return time.perf_counter() - started

    def start(self, program: Program) -> list[str]:
        """Set starting weights from a weight file; return a message for each line that fits no rule."""
        matched = weight_files.read(self.weights.clauses, program)
        for clause, key, weight in matched.entries:
            self.weights.set(clause, key, weight)
        self.packer.set_shown(program.types)
        return [
            f"line {lost.position.line}: no rule of the model fits `{lost.text}` ({lost.rows} weights)"
            for lost in matched.unmatched
        ]

    def weights_text(self, averaged: str, by: str) -> str:
        """Return the text of a weight file, the most influential weights first."""
        weighted = [c for c in self.weights.clauses if c.template and c.weight]
        all_entries, known = [*self.weights.entries()], {*map(id, weighted)}
        zeros = (e for e in all_entries if not e.uses and not e.weight and id(e.clause) in known)
        entries = [*heaviest(all_entries), *zeros]
        header = f"{averaged}, most influential first.\n{len(entries)} weights; written by {by}."
        text = io.StringIO()
        rows = ((e.clause, e.key, e.weight) for e in entries)
        program, constants = self.layout.plan.program, self.packer.shown()
        types = {t: (*names, *map(str, constants.get(t, ()))) for t, names in program.types.items()}
        declared = dataclasses.replace(program, types=types)
        weight_files.write(declared, rows, text, header, weighted)
        return text.getvalue()

    def advice(self, examples: Sequence[Example]) -> list[str]:
        """Return advice: types to declare, and the rules with the most ground clauses."""
        sizes = []
        for example in examples:
            with suppress(ExampleError):
                sizes.append(self.grounder.rule_sizes(example))
        messages = undeclared(self.layout, examples, self.packer.background)
        return [*messages, *largest(self.layout.plan, sizes)]

    def complaints(self) -> list[str]:
        """See ``Learner.complaints``."""
        return []

    def words(self, evidence: Atoms) -> dict[str, str]:
        """Return a readable word for each constant of a query type.

        The words come from an evidence relation to a type that only names things.
        """
        return words_of(self.layout, evidence)

    def predict(
        self, items: Sequence[Item], marginals: bool = False, best: int | None = None
    ) -> list[Outcome]:
        """Predict with margins between two steps, without any effect on learning."""
        with self.worlds.asking(marginals, best):
            return self._outcomes(items)

    def _outcomes(self, items: Sequence[Item]) -> list[Outcome]:
        """Predict without any effect on learning."""
        seen = self.seen
        try:
            return self.step(items, learning=False)[0]
        finally:
            self.seen = seen

    def explain(
        self, example: Example, atom: Atom | None = None, query: CounterfactualQuery = DEFAULTS
    ) -> Explanation:
        """See ``Learner.explain``."""
        explanation = explain(self._predictor(), example, atom, query)
        if self.temperature is None:
            return explanation
        note = scaled_by(self.temperature.value)
        return dataclasses.replace(explanation, notes=(*explanation.notes, note))

    def least_certain(self, example: Example, most: int) -> list[Atom]:
        """See ``Learner.least_certain``."""
        return least_certain(self._predictor(), example, most)

    def probabilities(
        self, example: Example, formulas: Sequence[str], given: Sequence[str] = ()
    ) -> dict[str, Estimate]:
        """See ``Learner.probabilities``."""
        before = self.worlds.formulas
        program = self.layout.plan.program
        self.worlds.formulas = FormulaQuery.of_examples(program, formulas, given)
        try:
            (outcome,) = self.predict([replace(example, truth=None)], marginals=True)
        finally:
            self.worlds.formulas = before
        if outcome.prediction is None:
            raise ExampleError(outcome.error or "it cannot be predicted")
        return {**(outcome.prediction.formulas or {})}

    def _predictor(self) -> Predictor:
        """Return the predictor of explanations; it uses the averaged weights."""

        def averaged(net: Network) -> Floats:
            self.weights.number(net, learning=False)
            return self.weights.of(net, averaged=True).copy()

        def variance(net: Network, state: Bytes, other: Bytes) -> float:
            if not self.update.covers:
                return 0.0
            n, _ = gap(net, self.weights.arrays, state, other, np.ones(len(state)))
            return self.weights.gap_variance(n)

        return Predictor(
            self.grounder, self.weights, self.inference, self._outcomes, averaged, variance
        )

    def decode(self, line: bytes) -> Example:
        """See ``Learner.decode``."""
        return self.packer.lines.read(line) or decode(line)

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        """See ``Learner.decode_all``."""
        examples = self.packer.lines.read_all(lines)
        return [example or decoded(line) for example, line in zip(examples, lines, strict=True)]

    # the step ------------------------------------------------------------------------------

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        """See ``Learner.step``."""
        if self.reservoir is None or not learning:
            return self._part(items, learning)
        return _joined(self._replaying(items, self.reservoir))

    def _replaying(
        self, items: Sequence[Item], reservoir: Reservoir
    ) -> Iterator[tuple[list[Outcome], Tally]]:
        """Process items, and after each that is learned from, learn again from earlier examples."""
        first = 0
        for place, item in enumerate(items):
            example = item.example if isinstance(item, Answered) else item
            if isinstance(example, ExampleError) or not example.labelled:
                continue
            updates, self.weights.dual_block = self.weights.updates, NO_DUAL
            yield self._part(items[first : place + 1], learning=True)
            first = place + 1
            if self.weights.updates > updates:
                self._learn_again(example, reservoir)
        if first < len(items) or not items:
            yield self._part(items[first:], learning=True)

    def _learn_again(self, example: Example, reservoir: Reservoir) -> None:
        """Learn again from examples of the reservoir, then offer it the one that was learned from last."""
        line = example.line if isinstance(example, NumberedExample) else line_of(example)
        new, places = Held(line, self.weights.dual_block), reservoir.drawn()
        try:
            self._pack(self.decode_all([reservoir.held[place].line for place in places]))
            worlds = self.packer.worlds
            self.worlds.begin(self.grounder.batch(learning=True), worlds, {}, again=True)
            for w, world in enumerate(worlds):
                place = places[world.place]
                held = reservoir.held[place]
                self.weights.dual_block = held.block
                if self.worlds.learn_again(w):
                    reservoir.put(place, held._replace(block=self.weights.dual_block))
        finally:
            self.packer.clear()
        if self.weights.enforce_limit():
            self._forget()
        reservoir.offer(new)

    def _part(self, items: Sequence[Item], learning: bool) -> tuple[list[Outcome], Tally]:
        """Process examples in turn; one with new constants of open types forms its own batch."""
        if not self.layout.open:
            return self._step(items, learning)
        first, parts = 0, []
        for place, item in enumerate(items):
            if isinstance(item, ExampleError):
                continue
            news = self.packer.news(item.example if isinstance(item, Answered) else item)
            if news.constants:
                parts.append(self._step(items[first:place], learning))
                parts.append(self._first_sight(item, news, learning))
                first = place + 1
        parts.append(self._step(items[first:], learning))
        return _joined(parts)

    def _first_sight(
        self, item: Example | Answered, news: News, learning: bool
    ) -> tuple[list[Outcome], Tally]:
        """Process an example with new constants; later worlds have them too if learning succeeds.

        If only the truth has new constants, the prediction is made without them. Scoring and learning
        include them.
        """
        if not news.hidden:
            outcomes, tally = self._step([item], learning)
            labelled = isinstance(item, Answered) or item.truth is not None
            if learning and labelled and outcomes[0].prediction is not None:
                self.packer.share(news.constants, learning)
            return outcomes, tally
        predicted = None
        if isinstance(item, Example):
            blind, predicted = self._step([replace(item, truth=None)], learning=False)
            if (prediction := blind[0].prediction) is None:
                return blind, predicted
            item = Answered(item, prediction)
        constants, stay = self.packer.shown(), False
        self.packer.share(news.constants, learning)
        try:
            outcomes, tally = self._step([item], learning)
            if outcomes[0].prediction is not None:
                stay = learning
                tally = tally if predicted is None else predicted + tally
        finally:
            if not stay:
                self.packer.set_shown(constants)
        return outcomes, tally

    def _step(self, items: Sequence[Item], learning: bool) -> tuple[list[Outcome], Tally]:
        """Process examples in turn; no example may need the new constants of an earlier one."""
        dropped = self.weights.dropped
        try:
            refused, answered = self._pack(items)
            worlds = self.packer.worlds
            results = self.worlds.begin(self.grounder.batch(learning), worlds, answered)
            self.worlds.process(self.seen, learning)
            check_audits(results)
            processed = self.reporter.outcomes(results, learning)
            kinds = [kind for _, kind in refused.values()]
            tally = self.reporter.tally(results, processed, kinds)
        finally:
            self.packer.clear()
        self.seen += len(worlds)
        if self.weights.dropped > dropped:
            self._forget()
        outcomes = {place: Outcome(None, reason) for place, (reason, _) in refused.items()}
        outcomes |= {world.place: outcome for world, outcome in zip(worlds, processed, strict=True)}
        return [outcomes[place] for place in range(len(items))], tally

    def _pack(
        self, items: Sequence[Item]
    ) -> tuple[dict[int, tuple[str, str]], dict[int, Prediction]]:
        """Pack the good examples.

        Returns why the others are bad, and the kinds of their errors, by place; and earlier predictions by
        world.
        """
        refused, answered = dict[int, tuple[str, str]](), dict[int, Prediction]()
        self.packer.clear()  # of an example that was explained
        for place, item in enumerate(items):
            try:
                if isinstance(item, ExampleError):
                    raise item
                self.packer.add(item.example if isinstance(item, Answered) else item, place)
            except ExampleError as error:  # which holds the example, and is not kept
                refused[place] = str(error), error.kind
            else:
                if isinstance(item, Answered):
                    answered[len(self.packer) - 1] = item.prediction
        return refused, answered

    # certificate and checkpoint ----------------------------------------------------------------

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value D_T and the regret bound that follows from D_T.

        There is no bound if rivals need not be proven optimal, because the loss may then be too low.
        """
        certificate = self.weights.certificate()
        if self.temperature is not None:
            certificate["temperature"] = self.temperature.value
        return certificate if self.inference.proven else {**certificate, "regret_bound": None}

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the header and the arrays of a checkpoint."""
        self._forget()
        header, arrays = self.weights.save()
        header |= {"seen": self.seen, "shown": self.packer.shown()}
        if self.reservoir is not None:
            header["replay"], examples = self.reservoir.save()
            arrays |= examples
        return header | {name: part.save() for name, part in self.worlds.counted.items()}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Restore the state that ``save`` returned, bit for bit. Raises Misfit."""
        saved = converted(header, _Saved)
        self.weights.restore(header, arrays)
        if self.reservoir is not None:
            self.reservoir.restore(header.get("replay"), arrays, len(self.weights))
        self.packer.set_stream(self.weights.stream)
        self.packer.set_shown(saved.shown)
        self.seen = saved.seen
        for name, part in self.worlds.counted.items():
            part.restore(header.get(name, {}))

    def gain(self, start: State) -> merging.Gain:
        """See ``Mergeable.gain``."""
        parts = self.worlds.counted.items()
        counted = {name: part.since(start[0].get(name, {})) for name, part in parts}
        gained = merging.gain(self.weights, self.packer, self.seen, start)
        return dataclasses.replace(gained, counted=counted)

    def merge(self, gains: Sequence[merging.Gain], by_dual: bool) -> float:
        """See ``Mergeable.merge``."""
        self.seen += sum(gain.seen for gain in gains)
        for name, part in self.worlds.counted.items():
            part.merge([gain.counted[name] for gain in gains])
        return merging.merge(self.weights, self.packer, gains, by_dual)

    def _forget(self) -> None:
        """Forget the constants of dropped weights."""
        if self.weights.dropped:
            self.weights.forget_constants(self.packer.shown())
            self.packer.set_stream(self.weights.stream)


def _joined(parts: Iterable[tuple[list[Outcome], Tally]]) -> tuple[list[Outcome], Tally]:
    """Return the outcomes, and the counts, of all parts."""
    outcomes, tallies = zip(*parts, strict=True)
    return [outcome for part in outcomes for outcome in part], reduce(add, tallies)
