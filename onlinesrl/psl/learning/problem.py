"""What learners of PSL's weights start from: one ground model, reweighed as often as they like."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Self

import numpy as np

from onlinesrl.core.arrays import Bools, Floats
from onlinesrl.core.evaluation.metrics import Scored
from onlinesrl.core.learning.batch import LearningError
from onlinesrl.logic.ast import Atom, Constant
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.protocols import EngineOptions, HingeEngine, HingeSolution
from onlinesrl.psl.inference.registry import AdmmSection, PslEngine
from onlinesrl.psl.lang.ast import PslProgram, with_weights
from onlinesrl.psl.lang.data import Database, first_rows
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_program, show_psl_atom, show_unweighted
from onlinesrl.psl.learning.cutting_planes import PLANES, Minimum

TRIED, TRIED_ROUNDS = 1e-3, 1000
"""The tolerance of the energy where weights are only tried, and after how many rounds it may be missed."""


@dataclass(frozen=True, eq=False)
class PslProblem:
    """A program, its data, and its ground model, whose weights are those of the rules by number.

    ``seed`` is of random numbers; in ``folder`` a learner may keep what it needs to resume.
    """

    program: PslProgram
    database: Database
    model: HingeLossMRF
    seed: int = 0
    folder: Path | None = None
    engine: HingeEngine = field(default_factory=Admm)

    @property
    def names(self) -> list[str]:
        """The rules without their weights."""
        return [show_unweighted(rule) for rule in self.program.rules]

    @cached_property
    def start(self) -> Floats:
        """The weights in the program, float64[rules]; 0 for a hard rule."""
        return np.array([rule.weight or 0.0 for rule in self.program.rules])

    @cached_property
    def soft(self) -> Bools:
        """Whether each rule has a weight, bool[rules]."""
        return np.array([rule.weight is not None for rule in self.program.rules])

    @cached_property
    def truth(self) -> Floats:
        """The true value of every variable, float64[variables]; NaN where the data give none."""
        relations = self.database.relations.values()
        return np.concatenate([np.empty(0), *(relation.target_truth() for relation in relations)])

    @cached_property
    def counts(self) -> Floats:
        """The number of potentials of each rule, float64[rules]."""
        weighted = self.model.weight_index[self.model.weight_index >= 0]
        return np.bincount(weighted, minlength=len(self.start)).astype(np.float64)

    @cached_property
    def observed(self) -> Floats:
        """``Phi`` at the truth, float64[rules]. Raises LearningError where some truth is missing."""
        unknown = np.flatnonzero(np.isnan(self.truth))
        if len(unknown):
            raise LearningError(
                f"{self.program.file}: {len(unknown):,} of {len(self.truth):,} targets have no truth, "
                f"such as {self.atom(int(unknown[0]))}; this learner needs the truth of all; `squared-error` "
                "and `cross-entropy` learn from the targets that have one, and `paired-dual`, `em` and "
                "`primal` complete those of the predicates in `latent`"
            )
        return self.model.totals(self.truth, len(self.start))

    def whole(self, w: Floats) -> Floats:
        """Return weights of all rules, float64[rules], from those of the soft ones, float64[soft]."""
        weights = np.zeros(len(self.start))
        weights[self.soft] = w
        return weights

    def totals(self, y: Floats) -> Floats:
        """Return ``Phi(y)``, the sum of the potentials of each rule, float64[rules]."""
        return self.model.totals(y, len(self.start))

    def solve(
        self, weights: Floats, start: HingeSolution | None = None, bonus: Floats | None = None
    ) -> HingeSolution:
        """Return the values of least energy, searched from ``start``.

        Raises LearningError where the model is not for the engine.
        """
        try:
            return self.engine.solve(self.model, weights, bonus=bonus, start=start)
        except ValueError as error:
            raise LearningError(f"{self.program.file}: {error} (inference.engine)") from None

    def atom(self, variable: int) -> str:
        """Return the name of a variable's atom."""
        for name, relation in self.database.relations.items():
            if variable < len(relation.targets):
                numbers = relation.targets.columns[:, variable].tolist()
                terms = (Constant(self.database.constants[n]) for n in numbers)
                return show_psl_atom(Atom(name, (*terms,)))
            variable -= len(relation.targets)
        raise IndexError(variable)

    def trained(self, weights: Floats) -> str:
        """Return the text of the program with these weights; those of hard rules do not count."""
        return show_program(with_weights(self.program, weights.tolist()))

    def predicted(self, weights: Floats, test: Self | None = None) -> dict[str, Scored]:
        """Return the values of least energy, by predicate, of the targets whose truth is known."""
        data = test or self
        return data.scored(data.solve(weights).y)

    signed = False
    """Weights are not negative."""

    @cached_property
    def first(self) -> HingeSolution:
        """The values of least energy where all weights are equal: where trials of weights begin."""
        return Admm().solve(self.model, np.ones(len(self.start)))

    def tried(
        self, weights: Floats, share: float, iterations: int | None = None
    ) -> dict[str, Scored]:
        """Predict after so many rounds of ADMM, or earlier where the answer is certified.

        None: a share of the rounds that ``first`` took; 1: until the answer is certified.
        """
        least, of_first = (TRIED_ROUNDS, 10.0) if share >= 1 else (10, share)
        rounds = iterations or max(least, ceil(of_first * self.first.iterations))
        engine = Admm(tolerance=TRIED, rounds=rounds)
        return self.scored(engine.solve(self.model, weights, start=self.first).y)

    def scored(self, y: Floats) -> dict[str, Scored]:
        """Return values of all variables by predicate, of the targets whose truth is known."""
        scores, first = {}, 0
        for name, relation in self.database.relations.items():
            n, truth = len(relation.targets), relation.target_truth()
            has_truth = ~np.isnan(truth)
            groups = first_rows(relation.targets.columns[:-1]) if n else np.empty(0, np.int64)
            if np.any(has_truth):
                scores[name] = Scored(
                    truth[has_truth], y[first : first + n][has_truth], groups[has_truth]
                )
            first += n
        return scores


def grounded(
    program: PslProgram,
    functions: Functions,
    database: Database,
    seed: int = 0,
    folder: Path | None = None,
    inference: PslEngine | None = None,
) -> PslProblem:
    """Ground a program with its data, whose values the engine of a section infers, by default ADMM.

    Raises ModelError as `Grounder.ground`, and LearningError for a program without a weight.
    """
    if all(rule.weight is None for rule in program.rules):
        raise LearningError(f"{program.file}: no rule has a weight, so there is none to learn")
    inference = inference or AdmmSection()
    engine = inference.make(EngineOptions(seed))
    grounder = Grounder(program, functions, skip=inference.targets == "skip")
    model = grounder.ground(database)
    return PslProblem(program, database, model, seed, folder, engine)


def uncertain(least: Minimum) -> list[str]:
    """Return a warning where a minimum is not proven."""
    if least.converged:
        return []
    return [
        f"the objective may be {least.value - least.bound:.3g} above its least value, after {PLANES} "
        "planes"
    ]
