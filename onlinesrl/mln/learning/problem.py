"""The input of batch learners of Markov logic: a program, and worlds with their truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, product
from math import ceil
from pathlib import Path
from typing import Any, Self

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.evaluation.metrics import Scored
from onlinesrl.core.example import (
    Atoms,
    Constant,
    Example,
    GroundAtom,
    Number,
    ValuedAtom,
    arguments,
    number_of,
    show_ground_atom,
)
from onlinesrl.core.kernels.random import generator
from onlinesrl.core.learning.batch import LearningError
from onlinesrl.logic.ast import Atom, Not, Program
from onlinesrl.logic.database import valued_atom
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.text import show, show_instance
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.ground.batch_packer import LimitKeys
from onlinesrl.mln.ground.grounder import Limits, ModelGrounder
from onlinesrl.mln.ground.model_weights import ModelWeights
from onlinesrl.mln.inference.registry import MAP_METHODS
from onlinesrl.mln.lang.clausal_form import clauses, plus_variables
from onlinesrl.mln.lang.evidence_weights import check_learned
from onlinesrl.mln.lang.weight_file import alchemy_text
from onlinesrl.mln.learning.counted_world import CountedWorld
from onlinesrl.mln.learning.reweighted_world import ReweightedWorld, ground_world

LIMITS = Limits(1_000_000, 10_000_000, LimitKeys("max_atoms", "max_groundings", "add"))
"""The default limits of a world."""

COUNTED = "counted-gibbs"
"""The method that grounds nothing."""

LARGEST = 1e100
"""The largest start weight; products with numbers, and their sums, stay within float64."""


FLIPS, SAMPLES = 100_000, 1_000
"""The iterations of a trial of weights, of which there are shares where worlds are too few."""


@dataclass(frozen=True, eq=False)
class MlnProblem:
    """A program and worlds; all atoms not listed as true are false.

    Weights are numbered by the soft rules in their order. A rule with ``+`` variables has one weight for
    each combination of their constants, in the order of ``domains``; the last variable varies fastest.
    ``query`` has the predicates to predict. Scores use the inference ``method`` (see ``onlinesrl infer``)
    and its number of ``samples``. ``seed`` is the seed of random numbers. A learner may store its state in
    ``folder`` to resume. ``limits`` are the limits of a world; ``origins`` has the source of each world,
    for messages.
    """

    program: Program
    worlds: Sequence[Sequence[GroundAtom]]
    query: tuple[str, ...]
    dialect: Dialect = ALCHEMY
    method: str = "mpe"
    seed: int = 0
    folder: Path | None = None
    limits: Limits = LIMITS
    samples: int | None = None
    origins: Sequence[str] = ()

    def located(self, number: int, error: ExampleError) -> ExampleError:
        """Return the error of a world (its ``number``, from 0) with the world's origin in the message."""
        place = self.origins[number] if self.origins else f"world {number + 1}"
        return ExampleError(f"{place}: {error.reason}", error.kind)

    @cached_property
    def domains(self) -> Mapping[str, tuple[str, ...]]:
        """The constants of each type: in the program, in the worlds, and in tables of weights."""
        domains = {**world_of(self.program, chain(*self.worlds)).domains}
        for rule in self.program.rules:
            if rule.hard:
                continue
            types, names = dict(rule.types), plus_variables(rule.formula)
            columns = zip(*(key for key, _ in rule.table or ()), strict=True)
            for name, column in zip(names, columns, strict=False):
                domains[types[name]] = (*dict.fromkeys((*domains.get(types[name], ()), *column)),)
        return domains

    def places(self, domains: Mapping[str, tuple[str, ...]]) -> Ints:
        """Return the numbers of the weights of these constants, in their order, int64[weights].

        That of unknown constants is the number of weights.
        """
        return np.array([self.place(*key) for key in self._weights(domains)], np.int64)

    def place(self, rule: int, key: tuple[str, ...]) -> int:
        """Return the weight number of a rule (from 0) and its constants; the number of weights if unknown."""
        return self._places.get((rule, key), len(self._places))

    @property
    def keys(self) -> list[tuple[int, tuple[str, ...]]]:
        """The number of the rule (from 0) and the constants of every weight."""
        return [*self._places]

    @cached_property
    def _places(self) -> dict[tuple[int, tuple[str, ...]], int]:
        return {key: k for k, key in enumerate(self._weights(self.domains))}

    def _weights(
        self, domains: Mapping[str, tuple[str, ...]]
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the rule number (from 0) and the constants of every weight."""
        for number, rule in enumerate(self.program.rules):
            if not rule.hard:
                types = dict(rule.types)
                ranges = [domains.get(types[name], ()) for name in plus_variables(rule.formula)]
                yield from ((number, key) for key in product(*ranges))

    @cached_property
    def ground(self) -> list[ReweightedWorld]:
        """The ground worlds of the query. Raises ExampleError."""
        return self.ground_worlds(range(len(self.worlds)))

    def ground_worlds(self, numbers: Iterable[int]) -> list[ReweightedWorld]:
        """Return the ground worlds of these numbers. Raises ExampleError."""
        return self._ground(self, numbers)

    def counted(
        self, number: int, data: Self | None = None, bound: int | None = None
    ) -> CountedWorld:
        """Return a world (its ``number``) of ``data`` (default: this problem), which is never ground.

        Raises as `CountedWorld`.
        """
        data, rng = self if data is None else data, generator(self.seed, 0, number)
        atoms, size = data.worlds[number], len(self.start)
        try:
            return CountedWorld(self.program, atoms, self.query, self.places, size, rng, bound)
        except ExampleError as error:
            raise data.located(number, error) from None

    def _ground(self, data: Self, numbers: Iterable[int]) -> list[ReweightedWorld]:
        """Ground worlds of ``data`` for the query; features have the numbers of the weights.

        The feature of a rule of k clauses is the sum of the clauses' counts divided by k. Raises
        ExampleError.
        """
        shared = ModelGrounder(self.program, self.query, self.limits)
        ground_worlds: list[tuple[ModelGrounder, ReweightedWorld]] = []
        for number in numbers:
            program, example = self.example(number, data.worlds[number])
            grounder = shared
            if program is not self.program:
                grounder = ModelGrounder(program, self.query, self.limits)
            try:
                ground_worlds.append((grounder, ground_world(grounder, example)))
            except ExampleError as error:
                raise data.located(number, error) from None
        of = {grounder: self.features(grounder.weights) for grounder, _ in ground_worlds}
        return [world.numbered(*of[grounder]) for grounder, world in ground_worlds]

    def features(self, weights: ModelWeights) -> tuple[Ints, Floats]:
        """Return the number in this problem of each weight of a table, and its clause's share of the feature.

        The last of each stand for no weight.
        """
        clauses_of = Counter(clause.rule for clause in clauses(self.program))
        place, share = np.full(len(weights) + 1, -1, np.int64), np.ones(len(weights) + 1)
        for k, clause, key in weights.numbered():
            place[k] = self.place(clause.rule, key)
            share[k] = 1.0 / clauses_of[clause.rule]
        return place, share

    def example(self, number: int, atoms: Sequence[GroundAtom]) -> tuple[Program, Example]:
        """Return a world as a program and an example; constants only in the truth are declared."""
        evidence: Atoms = {}
        truth: Atoms = {name: [] for name in self.query}
        types = {name: predicate.types for name, predicate in self.program.predicates.items()}
        constants = {kind: {*names} for kind, names in self.program.types.items()}
        for atom in atoms:
            args: list[Constant] = list(atom.arguments)
            row = args if atom.value is True else ValuedAtom(args, float(atom.value or 0.0))
            if atom.predicate in truth:
                truth[atom.predicate].append(row)
                continue
            evidence.setdefault(atom.predicate, []).append(row)
            for kind, constant in zip(types[atom.predicate], atom.arguments, strict=True):
                constants.setdefault(kind, set()).add(constant)
        missing: dict[str, dict[str, None]] = {}
        for atom in atoms:
            for kind, constant in zip(types[atom.predicate], atom.arguments, strict=True):
                if constant not in constants.get(kind, ()):
                    missing.setdefault(kind, {})[constant] = None
        example = Example(id=number, evidence=evidence, truth=truth)
        if not missing:
            return self.program, example
        declared = {
            kind: (*self.program.types.get(kind, ()), *missing.get(kind, ()))
            for kind in {**self.program.types, **missing}
        }
        return replace(self.program, types=declared), example

    @cached_property
    def names(self) -> list[str]:
        """The formula of every weight."""
        names = []
        for number, key in self._places:
            formula = self.program.rules[number].formula
            constants = dict(zip(plus_variables(formula), key, strict=True))
            names.append(show(formula, partial(show_instance, constants=constants)))
        return names

    @cached_property
    def start(self) -> Floats:
        """The weights of the program, float64[weights]; 0 for a missing weight. Raises LearningError."""
        rules = self.program.rules
        tables = [dict(rule.table or ()) for rule in rules]
        weights = [tables[n].get(key, rules[n].weight or 0.0) for n, key in self._places]
        if not weights:
            raise LearningError(
                f"{self.program.file}: no world has a constant for the variables with `+`, so there is no "
                "weight to learn"
            )
        return np.array(weights)

    @cached_property
    def units(self) -> Bools:
        """Whether each weight belongs to a unit clause without a weight in the program, bool[weights]."""
        unit = []
        for rule in self.program.rules:
            part = rule.formula.operand if isinstance(rule.formula, Not) else rule.formula
            unit.append(isinstance(part, Atom) and rule.weight is None and not rule.table)
        return np.array([unit[number] for number, _ in self._places], np.bool_)

    def with_weights(self, weights: Floats) -> Program:
        """Return the program with these weights."""
        tables: dict[int, dict[tuple[str, ...], float]] = {}
        for (number, key), weight in zip(self._places, weights.tolist(), strict=True):
            tables.setdefault(number, {})[key] = weight
        rules = [*self.program.rules]
        for number, rule in enumerate(rules):
            table = tables.get(number, {})
            if not rule.hard and plus_variables(rule.formula):
                rules[number] = replace(rule, weight=0.0, table=(*table.items(),))
            elif not rule.hard:
                rules[number] = replace(rule, weight=table[()])
        return replace(self.program, rules=(*rules,))

    def trained(self, weights: Floats) -> str:
        """Return the text of the program with these weights, as Alchemy writes it.

        It declares the constants of a type that have weights of their own, unless evidence names them.
        """
        program = self.with_weights(weights)
        of_rules = (
            dict(rule.types)[name]
            for rule in program.rules
            for name in plus_variables(rule.formula)
        )
        by_evidence = {
            kind
            for atom in chain(*self.worlds)
            if atom.predicate not in self.query
            for kind in program.predicates[atom.predicate].types
        }
        labels = [kind for kind in dict.fromkeys(of_rules) if kind not in by_evidence]
        types = {kind: self.domains.get(kind, ()) for kind in labels}
        return alchemy_text(replace(program, types={**program.types, **types}))

    def predicted(self, weights: Floats, test: Self | None = None) -> dict[str, Scored]:
        """Predict each world of ``test`` (default: this problem's worlds) by ``method``."""
        if self.method == COUNTED:
            return self._counted(weights, self if test is None else test)
        worlds = self.ground if test is None else self._ground(test, range(len(test.worlds)))
        return self._scored(worlds, weights)

    def _counted(self, weights: Floats, data: Self, worlds: int | None = None) -> dict[str, Scored]:
        """Predict the first ``worlds`` of ``data`` by Gibbs sampling with odds from counts."""
        parts: dict[str, list[Scored]] = {name: [] for name in self.query}
        groups = 0
        for number in range(len(data.worlds) if worlds is None else worlds):
            world = self.counted(number, data)
            for name, truth, values, group in world.marginals(weights, self.samples or SAMPLES):
                parts[name].append(Scored(truth, values, group + groups))
                groups += int(group.max(initial=-1)) + 1
        return {
            name: Scored(*map(np.concatenate, zip(*scored_parts, strict=True)))
            for name, scored_parts in parts.items()
            if sum(len(scored.truth) for scored in scored_parts)
        }

    signed = True
    """Weights may be negative."""

    @cached_property
    def soft(self) -> Bools:
        """Whether each weight may change, bool[weights]: all may."""
        return np.ones(len(self.start), np.bool_)

    def tried(
        self, weights: Floats, share: float, iterations: int | None = None
    ) -> dict[str, Scored]:
        """Predict the first ``share`` of the worlds that have open query atoms, by ``method``.

        With ``iterations`` all worlds are predicted, by so many samples, or by so many flips of MaxWalkSAT in
        place of ``mpe`` and ``lp``, which predict where ``share`` is 1. Less than one world is a share of
        the iterations. Counted predictions have no iterations.
        """
        if self.method == COUNTED:
            return self._counted(weights, self, ceil(share * len(self.worlds)))
        worlds = [world for world in self.ground if np.any(world.predicted)]
        if iterations is None:
            if share * len(worlds) >= 1:
                return self._scored(worlds[: ceil(share * len(worlds))], weights)
            samples = self.samples or SAMPLES
            iterations = ceil(share * (FLIPS if self.method in MAP_METHODS else samples))
        flips = iterations if share < 1 or self.method == "walksat" else None
        return replace(self, samples=iterations)._scored(worlds, weights, flips)

    def _scored(
        self, worlds: Sequence[ReweightedWorld], weights: Floats, flips: int | None = None
    ) -> dict[str, Scored]:
        """Predict ground worlds; unknown constants have weight 0. ``flips`` as in ``values_of``."""
        from onlinesrl.mln.query.infer import values_of

        padded, groups = np.append(weights, 0.0), dict[tuple[Any, ...], int]()
        rows: dict[str, list[tuple[float, float, int]]] = {name: [] for name in self.query}
        for number, world in enumerate(worlds):
            weight = world.weigh(padded)
            values = values_of(world.model, weight, self.method, self.seed, self.samples, flips)
            for n in np.flatnonzero(world.predicted).tolist():
                name, arguments = world.atoms[n]
                group = groups.setdefault((number, name, *arguments[:-1]), len(groups))
                rows[name].append((float(world.truth[n]), float(values[n]), group))
        columns_of = {
            name: zip(*scored_rows, strict=True)
            for name, scored_rows in rows.items()
            if scored_rows
        }
        return {name: Scored(*map(np.array, columns)) for name, columns in columns_of.items()}


def checked(problem: MlnProblem, place: str = "evidence") -> MlnProblem:
    """Return the problem after checks; ``place`` is the option of its worlds, for messages.

    Raises ModelError for a weight that is not learned. Raises LearningError for a program without a soft rule
    or with a too large weight, for worlds without an atom of the query, and for an atom of unknown truth.
    """
    program = problem.program
    check_learned(program)
    for rule in program.rules:
        weights = [rule.weight or 0.0, *dict(rule.table or ()).values()]
        if (most := max(weights, key=abs)) and abs(most) > LARGEST:
            raise LearningError(
                f"{program.file}:{rule.position.line}: the weight {most:g} of the rule {rule.text}: expected "
                f"one from {-LARGEST:g} to {LARGEST:g}, or a hard rule, which ends in a period"
            )
    if all(rule.hard for rule in program.rules):
        raise LearningError(f"{program.file}: every rule is hard, so there is no weight to learn")
    for atom in (atom for world in problem.worlds for atom in world):
        if complaint := _no_truth(atom):
            raise LearningError(f"line {atom.line}: {complaint}" if atom.line else complaint)
    for name in problem.query:
        if not any(atom.predicate == name for world in problem.worlds for atom in world):
            raise LearningError(
                f"{place}: no world has an atom of {name}, which is the query: its truth is not known; "
                f"list the true atoms, or, if there are none, a false one, !{name}(...)"
            )
    return problem


def atoms_of(example: Example, program: Program) -> list[GroundAtom]:
    """Return the atoms of an example as a world. Raises ExampleError."""
    if example.truth is None:
        raise ExampleError("there is no truth to learn from")
    if example.unlabelled:
        raise ExampleError(
            "`unlabelled` atoms have no truth, and batch learners of Markov logic need the truth of all: "
            "learn by `onlinesrl run` or OnlineLearner, which complete them"
        )
    if example.query is not None:
        raise ExampleError(
            "`query` lists which atoms are open, but batch learners treat all atoms of query predicates as "
            "open: omit `query` (atoms not in `truth` are false), or learn by `onlinesrl run`"
        )
    atoms: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for name, rows in chain(example.evidence.items(), example.truth.items()):
        for row in rows:
            try:
                atom = valued_atom(name, arguments(row), number_of(row), 0, program)
            except ValueError as error:
                raise ExampleError(str(error)) from None
            if complaint := _no_truth(atom):
                raise ExampleError(complaint)
            if atoms.setdefault(atom[:2], atom).value != atom.value:
                raise ExampleError(f"{show_ground_atom(*atom[:2])} has two values")
    return [*atoms.values()]


def _no_truth(atom: GroundAtom) -> str | None:
    """Return the message for an atom without a truth value or number; None for a good atom."""
    if isinstance(atom.value, bool | Number):
        return None
    return (
        f"{show_ground_atom(atom.predicate, atom.arguments)} has no truth; weights are learned from worlds "
        "in which every atom is true, or false (`!`, or left out)"
    )
