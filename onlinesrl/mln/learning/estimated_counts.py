"""Counts in batch learning, by IJGP(i) for formulas wider than the bound, else exact."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Literal

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.ijgp import Estimator
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.ground.ground_mrf import State
from onlinesrl.mln.learning.problem import MlnProblem


class CountingLearner(Section):
    """A learner whose counts are exact or estimated."""

    counting: Literal["exact", "ijgp"] = "exact"
    """how groundings are counted: exactly, or by IJGP(i) if a formula is too wide for ``i_bound``."""
    i_bound: Count = 2
    """ijgp: the maximal number of variables of a cluster; exact above a formula's treewidth."""

    @property
    def bound(self) -> int | None:
        """The i-bound of estimates; None for exact counts."""
        return self.i_bound if self.counting == "ijgp" else None


class EstimatedWorld:
    """The features of a problem's world (its ``number``), estimated if formulas are too wide.

    The constructor raises ModelError for a rule that cannot be counted.
    """

    def __init__(self, problem: MlnProblem, number: int, bound: int) -> None:
        soft = tuple(rule for rule in problem.program.rules if not rule.hard)
        program = replace(problem.program, rules=soft)
        self.ground = problem.ground[number]
        self.world = world_of(program, problem.worlds[number])
        self.counters = Counters(program)
        self.places, _ = self.counters.places(self.world)
        self.weight = problem.places(self.world.domains)
        pairs = zip(self.counters.clauses, self.counters.compiled, strict=True)
        wide = {
            clause.rule
            for clause, compiled in pairs
            if _estimator(compiled, bound).width() >= bound
        }
        self.compiled = [
            _estimator(compiled, bound) if clause.rule in wide else None
            for clause, compiled in zip(self.counters.clauses, self.counters.compiled, strict=True)
        ]
        for clause, compiled in zip(self.counters.clauses, self.compiled, strict=True):
            if compiled is not None:
                with self.counters.located(clause):
                    compiled.check(self.world)
        self.atoms = {name: self._atoms(name) for name in problem.query}

    def _atoms(self, name: str) -> tuple[Ints, Ints]:
        """Return the ground atoms of a predicate, int64[atoms], and their constants' numbers."""
        types = self.counters.program.predicates[name].types
        of_predicate = [
            (a, args) for a, (predicate, args) in enumerate(self.ground.atoms) if predicate == name
        ]
        numbers = [self.world.numbers[t] for t in types]
        rows = [[n[str(c)] for n, c in zip(numbers, args, strict=True)] for _, args in of_predicate]
        return np.array([a for a, _ in of_predicate], np.int64), np.array(rows, np.int64)

    def features(self, state: State, size: int) -> Floats:
        """Return the features of a state, float64[size], each up to a constant."""
        total = self.ground.features(state, size)
        rows = {name: rows[state[atoms] != 0] for name, (atoms, rows) in self.atoms.items()}
        world = self.world.changed(rows)
        estimated = [
            (self.weight[place.first + np.arange(prod(place.sizes))], estimator, place.share)
            for place, estimator in zip(self.places, self.compiled, strict=True)
            if estimator is not None
        ]
        for weights, _, _ in estimated:
            total[weights] = 0.0
        for weights, estimator, share in estimated:
            total[weights] += estimator.count(world).ravel() / share
        return total


def _estimator(counter: Counter | Estimator, bound: int) -> Estimator:
    assert isinstance(counter, Counter)
    return Estimator(counter, bound)
