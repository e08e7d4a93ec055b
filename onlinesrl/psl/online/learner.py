"""The online learner of PSL programs: as ``mln.online.learner``, with truth values in [0, 1].

The score of values y is minus their energy, its features are -Phi(y) (Bach et al. 2015, equation 1),
and the label loss is L1. The rival maximises score, with loss ``ml`` loss + score. Where the truth t
is neither 0 nor 1, |y - t| is not concave; the rival is then found with its chord t + (1 - 2 t) y,
which is nowhere below it on [0, 1], and the update takes the true loss at this rival: the cut that
any rival gives is a valid one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Bools, Floats
from onlinesrl.core.background import Background
from onlinesrl.core.errors import CONTINUOUS, ExampleError, Infeasible, ModelError, UsageError
from onlinesrl.core.evaluation.class_balance import BALANCED, LABELS, ClassBalance
from onlinesrl.core.evaluation.label_loss import Costs
from onlinesrl.core.evaluation.prequential import known_sum, ratio
from onlinesrl.core.example import Atom, Atoms, Example, decode, decoded, show_ground_atom
from onlinesrl.core.explain.counterfactual import DEFAULTS, CounterfactualQuery
from onlinesrl.core.explain.explanation import Explanation
from onlinesrl.core.io.restoring import converted
from onlinesrl.core.learner import Answered, Estimate, Item, Outcome, Prediction, Tally
from onlinesrl.core.online.averaged_weights import BEYOND_RANGE
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.core.online.reservoir import NO_DUAL, Held, Reservoir, line_of
from onlinesrl.core.online.temperature import Temperature
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.core.timing import Slowest
from onlinesrl.psl.explain.explanation import explain, least_certain
from onlinesrl.psl.ground.form_assembly import GroundingFailure, TooManyRows
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF, clamp, united, with_powers
from onlinesrl.psl.ground.packing import CheckedExample, PslPacker
from onlinesrl.psl.inference.protocols import EachEngine, HingeEngine, HingeSolution
from onlinesrl.psl.kernels.features import measure
from onlinesrl.psl.lang.ast import PslProgram, functional_arguments
from onlinesrl.psl.lang.data import UNMATCHED
from onlinesrl.psl.lang.text import show_program
from onlinesrl.psl.online import merging
from onlinesrl.psl.online.reporting import BatchCounts, copied_prediction, new_prediction
from onlinesrl.psl.online.rule_weights import RuleWeights

TRUTH_VIOLATION = 1e-3
"""How much the truth may violate a hard rule: true values are often rounded."""

ROWS_TOGETHER = 1 << 19
"""The most rows that the joins of examples ground together may have; one alone may have more."""

UNCOMPLETED = "no values of the unlabelled atoms satisfy the hard rules together with the truth"
UNSOLVED = "inference ended after its last round without a proven answer (inference.unsolved)"
VANISHED = (
    "learning drove all weights to 0, so that soft rules no longer count: a larger learner.sigma, or another "
    "learner.update, stays nearer to the weights of the model"
)
KEY_OF_FAILURE = {"limit": "inference.max_groundings", "not_open": "inference.targets"}
"""The configuration key that controls a kind of failure."""


@dataclass(frozen=True)
class PslInference:
    """How energies are minimised, and how large examples may be.

    Where the engine ends without a certificate, the example is bad; or, with ``fallback``, it is
    predicted with the values found and learned from only if its rival is certified. ``skip`` leaves
    out ground rules with an atom that is neither observed nor a target; else an example with such a rule
    is bad.
    """

    engine: HingeEngine
    fallback: bool = True
    skip: bool = False
    max_groundings: int = 1_000_000
    max_atoms: int = 1_000_000


class _Ground(NamedTuple):
    """The ground rules of a world, how many were left out, and its values where these are known."""

    graph: HingeLossMRF
    skipped: int
    predicted: HingeSolution | None


class _Labelled(NamedTuple):
    """The truth of a world's targets, Phi of it, and the costs of each, [target, (EXTRA, MISSED)].

    Unlabelled targets have their completed values, and cost nothing; ``labelled`` are the others.
    """

    truth: Floats
    features: Floats
    cost: Floats
    labelled: Bools


class PslOnlineLearner:
    """Owns the weights of a PSL program's rules; ``step`` takes a micro-batch.

    ``query`` are the predicates that have targets; ``by`` is the one of them, and the place of the
    argument, whose values are counted one by one. Every example has the facts of ``background``, too.
    """

    valued = True
    exclusive: ClassVar[Mapping[str, Sequence[int]]] = {}
    temperature: Temperature | None = None

    def __init__(
        self,
        program: PslProgram,
        query: Sequence[str],
        update: Update,
        inference: PslInference,
        by: tuple[str, int] | None = None,
        background: Background | None = None,
        seed: int = 0,
    ):
        self.program = program
        self.update = update
        self.reservoir = None if update.replay is None else Reservoir(update.replay, seed)
        self.slowest = Slowest()
        self.inference = inference
        self.by = by
        self.weights = RuleWeights(program, update)
        self.costs = Costs(update.costs or {}, {name: program.predicates[name] for name in query})
        self.balance = ClassBalance() if update.costs == BALANCED else None
        self.packer = PslPacker(program.predicates, query, inference.max_atoms, background)
        self.grounder = Grounder(program, most=inference.max_groundings, skip=inference.skip)
        self.functional = functional_arguments(program)
        self.unmatched = self.grounder.constants
        """The constants of rules that no example has had."""
        self.seen = 0

    @property
    def model_text(self) -> str:
        """The program as text; parsing it gives the same program."""
        return show_program(self.program)

    def describe(self) -> str:
        """Describe the size of the model."""
        return f"{len(self.program.rules)} rules, {len(self.weights)} of them with a weight"

    def start(self, program: PslProgram) -> list[str]:
        """Set starting weights from a file of weights; returns what does not fit the model."""
        return [
            f"line {lost.position.line}: no rule of the model fits `{lost.text}`"
            for lost in self.weights.start(program)
        ]

    def weights_text(self, averaged: str, by: str) -> str:
        """Return a file of weights: the program, its rules in their order."""
        return f"// {averaged}; written by {by}.\n\n" + show_program(self.weights.trained())

    def advice(self, examples: Sequence[Example]) -> list[str]:
        """Return none: ground rules are not counted per rule."""
        return []

    def complaints(self) -> list[str]:
        """See ``Learner.complaints``."""
        complaints = [UNMATCHED.format(name, "examples") for name in sorted(self.unmatched)]
        return complaints + ([VANISHED] if self.weights.vanished else [])

    def words(self, evidence: Atoms) -> dict[str, str]:
        """Return none: PSL has no types."""
        return {}

    def explain(
        self, example: Example, atom: Atom | None = None, query: CounterfactualQuery = DEFAULTS
    ) -> Explanation:
        """See ``Learner.explain``."""
        return explain(self, example, atom, query)

    def least_certain(self, example: Example, most: int) -> list[Atom]:
        """See ``Learner.least_certain``: those with values nearest to 1/2."""
        return least_certain(self, example, most)

    def solved(self, example: Example) -> tuple[CheckedExample, HingeLossMRF, HingeSolution]:
        """Return an example, its model, and its values by the averaged weights.

        Raises ExampleError for a bad example.
        """
        checked = self.packer.world(example)
        model = self.ground_model(checked)
        return checked, model, self._solve(model, self.weights.averaged())

    def ground_model(self, checked: CheckedExample) -> HingeLossMRF:
        """Return the model of one example. Raises ExampleError where it cannot be grounded."""
        (ground,) = self._ground([checked], learning=True)
        if isinstance(ground, ExampleError):
            raise ground
        return ground.graph

    def compile(self) -> float:
        """Compile the kernels, or load them from the cache; returns the seconds it took."""
        started = time.perf_counter()
        atoms: Atoms = {name: [["0"] * arity] for name, arity in self.packer.arities.items()}
        query = {name: atoms.pop(name) for name in self.packer.query}
        example = Example(id=0, evidence=atoms, query=query)
        self._ground([self.packer.world(example)], learning=True)
        model = with_powers(united(1, []), 0, 2)
        self.inference.engine.solve(model, np.ones(1))
        self._features(model, np.ones(1))
        return time.perf_counter() - started

    def probabilities(
        self, example: Example, formulas: Sequence[str], given: Sequence[str] = ()
    ) -> dict[str, Estimate]:
        """See ``Learner.probabilities``."""
        raise UsageError(
            "formulas: PSL predicts truth values, and has no probabilities of formulas"
        )

    def predict(
        self, items: Sequence[Item], marginals: bool = False, best: int | None = None
    ) -> list[Outcome]:
        """Predict between two steps; this does not change what is learned."""
        if marginals:
            raise UsageError("PSL predicts truth values, and has no marginal probabilities")
        if best is not None:
            raise UsageError(f"best: {CONTINUOUS}")
        return self.step(items, learning=False)[0]

    def decode(self, line: bytes) -> Example:
        """See ``Learner.decode``."""
        return decode(line)

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        """See ``Learner.decode_all``."""
        return [*map(decoded, lines)]

    # the step ------------------------------------------------------------------------------------

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        """Predict, and learn from, each example in turn; one that is Answered is not predicted again."""
        batch = BatchCounts(self.by, self.functional)
        checked_items = [*map(self._checked, items)]
        worlds = [world for world in checked_items if isinstance(world, CheckedExample)]
        for checked in worlds if learning and self.unmatched else ():
            for constants in chain(*checked.observed.values(), *checked.targets.values()):
                self.unmatched.difference_update(constants)
        graphs = iter(self._ground(worlds, learning))
        outcomes: list[Outcome] = []
        for item, world in zip(items, checked_items, strict=True):
            served = item.prediction if isinstance(item, Answered) else None
            updates, self.weights.dual_block = self.weights.updates, NO_DUAL
            try:
                if isinstance(world, ExampleError):
                    raise world
                outcomes.append(self._take(world, next(graphs), batch, learning, served))
            except ExampleError as error:
                batch.tally.errors[error.kind] += 1
                batch.tally.unsolved += error.kind == "unsolved"
                outcomes.append(Outcome(None, str(error), error.kind == "unsolved"))
            if self.reservoir is not None and self.weights.updates > updates:
                assert not isinstance(item, ExampleError)
                example = item.example if isinstance(item, Answered) else item
                self._learn_again(example, self.reservoir)
        return outcomes, batch.complete()

    def _checked(self, item: Item) -> CheckedExample | ExampleError:
        try:
            if isinstance(item, ExampleError):
                raise item
            return self.packer.world(item.example if isinstance(item, Answered) else item)
        except ExampleError as error:
            return error

    def _learn_again(self, example: Example, reservoir: Reservoir) -> None:
        """Learn again from examples of the reservoir, then offer it the one that was learned from last."""
        new, places = Held(line_of(example), self.weights.dual_block), reservoir.drawn()
        worlds = [self.packer.world(decode(reservoir.held[place].line)) for place in places]
        grounds = self._ground(worlds, learning=True)
        for place, checked, ground in zip(places, worlds, grounds, strict=True):
            held = reservoir.held[place]
            self.weights.dual_block = held.block
            with suppress(ExampleError):
                if isinstance(ground, ExampleError):
                    raise ground
                labelled = self._labelled(checked, ground.graph, learning=True)
                if labelled is not None:
                    self._learn(ground.graph, labelled, None)
                    reservoir.put(place, held._replace(block=self.weights.dual_block))
        reservoir.offer(new)

    def _ground(
        self, worlds: Sequence[CheckedExample], learning: bool
    ) -> list[_Ground | ExampleError]:
        """Ground worlds together, or in halves where that is too much; return their models, or what is wrong.

        Where nothing is learned between them, they are also predicted in one call, if the engine has one.
        """
        if not worlds:
            return []
        database, query = self.packer.database(worlds), self.packer.query
        try:
            grounded = self.grounder.ground_worlds(database, len(worlds), query, ROWS_TOGETHER)
        except (ModelError, TooManyRows) as error:
            if (half := len(worlds) // 2) > 0:
                first, second = (
                    self._ground(part, learning) for part in (worlds[:half], worlds[half:])
                )
                return [*first, *second]
            return [ExampleError(str(getattr(error, "message", error)), "schema")]
        graphs = grounded.graphs
        predicted: Sequence[HingeSolution | None] = [None] * len(worlds)
        if not learning and isinstance(self.inference.engine, EachEngine):
            # a model that the engine does not solve is reported by its own solve, later
            with suppress(ValueError):
                predicted = self.inference.engine.solutions(graphs, self.weights.averaged())
        return [
            self._grounding_error(grounded.failures[n])
            if n in grounded.failures
            else _Ground(graphs.micrograph(n), int(grounded.skipped[n]), predicted[n])
            for n in range(len(worlds))
        ]

    def _grounding_error(self, failure: GroundingFailure) -> ExampleError:
        key = KEY_OF_FAILURE.get(failure.kind)
        message = f"{failure.message} ({key})" if key else failure.message
        return ExampleError(f"{message}: {self.program.rules[failure.rule].text}", failure.kind)

    def _take(
        self,
        checked: CheckedExample,
        ground: _Ground | ExampleError,
        batch: BatchCounts,
        learning: bool,
        served: Prediction | None,
    ) -> Outcome:
        """Predict, and learn from, one example. Raises ExampleError, and then nothing is learned.

        One whose prediction was ``served`` before its truth came is scored by that; a new one is made
        for the search for the rival to start from, so that what is learned does not depend on it.
        """
        if isinstance(ground, ExampleError):
            raise ground
        graph, skipped, predicted = ground
        labelled = self._labelled(checked, graph, learning)
        predicted = predicted or self._solve(graph, self.weights.averaged())
        unsolved = served is None and not self._is_proven(predicted)
        if served is None:
            prediction, units = new_prediction(checked, predicted)
        else:
            prediction, units = copied_prediction(served)
        if learning and labelled is not None:
            unsolved |= not self._learn(graph, labelled, predicted)
            if self.balance is not None:
                for name, labels in _labels(checked):
                    self.balance.add(name, [label for label in labels if label])
        elif learning and checked.truth is not None:
            unsolved = True
        batch.tally.unsolved += bool(unsolved and (served is None or served.certified))
        if served is None:
            batch.tally.skipped += skipped
            batch.tally.routes[predicted.route] += 1
            batch.tally.certified = known_sum(batch.tally.certified, int(predicted.certified))
        batch.score(checked, prediction, units)
        wrong = prediction.hamming
        share = None if wrong is None else ratio(wrong, int(checked.scored.sum()))
        return Outcome(prediction, wrong=share)

    def _solve(
        self,
        graph: HingeLossMRF,
        weights: Floats,
        bonus: Floats | None = None,
        start: HingeSolution | None = None,
        given: str = "",
    ) -> HingeSolution:
        """Return the values of least energy.

        Raises ExampleError, for ``given`` values that break a hard rule with this text.
        """
        try:
            return self.inference.engine.solve(graph, weights, bonus=bonus, start=start)
        except Infeasible:
            if given:
                raise ExampleError(given, "hard_rule") from None
            raise ExampleError("no values satisfy the hard rules", "infeasible") from None
        except ValueError as error:
            raise ExampleError(f"{error} (inference.engine)", "schema") from None

    def _is_proven(self, solution: HingeSolution) -> bool:
        """Return whether a solution is certified. Raises ExampleError where it has to be."""
        if not (solution.certified or self.inference.fallback):
            raise ExampleError(UNSOLVED, "unsolved")
        return solution.certified

    def _learn(
        self, graph: HingeLossMRF, labelled: _Labelled, predicted: HingeSolution | None
    ) -> bool:
        """Infer the rival and make the update; return False, and learn nothing, where it is not certified.

        The search starts from what was ``predicted``; None: the example was learned from before.
        """
        truth, extra, missed = labelled.truth, *labelled.cost.T
        bonus = extra - truth * (extra + missed) if self.update.loss == "ml" else None
        rival = self._solve(graph, self.weights.current(), bonus, predicted)
        if not self._is_proven(rival):
            return False
        delta = self._features(graph, rival.y)[0] - labelled.features
        wrong = np.abs(rival.y - truth) * np.where(rival.y < truth, missed, extra)
        rho = float(np.sum(wrong))
        unweighted = float(np.sum(np.abs(rival.y - truth) * labelled.labelled))
        cost = rho / unweighted if unweighted > 0 else 1.0
        if self.update.label_loss == "f1" and rho > 0:
            rho /= float(np.sum((truth + rival.y)[labelled.labelled]))
        loss = self.weights.learn(rho, delta, cost, again=predicted is None)
        if math.isnan(loss):
            raise ExampleError(BEYOND_RANGE, "overflow")
        return True

    def _labelled(
        self, checked: CheckedExample, graph: HingeLossMRF, learning: bool
    ) -> _Labelled | None:
        """Return the truth, completed if ``learning``; None without labels, or without a proven completion.

        Raises ExampleError where it breaks a hard rule.
        """
        truth, latent = checked.truth, checked.latent
        if truth is None:
            return None
        if latent.any():
            completed = self._complete(graph, truth, latent) if learning else None
            if completed is None:
                return None
            truth = completed
        features, violation, row = self._features(graph, truth)
        if violation > TRUTH_VIOLATION:
            names = [
                show_ground_atom(name, args)
                for name, rows in checked.targets.items()
                for args in rows.values()
            ]
            targets = graph.variable[graph.start[row] : graph.start[row + 1]].tolist()
            atoms = ", ".join(names[target] for target in targets)
            reason = f"the truth breaks a hard rule, by {violation:.3g}, on {atoms}"
            raise ExampleError(reason, "hard_rule")
        costs = [self.costs.of(name, [*rows]) for name, rows in checked.targets.items()]
        if self.balance is not None:
            costs = []
            for name, labels in _labels(checked):
                by_label = self.balance.costs(name, [label for label in labels if label])
                costs.append(np.array([[by_label.get(label, 0.0)] * 2 for label in labels]))
        cost = np.where(latent[:, None], 0.0, np.concatenate(costs))
        return _Labelled(truth, features, cost, ~latent)

    def _complete(self, graph: HingeLossMRF, truth: Floats, latent: Bools) -> Floats | None:
        """Return the truth with the values of least energy for latent targets (Yu & Joachims 2009, eq. 5).

        None where they are not certified, but have to be. Raises ExampleError where there are none.
        """
        beside, weights = clamp(graph, truth, latent), self.weights.current()
        solution = self._solve(beside, weights, given=UNCOMPLETED)
        if not self._is_proven(solution):
            return None
        completed = truth.copy()
        completed[latent] = solution.y
        return completed

    def _features(self, graph: HingeLossMRF, y: Floats) -> tuple[Floats, float, int]:
        """Return Phi(y), float64[rules], the largest violation of a constraint, and its row."""
        features = np.zeros(len(self.weights.base))
        return features, *measure(graph, y, features)

    # certificate and checkpoint ------------------------------------------------------------------

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value and the bound on the regret; see ``RuleWeights``."""
        return self.weights.certificate()

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        header: dict[str, Any] = {"language": "psl"}
        header |= {} if self.balance is None else {"labels": self.balance.save()}
        header |= {"unmatched": sorted(self.unmatched)} if self.unmatched else {}
        arrays = self.weights.save()
        if self.reservoir is not None:
            header["replay"], examples = self.reservoir.save()
            arrays |= examples
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Restore what ``save`` returned, bit for bit. Raises Misfit."""
        self.weights.restore(arrays)
        if self.reservoir is not None:
            self.reservoir.restore(header.get("replay"), arrays, len(self.weights.base))
        if self.balance is not None:
            self.balance.restore(header.get("labels", {}))
        self.unmatched = {*converted(header.get("unmatched", []), list[str])}

    def gain(self, start: State) -> merging.Gain:
        """See ``Mergeable.gain``."""
        gained = {**merging.gain(self.weights, start[1]), "unmatched": sorted(self.unmatched)}
        if self.balance is not None:
            gained["labels"] = self.balance.since(start[0].get("labels", {}))
        return gained

    def merge(self, gains: Sequence[merging.Gain], by_dual: bool) -> float:
        """See ``Mergeable.merge``."""
        self.unmatched = self.unmatched.intersection(*(gain["unmatched"] for gain in gains))
        if self.balance is not None:
            self.balance.merge([gain["labels"] for gain in gains])
        others = ("labels", "unmatched")
        arrays = [{n: x for n, x in gain.items() if n not in others} for gain in gains]
        return merging.merge(self.weights, arrays, by_dual)


def _labels(checked: CheckedExample) -> Iterator[tuple[str, list[str]]]:
    """Yield by predicate the label of each target; "" where its truth is not known."""
    assert checked.truth is not None
    first = 0
    for name, rows in checked.targets.items():
        part = slice(first, first := first + len(rows))
        true, latent = (checked.truth[part] > 0.5).tolist(), checked.latent[part].tolist()
        yield name, ["" if skip else LABELS[bit] for bit, skip in zip(true, latent, strict=True)]
