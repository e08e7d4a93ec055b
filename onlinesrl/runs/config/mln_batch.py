"""The configuration of batch learning of Markov logic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from onlinesrl.core.errors import ConfigError
from onlinesrl.core.example import Example
from onlinesrl.core.io.config_types import Count, Names
from onlinesrl.core.learning.batch import BatchLearner, Problem
from onlinesrl.mln.learning.mple import Mple
from onlinesrl.mln.learning.registry import AnyMlnLearner
from onlinesrl.runs.config.batch import Batch
from onlinesrl.runs.config.schema import DialectName
from onlinesrl.runs.inputs import examples_of, worlds_of
from onlinesrl.stream.source import SourceSection
from onlinesrl.stream.sources import AnySource

if TYPE_CHECKING:
    from onlinesrl.mln.learning.problem import MlnProblem

Section: TypeAlias = Literal["source", "test"]


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
        return self.problem_of(self.examples(), folder)

    def held_out(self) -> Problem | None:
        """Read the held-out worlds."""
        return None if self.test is None else self.problem_of(self.examples("test"), None, "test")

    def examples(self, section: Section = "source") -> Iterator[tuple[str, Example]]:
        """Yield the examples of a section's source, with their places."""
        from onlinesrl.logic.dialect import dialect_of

        wrong = partial(self._misfit, section)
        return examples_of(self._source(section), self.query, dialect_of(self.dialect), wrong)

    def problem_of(
        self,
        examples: Iterable[tuple[str, Example]],
        folder: Path | None,
        section: Section = "source",
    ) -> MlnProblem:
        """Return the problem of examples of a section, with their places."""
        from onlinesrl.core.language import check_query
        from onlinesrl.logic.dialect import dialect_of
        from onlinesrl.mln.learning.problem import LIMITS, MlnProblem, checked

        program, dialect = self.language.load(self.model, self.dialect), dialect_of(self.dialect)
        check_query(program, self)
        placed = [*worlds_of(examples, self._source(section), program, dialect)]
        limits = replace(LIMITS, atoms=self.max_atoms, groundings=self.max_groundings)
        origins, worlds = [place for place, _ in placed], [atoms for _, atoms in placed]
        fixed = (self.method, self.seed, folder, limits, self.samples, origins)
        return checked(MlnProblem(program, worlds, self.query, dialect, *fixed), section)

    def _source(self, section: Section) -> SourceSection:
        return self.test if section == "test" and self.test is not None else self.source

    def _misfit(self, section: str, key: str, reason: str) -> ConfigError:
        return self.error(f"{section}.{key}", reason)
