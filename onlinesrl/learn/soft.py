"""The online learner of PSL programs: as ``online``, with values in [0, 1] for truth values.

The score of values y is minus their energy, its features are -Phi(y) (Bach et al. 2015, equation 1),
and the label loss is L1. The rival maximises score, with loss ``ml`` loss + score. Where the truth t
is neither 0 nor 1, |y - t| is not concave; the rival is then found with its chord t + (1 - 2 t) y,
which is nowhere below it on [0, 1], and the update takes the true loss at this rival: the cut that
any rival gives is a valid one.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onlinesrl.arrays import Bools, Floats, Ints
from onlinesrl.confusion import Confusion, pairs
from onlinesrl.errors import ExampleError, Infeasible, ModelError
from onlinesrl.ground.background import Background
from onlinesrl.ground.hinges import HINGE, HingeModel
from onlinesrl.ground.psl import Grounder
from onlinesrl.ground.psl_rows import Problem, TooManyRows
from onlinesrl.ground.worlds import SoftPacker, World
from onlinesrl.infer.hinge_engine import HingeEngine, HingeSolution
from onlinesrl.kernels.features import measure
from onlinesrl.lang.example import Atoms, Example, ValuedAtom, show_ground_atom
from onlinesrl.lang.psl_ast import PslProgram
from onlinesrl.lang.psl_text import show_program
from onlinesrl.learn.learner import Answered, Item, Outcome, Prediction, Tally
from onlinesrl.learn.rule_weights import RuleWeights
from onlinesrl.learn.slowest import Slowest
from onlinesrl.learn.together import Apart, Together
from onlinesrl.learn.update import Update
from onlinesrl.metrics import UNIT
from onlinesrl.ranking import Ranking

BROKEN = 1e-3
"""How far the truth may be from satisfying a hard rule: it is often written with few digits."""

ROWS_TOGETHER = 1 << 19
"""How many rows the joins of examples that are ground together may have; of one alone it may be more."""

UNSOLVED = "inference ended after its last round without a proven answer (inference.unsolved)"
KEYS = {"limit": "inference.max_groundings", "not_open": "inference.targets"}
"""What decides of a problem of the kind."""
_ONE_HINGE = HingeModel(
    1,
    np.array([0, 1]),
    np.zeros(1, np.int32),
    np.ones(1),
    np.zeros(1),
    np.zeros(1, np.int64),
    np.ones(1, np.uint8),
    np.full(1, HINGE, np.uint8),
)


@dataclass(frozen=True)
class SoftInference:
    """How energies are minimised, and how large examples may be.

    Where the engine ends without a certificate, the example is bad; or, with ``fallback``, it is
    predicted with the values found and learned from only if its rival is certified. ``skip`` leaves
    out the ground rules that reach an atom that is neither observed nor a target; else an example that
    has one is bad.
    """

    engine: HingeEngine
    fallback: bool = True
    skip: bool = False
    max_groundings: int = 1_000_000
    max_atoms: int = 1_000_000


def _outcomes(said: Bools, true: Bools) -> Ints:
    """Return the numbers of hits, false alarms and misses."""
    return np.array([np.sum(said & true), np.sum(said & ~true), np.sum(true & ~said)])


class _Ground(NamedTuple):
    """The ground rules of a world, and how many were left out."""

    graph: HingeModel
    skipped: int


@dataclass
class _Batch:
    """What a micro-batch comes to, for its tally."""

    counts: Ints = field(default_factory=lambda: np.zeros(7, np.int64))
    l1: int = 0
    labelled: int = 0
    certified: int = 0
    unsolved: int = 0
    skipped: int = 0
    routes: Counter[str] = field(default_factory=Counter)
    by: dict[str, Ints] = field(default_factory=dict)
    pairs: Confusion = field(default_factory=Confusion)
    predicates: dict[str, Ints] = field(default_factory=dict)
    scored: dict[str, list[tuple[Ints, Bools]]] = field(default_factory=dict)
    bad: Counter[str] = field(default_factory=Counter)

    def tally(self) -> Tally:
        ranking = {}
        for name, parts in self.scored.items():
            units, true = (np.concatenate(each) for each in zip(*parts, strict=True))
            ranking[name] = Ranking()
            ranking[name].add(units / UNIT, true)
        return Tally(
            counts=self.counts,
            labelled=self.labelled,
            predicted=self.routes.total(),
            certified=self.certified,
            audited=0,
            unsolved=self.unsolved,
            skipped=self.skipped,
            routes=self.routes,
            by_class=self.by,
            predicates=self.predicates,
            ranking=ranking,
            pairs=self.pairs.counts,
            errors=self.bad,
            l1=self.l1,
        )


class SoftLearner:
    """Owns the weights of a PSL program's rules; ``step`` takes a micro-batch.

    ``query`` are the predicates that have targets; ``by`` is the one of them, and the place of the
    argument, whose values are counted one by one. Every example has the facts of ``background``, too.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a learner is made of
        self,
        program: PslProgram,
        query: Sequence[str],
        update: Update,
        inference: SoftInference,
        by: tuple[str, int] | None = None,
        background: Background | None = None,
    ):
        self.program = program
        self.update = update
        self.slowest = Slowest()
        self.inference = inference
        self.by = by
        self.weights = RuleWeights(program, update)
        self.packer = SoftPacker(program.predicates, query, inference.max_atoms, background)
        self.grounder = Grounder(program, most=inference.max_groundings, skip=inference.skip)
        self.together = Together()

    @property
    def model_text(self) -> str:
        """The program as text that reads back as the same."""
        return show_program(self.program)

    def describe(self) -> str:
        """Say how large the model is."""
        return f"{len(self.program.rules)} rules, {len(self.weights)} of them with a weight"

    def compile(self) -> float:
        """Compile the kernels, or load them from the cache; returns the seconds it took."""
        started = time.perf_counter()
        atoms: Atoms = {name: [["0"] * arity] for name, arity in self.packer.arities.items()}
        query = {name: atoms.pop(name) for name in self.packer.query}
        example = Example(id=0, evidence=atoms, query=query)
        self._ground([self.packer.world(example)])
        self.inference.engine.solve(_ONE_HINGE, np.ones(1))
        self._measured(_ONE_HINGE, np.ones(1))
        return time.perf_counter() - started

    def predict(self, items: Sequence[Item]) -> list[Outcome]:
        """Predict between two steps; learning goes on as if nothing had been asked."""
        return self.step(items, learning=False)[0]

    # the step ------------------------------------------------------------------------------------

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        """Predict, and learn from, each example in turn; one that is Answered is not predicted again."""
        batch = _Batch()
        outcomes = self.together.take(
            items, lambda some: self._attempt(some, batch, learning), self.weights
        )
        return outcomes, batch.tally()

    def _attempt(self, items: Sequence[Item], batch: _Batch, learning: bool) -> list[Outcome]:
        """Take examples in turn, grounded together, as far as memory allows; see ``Together``."""
        found = [self._checked(item) for item in items]
        graphs = iter(self._ground([world for world in found if isinstance(world, World)]))
        outcomes: list[Outcome] = []
        for item, world in zip(items, found, strict=True):
            served = item.prediction if isinstance(item, Answered) else None
            updates = self.weights.updates
            try:
                if isinstance(world, ExampleError):
                    raise world
                outcomes.append(self._take(world, next(graphs), batch, learning, served))
            except ExampleError as error:
                batch.bad[error.kind] += 1
                outcomes.append(Outcome(None, str(error), error.kind == "unsolved"))
            except MemoryError:
                if not outcomes or self.weights.updates > updates:
                    raise
                break
        return outcomes

    def _checked(self, item: Item) -> World | ExampleError:
        if isinstance(item, ExampleError):
            return item
        try:
            return self.packer.world(item.example if isinstance(item, Answered) else item)
        except ExampleError as error:
            return error

    def _ground(self, worlds: Sequence[World]) -> list[_Ground | ExampleError]:
        """Ground worlds together; returns their models, or what is wrong with them. Raises Apart."""
        if not worlds:
            return []
        database, query = self.packer.database(worlds), self.packer.query
        try:
            grounded = self.grounder.ground_worlds(database, len(worlds), query, ROWS_TOGETHER)
        except (ModelError, TooManyRows) as error:
            if len(worlds) > 1:
                raise Apart from error
            return [ExampleError(str(getattr(error, "message", error)), "schema")]
        return [
            self._problem(grounded.problems[n])
            if n in grounded.problems
            else _Ground(grounded.graphs.micrograph(n), int(grounded.skipped[n]))
            for n in range(len(worlds))
        ]

    def _problem(self, problem: Problem) -> ExampleError:
        key = KEYS.get(problem.kind)
        of = f"{problem.message} ({key})" if key else problem.message
        return ExampleError(f"{of}: {self.program.rules[problem.rule].text}", problem.kind)

    def _take(
        self,
        world: World,
        ground: _Ground | ExampleError,
        batch: _Batch,
        learning: bool,
        served: Prediction | None,
    ) -> Outcome:
        """Predict, and learn from, one example. Raises ExampleError, and then nothing is learned.

        One whose prediction was ``served`` before its truth came is scored by that; a new one is made
        for the search for the rival to start from, so that what is learned does not depend on it.
        """
        if isinstance(ground, ExampleError):
            raise ground
        graph, skipped = ground
        truth = world.truth
        target = None if truth is None else self._true_features(world, graph, truth)
        predicted = self._solve(graph, self.weights.averaged(), None, None)
        unsolved = served is None and not predicted.certified
        if unsolved and not self.inference.fallback:
            batch.unsolved += 1
            raise ExampleError(UNSOLVED, "unsolved")
        prediction, units = self._given(world, predicted, served)
        if learning and truth is not None and target is not None:
            unsolved |= not self._learn(graph, truth, target, predicted, batch)
        batch.unsolved += unsolved and (served is None or served.certified)
        if served is None:
            batch.skipped += skipped
            batch.routes[predicted.route] += 1
            batch.certified += predicted.certified
        return Outcome(self._scored(world, prediction, units, batch))

    def _solve(
        self, graph: HingeModel, weights: Floats, bonus: Floats | None, start: HingeSolution | None
    ) -> HingeSolution:
        try:
            return self.inference.engine.solve(graph, weights, bonus=bonus, start=start)
        except Infeasible:
            raise ExampleError("no values satisfy the hard rules", "infeasible") from None

    def _learn(
        self,
        graph: HingeModel,
        truth: Floats,
        target: Floats,
        predicted: HingeSolution,
        batch: _Batch,
    ) -> bool:
        """Find the rival and make the update; ``target`` is Phi(truth).

        False: the rival is not certified, and nothing is done.
        """
        bonus = 1.0 - 2.0 * truth if self.update.loss == "ml" else None
        rival = self._solve(graph, self.weights.current(), bonus, predicted)
        if not rival.certified:
            if not self.inference.fallback:
                batch.unsolved += 1
                raise ExampleError(UNSOLVED, "unsolved")
            return False
        delta = self._measured(graph, rival.y)[0] - target
        loss = self.weights.learn(float(np.sum(np.abs(rival.y - truth))), delta)
        if math.isnan(loss):
            raise ExampleError(
                "its update is beyond the range of numbers: learner.sigma is too small, or the "
                "weights are too large",
                "overflow",
            )
        return True

    def _true_features(self, world: World, graph: HingeModel, truth: Floats) -> Floats:
        """Phi(truth); raises ExampleError where the truth breaks a hard rule."""
        features, violation, row = self._measured(graph, truth)
        if violation <= BROKEN:
            return features
        names = [
            show_ground_atom(name, args)
            for name, rows in world.targets.items()
            for args in rows.values()
        ]
        atoms = graph.variable[graph.start[row] : graph.start[row + 1]].tolist()
        shown = ", ".join(names[atom] for atom in atoms)
        raise ExampleError(
            f"the truth breaks a hard rule, by {violation:.3g}, on {shown}", "hard_rule"
        )

    def _measured(self, graph: HingeModel, y: Floats) -> tuple[Floats, float, int]:
        """Phi(y), float64[rules]; the worst violation of a constraint, and its row."""
        features = np.zeros(len(self.weights.base))
        violation, row = measure(
            graph.start,
            graph.variable,
            graph.coefficient,
            graph.constant,
            graph.weight_index,
            graph.power,
            graph.kind,
            y,
            features,
        )
        return features, violation, row

    # outcomes ------------------------------------------------------------------------------------

    def _given(
        self, world: World, found: HingeSolution, served: Prediction | None
    ) -> tuple[Prediction, Ints]:
        """Return what is said, and its values as they are counted: with six decimal places."""
        if served is not None:
            said = [atom.value for rows in served.predicted.values() for atom in rows]  # type: ignore[union-attr]
            units = np.rint(UNIT * np.array(said, np.float64)).astype(np.int64)
            return msgspec.structs.replace(served), units
        units = np.rint(found.y * UNIT).astype(np.int64)
        prediction = Prediction(
            world.example.id,
            self._predicted(world, units),
            0.0 - found.energy,  # no -0.0
            found.certified,
            world.example.group,
        )
        return prediction, units

    def _scored(
        self, world: World, prediction: Prediction, units: Ints, batch: _Batch
    ) -> Prediction:
        """Count how right a prediction is, and say it in it, where the truth is there."""
        if world.truth is not None:
            true_units = np.rint(world.truth * UNIT).astype(np.int64)
            l1 = int(np.abs(units - true_units).sum())
            said, true = 2 * units > UNIT, 2 * true_units > UNIT
            hits, alarms, misses = _outcomes(said, true).tolist()
            n, wrong = len(units), alarms + misses
            batch.counts += [hits, alarms, misses, n, n - wrong, wrong, wrong == 0]
            batch.l1 += l1
            batch.labelled += 1
            self._count_predicates(world, units, said, true, batch)
            prediction.hamming, prediction.l1 = wrong, l1 / UNIT
        return prediction

    def _predicted(self, world: World, units: Ints) -> Atoms:
        values = iter((units / UNIT).tolist())
        return {
            name: [ValuedAtom(args, next(values)) for args in rows.values()]
            for name, rows in world.targets.items()
        }

    def _count_predicates(
        self, world: World, units: Ints, said: Bools, true: Bools, batch: _Batch
    ) -> None:
        """Count hits, false alarms, misses and scores of each predicate's atoms, and by class."""
        first = 0
        for name, targets in world.targets.items():
            mine = slice(first, first := first + len(targets))
            batch.scored.setdefault(name, []).append((units[mine], true[mine]))
            counts = batch.predicates.setdefault(name, np.zeros(3, np.int64))
            counts += _outcomes(said[mine], true[mine])
            if self.by is not None and self.by[0] == name:
                atoms = list(zip(targets, true[mine].tolist(), said[mine].tolist(), strict=True))
                self._count_values(atoms, self.by[1], batch)

    def _count_values(
        self, atoms: list[tuple[tuple[str, ...], bool, bool]], argument: int, batch: _Batch
    ) -> None:
        """Count by the value of the chosen argument: constants, whether true, whether predicted."""
        for constants, true, said in atoms:
            counts = batch.by.setdefault(constants[argument], np.zeros(3, np.int64))
            counts += [said and true, said and not true, true and not said]
        batch.pairs.add(pairs((atom for atom in atoms if atom[1] or atom[2]), argument))

    # certificate and checkpoint ------------------------------------------------------------------

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value and the bound on the regret; see ``RuleWeights``."""
        return self.weights.certificate()

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        return {"language": "psl"}, self.weights.save()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Go on from what ``save`` returned, bit for bit."""
        self.weights.restore(arrays)
