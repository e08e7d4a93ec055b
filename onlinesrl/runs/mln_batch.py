"""The configuration of batch learning of Markov logic."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from onlinesrl.core.batch import BatchLearner, Problem
from onlinesrl.core.errors import ConfigError
from onlinesrl.core.values import Count, Names
from onlinesrl.mln.learning.learners import AnyMlnLearner
from onlinesrl.mln.learning.mple import Mple
from onlinesrl.runs.batch import Batch
from onlinesrl.runs.inputs import worlds_of
from onlinesrl.runs.schema import DialectName
from onlinesrl.stream.sources import AnySource
from onlinesrl.stream.sources.common import SourceSection


class MlnBatch(Batch):
    """Batch learning of Markov logic: the keys outside of sections."""

    dialect: DialectName = "alchemy"
    """how the model and .db files are written; the learned weights are Alchemy's in any case."""
    source: AnySource
    """the examples, each a world with its truth: a section as that of a run. A .db file is one of them."""
    query: Names
    """the predicates that the others predict."""
    test: AnySource | None = None
    """held-out examples, like source: the learned weights are scored there."""
    learner: AnyMlnLearner = Mple()
    method: Literal["mpe", "lp", "walksat", "exact", "mcsat", "gibbs"] = "mpe"
    """how the query is predicted for scores: as one state (mpe, lp, walksat) or by probabilities."""
    samples: Count | None = None
    """from how many samples gibbs and mcsat estimate probabilities, after a tenth as many in each of four
    chains; null: 20,000 of gibbs, 1,000 of mcsat."""
    max_atoms: Count = 1_000_000
    """the most open atoms of a world."""
    max_groundings: Count = 10_000_000
    """the most ground clauses of a world, and the longest intermediate result of a join."""

    @property
    def batch_learner(self) -> BatchLearner[Any]:
        """The learner."""
        return self.learner

    def problem(self, folder: Path | None) -> Problem:
        """Read the model and its worlds; see ``Batch.problem``."""
        return self._problem("source", self.source, folder)

    def held_out(self) -> Problem | None:
        """Read the held-out worlds."""
        return None if self.test is None else self._problem("test", self.test, None)

    def _problem(self, key: str, source: SourceSection, folder: Path | None) -> Problem:
        from onlinesrl.core.language import check_query
        from onlinesrl.logic.dialect import dialect_of
        from onlinesrl.mln.learning.problem import LIMITS, MlnProblem, checked

        program, dialect = self.language.load(self.model, self.dialect), dialect_of(self.dialect)
        check_query(program, self)
        wrong = partial(self._misfit, key)
        worlds = [*worlds_of(source, program, self.query, dialect, wrong)]
        limits = replace(LIMITS, atoms=self.max_atoms, groundings=self.max_groundings)
        fixed = (self.method, self.seed, folder, limits, self.samples)
        return checked(MlnProblem(program, worlds, self.query, dialect, *fixed), key)

    def _misfit(self, section: str, key: str, reason: str) -> ConfigError:
        return self.error(f"{section}.{key}", reason)
