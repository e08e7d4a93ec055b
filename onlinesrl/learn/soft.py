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
from typing import Any

import numpy as np

from onlinesrl.errors import ExampleError, ModelError
from onlinesrl.ground.hinges import AT_MOST, HINGE, HingeModel
from onlinesrl.ground.model import Floats, Indices
from onlinesrl.ground.pack import show_atom
from onlinesrl.ground.psl import Grounder
from onlinesrl.ground.psl_rows import Problem
from onlinesrl.ground.worlds import SoftPacker, World
from onlinesrl.infer.engine import Infeasible, Relaxed, RelaxedEngine
from onlinesrl.lang.example import Atoms, Example, ValuedAtom
from onlinesrl.lang.psl_ast import PslProgram
from onlinesrl.lang.psl_text import show_program
from onlinesrl.learn.learner import Hyper, Outcome, Prediction, Tally
from onlinesrl.learn.rule_weights import RuleWeights
from onlinesrl.metrics import UNIT

BROKEN = 1e-3
"""How far the truth may be from satisfying a hard rule: it is often written with few digits."""

UNSOLVED = "inference ended after its last round without a proven answer"
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
    predicted with the values found and learned from only if its rival is certified.
    """

    engine: RelaxedEngine
    fallback: bool = True
    max_groundings: int = 1_000_000
    max_atoms: int = 1_000_000


@dataclass
class _Batch:
    """What a micro-batch comes to, for its tally."""

    counts: Indices = field(default_factory=lambda: np.zeros(7, np.int64))
    l1: int = 0
    labelled: int = 0
    certified: int = 0
    unsolved: int = 0
    routes: Counter[str] = field(default_factory=Counter)
    by: dict[str, Indices] = field(default_factory=dict)
    bad: Counter[str] = field(default_factory=Counter)

    def tally(self) -> Tally:
        return Tally(
            counts=self.counts,
            labelled=self.labelled,
            predicted=self.routes.total(),
            certified=self.certified,
            audited=0,
            unsolved=self.unsolved,
            routes=self.routes,
            by_class=self.by,
            errors=self.bad,
            l1=self.l1,
        )


class SoftLearner:
    """Owns the weights of a PSL program's rules; ``step`` takes a micro-batch.

    ``query`` are the predicates that have targets; ``by`` is the one of them, and the place of the
    argument, whose values are counted one by one.
    """

    def __init__(
        self,
        program: PslProgram,
        query: Sequence[str],
        hyper: Hyper,
        inference: SoftInference,
        by: tuple[str, int] | None = None,
    ):
        self.program = program
        self.hyper = hyper
        self.inference = inference
        self.by = by
        self.weights = RuleWeights(program, hyper)
        self.packer = SoftPacker(program.predicates, query, inference.max_atoms)
        self.grounder = Grounder(program, most=inference.max_groundings)

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
        RuleWeights(self.program, self.hyper).learn(0.0, np.zeros(len(self.program.rules)))
        return time.perf_counter() - started

    # the step ------------------------------------------------------------------------------------

    def step(
        self, examples: Sequence[Example | ExampleError], learning: bool = True
    ) -> tuple[list[Outcome], Tally]:
        """Predict, and learn from, each example in turn; an ExampleError stands for a bad one."""
        batch = _Batch()
        found = [self._checked(example) for example in examples]
        graphs = iter(self._ground([world for world in found if isinstance(world, World)]))
        outcomes = []
        for world in found:
            try:
                if isinstance(world, ExampleError):
                    raise world
                outcomes.append(self._take(world, next(graphs), batch, learning))
            except ExampleError as error:
                batch.bad[error.kind] += 1
                outcomes.append(Outcome(None, str(error), error.kind == "unsolved"))
        return outcomes, batch.tally()

    def _checked(self, example: Example | ExampleError) -> World | ExampleError:
        if isinstance(example, ExampleError):
            return example
        try:
            return self.packer.world(example)
        except ExampleError as error:
            return error

    def _ground(self, worlds: Sequence[World]) -> list[HingeModel | ExampleError]:
        """Ground worlds together; returns their models, or what is wrong with them."""
        if not worlds:
            return []
        database, query = self.packer.database(worlds), self.packer.query
        try:
            grounded = self.grounder.ground_worlds(database, len(worlds), query)
        except ModelError as error:
            if len(worlds) == 1:
                return [ExampleError(error.message, "schema")]
            return [model for world in worlds for model in self._ground([world])]
        return [
            self._problem(grounded.problems[n])
            if n in grounded.problems
            else grounded.graphs.micrograph(n)
            for n in range(len(worlds))
        ]

    def _problem(self, problem: Problem) -> ExampleError:
        rule = self.program.rules[problem.rule]
        return ExampleError(f"{problem.message}: {rule.text}", problem.kind)

    def _take(
        self, world: World, graph: HingeModel | ExampleError, batch: _Batch, learning: bool
    ) -> Outcome:
        """Predict, and learn from, one example. Raises ExampleError, and then nothing is learned."""
        if isinstance(graph, ExampleError):
            raise graph
        if world.truth is not None:
            self._check_truth(world, graph)
        predicted = self._solve(graph, self.weights.averaged(), None, None)
        unsolved = not predicted.certified
        if unsolved and not self.inference.fallback:
            batch.unsolved += 1
            raise ExampleError(UNSOLVED, "unsolved")
        if learning and world.truth is not None:
            unsolved |= not self._learn(graph, world.truth, predicted, batch)
        batch.unsolved += unsolved
        return Outcome(self._record(world, predicted, batch))

    def _solve(
        self, graph: HingeModel, weights: Floats, bonus: Floats | None, start: Relaxed | None
    ) -> Relaxed:
        try:
            return self.inference.engine.solve(graph, weights, bonus=bonus, start=start)
        except Infeasible:
            raise ExampleError("no values satisfy the hard rules", "infeasible") from None

    def _learn(self, graph: HingeModel, truth: Floats, predicted: Relaxed, batch: _Batch) -> bool:
        """Find the rival and make the update; False: the rival is not certified, and nothing is done."""
        bonus = 1.0 - 2.0 * truth if self.hyper.loss == "ml" else None
        rival = self._solve(graph, self.weights.current(), bonus, predicted)
        if not rival.certified:
            if not self.inference.fallback:
                batch.unsolved += 1
                raise ExampleError(UNSOLVED, "unsolved")
            return False
        delta = self._features(graph, rival.y) - self._features(graph, truth)
        loss = self.weights.learn(float(np.sum(np.abs(rival.y - truth))), delta)
        if math.isnan(loss):
            raise ExampleError(
                "its update is beyond the range of numbers: learner.sigma is too small, or the "
                "weights are too large",
                "overflow",
            )
        return True

    def _features(self, graph: HingeModel, y: Floats) -> Floats:
        """Phi(y), float64[rules]."""
        soft = graph.weight_index >= 0
        found: Floats = np.bincount(
            graph.weight_index[soft], graph.potentials(y)[soft], len(self.weights.base)
        ).astype(np.float64)
        return found

    def _check_truth(self, world: World, graph: HingeModel) -> None:
        """Raise ExampleError where the truth breaks a hard rule."""
        assert world.truth is not None
        if graph.violation(world.truth) <= BROKEN:
            return
        form = np.where(graph.kind >= AT_MOST, graph.forms(world.truth), 0.0)
        form[graph.kind == AT_MOST] = np.maximum(form[graph.kind == AT_MOST], 0.0)
        row = int(np.argmax(np.abs(form)))
        names = [
            show_atom(name, args) for name, rows in world.targets.items() for args in rows.values()
        ]
        atoms = graph.variable[graph.start[row] : graph.start[row + 1]].tolist()
        shown = ", ".join(names[atom] for atom in atoms)
        raise ExampleError(
            f"the truth breaks a hard rule, by {abs(form[row]):.3g}, on {shown}", "hard_rule"
        )

    # outcomes ------------------------------------------------------------------------------------

    def _record(self, world: World, found: Relaxed, batch: _Batch) -> Prediction:
        """Return the prediction and count it: what is counted is what is said, six decimal places."""
        units = np.rint(found.y * UNIT).astype(np.int64)
        prediction = Prediction(
            world.example.id,
            self._predicted(world, units),
            0.0 - found.energy,  # no -0.0
            found.certified,
            world.example.group,
        )
        batch.routes[found.route] += 1
        batch.certified += found.certified
        if world.truth is not None:
            true_units = np.rint(world.truth * UNIT).astype(np.int64)
            l1 = int(np.abs(units - true_units).sum())
            said, true = 2 * units > UNIT, 2 * true_units > UNIT
            hits = int(np.sum(said & true))
            alarms, misses = int(np.sum(said)) - hits, int(np.sum(true)) - hits
            n, wrong = len(units), alarms + misses
            batch.counts += [hits, alarms, misses, n, n - wrong, wrong, wrong == 0]
            batch.l1 += l1
            batch.labelled += 1
            self._count_values(world, said, true, batch)
            prediction.hamming, prediction.l1 = wrong, l1 / UNIT
        return prediction

    def _predicted(self, world: World, units: Indices) -> Atoms:
        values = iter((units / UNIT).tolist())
        return {
            name: [ValuedAtom(args, next(values)) for args in rows.values()]
            for name, rows in world.targets.items()
        }

    def _count_values(self, world: World, said: Any, true: Any, batch: _Batch) -> None:
        """Count hits, false alarms and misses for each value of the chosen argument."""
        if self.by is None:
            return
        query, argument = self.by
        first = sum(
            len(world.targets[n]) for n in self.packer.query[: self.packer.query.index(query)]
        )
        for n, key in enumerate(world.targets[query], first):
            counts = batch.by.setdefault(key[argument], np.zeros(3, np.int64))
            counts += [said[n] and true[n], said[n] and not true[n], true[n] and not said[n]]

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
