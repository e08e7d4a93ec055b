"""What learners of Markov logic's weights start from: a program, and worlds with their truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from math import ceil
from pathlib import Path
from typing import Any, Self

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.evaluation.metrics import Scored
from onlinesrl.core.example import (
    Example,
    GroundAtom,
    Number,
    arguments,
    number_of,
    show_ground_atom,
)
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.learning.batch import Learned, LearningError, Watch
from onlinesrl.logic.ast import (
    Atom,
    Constant,
    Formula,
    Leaf,
    Not,
    Program,
    Rule,
    Variable,
    replace_terms,
)
from onlinesrl.logic.database import valued_atom
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.text import show
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.ground.batch_packer import LimitKeys
from onlinesrl.mln.ground.grounder import Limits
from onlinesrl.mln.lang.clausal_form import plus_variables
from onlinesrl.mln.lang.weight_file import alchemy_text
from onlinesrl.mln.learning.reweighted_world import ReweightedWorld, ground_worlds

LIMITS = Limits(1_000_000, 10_000_000, LimitKeys("max_atoms", "max_groundings", "add"))
"""The default limits of a world."""

LARGEST = 1e100
"""The largest weight from which weights are learned: products with numbers, and their sums, are doubles."""


@dataclass(frozen=True, eq=False)
class MlnProblem:
    """A program, and worlds whose atoms are all false but those given as true.

    The weights are those of the soft rules in their order; a rule with ``+`` variables has one for each of
    their constants, in the order of ``domains``, the last variable varying fastest. ``query`` are the
    predicates that the others predict, for scores by ``method`` (see ``onlinesrl infer``) with so many
    ``samples``. ``seed`` is of random numbers; in ``folder`` a learner may keep what it needs to resume.
    ``limits`` are those of a world; ``origins`` say where each comes from, for messages.
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
        """Return the error of a world (its ``number``, from 0) with where it comes from."""
        where = self.origins[number] if self.origins else f"world {number + 1}"
        return ExampleError(f"{where}: {error.reason}", error.kind)

    @cached_property
    def domains(self) -> Mapping[str, tuple[str, ...]]:
        """The constants of each type: the program's, those of the worlds, and others that have weights."""
        domains = {**world_of(self.program, chain(*self.worlds)).domains}
        for rule in self._soft:
            types, names = dict(rule.types), plus_variables(rule.formula)
            columns = zip(*(key for key, _ in rule.table or ()), strict=True)
            for name, column in zip(names, columns, strict=False):
                domains[types[name]] = (*dict.fromkeys((*domains.get(types[name], ()), *column)),)
        return domains

    def places(self, domains: Mapping[str, tuple[str, ...]]) -> Ints:
        """Return the numbers of the weights that have these constants only, in this order, int64[weights]."""
        every = ((n, key) for n, rule in enumerate(self._soft) for key in self._keys(rule))
        number = {each: k for k, each in enumerate(every)}
        return np.array(
            [
                number[n, key]
                for n, rule in enumerate(self._soft)
                for key in product(*_ranges(rule, domains))
            ]
        )

    def place(self, rule: int, key: tuple[str, ...]) -> int:
        """Return the number of the weight of a rule (from 0) and its constants; the next if unknown."""
        return self._places.get((rule, key), len(self._places))

    @cached_property
    def _places(self) -> dict[tuple[int, tuple[str, ...]], int]:
        soft = [n for n, rule in enumerate(self.program.rules) if not rule.hard]
        every = ((n, key) for n in soft for key in self._keys(self.program.rules[n]))
        return {each: k for k, each in enumerate(every)}

    @cached_property
    def ground(self) -> list[ReweightedWorld]:
        """The worlds, ground for the query. Raises ExampleError."""
        return ground_worlds(self, self)

    @cached_property
    def names(self) -> list[str]:
        """The formula of every weight."""
        return [
            show(replace_terms(rule.formula, _instance(rule, key)))
            for rule in self._soft
            for key in self._keys(rule)
        ]

    @cached_property
    def start(self) -> Floats:
        """The weights in the program, float64[weights]; 0 where it has none. Raises LearningError."""
        found: list[float] = []
        for rule in self._soft:
            table = dict(rule.table or ())
            found += (table.get(key, rule.weight or 0.0) for key in self._keys(rule))
        if not found:
            raise LearningError(
                f"{self.program.file}: no world has a constant for the variables with `+`, so there is no "
                "weight to learn"
            )
        return np.array(found)

    @cached_property
    def units(self) -> Bools:
        """Which weights are those of unit clauses without a weight in the program, bool[weights]."""
        return np.array(
            [
                _is_literal(rule.formula) and rule.weight is None and not rule.table
                for rule in self._soft
                for _ in self._keys(rule)
            ],
            np.bool_,
        )

    def with_weights(self, weights: Floats) -> Program:
        """Return the program with these weights."""
        each = iter(weights.tolist())
        rules = (rule if rule.hard else self._weighted(rule, each) for rule in self.program.rules)
        return replace(self.program, rules=(*rules,))

    def trained(self, weights: Floats) -> str:
        """Return the text of the program with these weights, as Alchemy writes it."""
        return alchemy_text(self.with_weights(weights))

    def predicted(self, weights: Floats, test: Self | None = None) -> dict[str, Scored]:
        """Predict each world of ``test``, or its own, by ``method``: its best state, or probabilities."""
        worlds = self.ground if test is None else ground_worlds(self, test)
        return self._scored(worlds, weights)

    signed = True
    """Weights may be negative."""

    @cached_property
    def soft(self) -> Bools:
        """Which weights may change, bool[weights]: all."""
        return np.ones(len(self.start), np.bool_)

    def tried(self, weights: Floats, share: float) -> dict[str, Scored]:
        """Predict the first worlds with atoms of the query, a share of these, by ``method``."""
        worlds = [world for world in self.ground if np.any(world.predicted)]
        return self._scored(worlds[: ceil(share * len(worlds))], weights)

    def _scored(self, worlds: Sequence[ReweightedWorld], weights: Floats) -> dict[str, Scored]:
        """Predict ground worlds; constants that the weights do not know have the weight 0."""
        from onlinesrl.mln.query.infer import values_of

        known, groups = np.append(weights, 0.0), dict[tuple[Any, ...], int]()
        rows: dict[str, list[tuple[float, float, int]]] = {name: [] for name in self.query}
        for number, world in enumerate(worlds):
            weight = world.weigh(known)
            values = values_of(world.model, weight, self.method, self.seed, self.samples)
            for n in np.flatnonzero(world.predicted).tolist():
                name, arguments = world.atoms[n]
                group = groups.setdefault((number, name, *arguments[:-1]), len(groups))
                rows[name].append((float(world.truth[n]), float(values[n]), group))
        return {name: _scored(of) for name, of in rows.items() if of}

    @property
    def _soft(self) -> list[Rule]:
        return [rule for rule in self.program.rules if not rule.hard]

    def _keys(self, rule: Rule) -> Iterator[tuple[str, ...]]:
        """Yield the constants of a rule's ``+`` variables, for each of its weights; () without any."""
        return product(*_ranges(rule, self.domains))

    def _weighted(self, rule: Rule, each: Iterator[float]) -> Rule:
        """Return a rule with the next weights."""
        if not plus_variables(rule.formula):
            return replace(rule, weight=next(each))
        table = tuple((key, next(each)) for key in self._keys(rule))
        return replace(rule, weight=0.0, table=table)


def checked(problem: MlnProblem, place: str = "evidence") -> MlnProblem:
    """Return the problem; ``place`` is what its worlds were given as.

    Raises LearningError for a program without a soft rule, or with a weight that is too large, for worlds
    without the truth of the query, and an atom of which the truth is not known.
    """
    program = problem.program
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
                f"give the true atoms, or where there are none a false one, !{name}(...)"
            )
    return problem


def atoms_of(example: Example, program: Program) -> list[GroundAtom]:
    """Return the atoms of a world given as an example. Raises ExampleError."""
    if example.truth is None:
        raise ExampleError("there is no truth to learn from")
    if example.query is not None:
        raise ExampleError(
            "`query` lists which atoms are open, but to batch learners all atoms of the predicates asked "
            "for are: leave it out, and what `truth` does not have is false; or learn by `onlinesrl run`"
        )
    found: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for name, rows in chain(example.evidence.items(), example.truth.items()):
        for row in rows:
            try:
                atom = valued_atom(name, arguments(row), number_of(row), 0, program)
            except ValueError as error:
                raise ExampleError(str(error)) from None
            if complaint := _no_truth(atom):
                raise ExampleError(complaint)
            if found.setdefault(atom[:2], atom).value != atom.value:
                raise ExampleError(f"{show_ground_atom(*atom[:2])} has two values")
    return [*found.values()]


def _no_truth(atom: GroundAtom) -> str | None:
    """Return what is wrong with an atom that is neither true nor false, nor has a number."""
    if isinstance(atom.value, bool | Number):
        return None
    return (
        f"{show_ground_atom(atom.predicate, atom.arguments)} has no truth; weights are learned from worlds "
        "in which every atom is true, or false (`!`, or left out)"
    )


def _scored(rows: Sequence[tuple[float, float, int]]) -> Scored:
    truth, values, groups = np.array(rows).T
    return Scored(truth, values, groups.astype(np.int64))


def _is_literal(formula: Formula) -> bool:
    return isinstance(formula.operand if isinstance(formula, Not) else formula, Atom)


def _ranges(rule: Rule, domains: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    types = dict(rule.types)
    return [domains.get(types[name], ()) for name in plus_variables(rule.formula)]


def _instance(rule: Rule, key: Sequence[str]) -> Any:
    constants = dict(zip(plus_variables(rule.formula), key, strict=True))

    def new(leaf: Leaf) -> Leaf:
        isplus = isinstance(leaf, Variable) and leaf.plus
        return Constant(constants[leaf.name]) if isplus else leaf

    return new


class MlnBatchLearner(Section, ABC):
    """How the weights of Markov logic's rules are learned from a batch."""

    kind: str
    """how weights are learned."""

    @abstractmethod
    def learn(self, problem: MlnProblem, watch: Watch) -> Learned:
        """See ``BatchLearner.learn``."""
