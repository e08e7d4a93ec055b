"""The configuration of batch learning: its keys, for PSL and for Markov logic, and what they name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from onlinesrl.core.batch import BatchLearner, Problem
from onlinesrl.core.example import Example
from onlinesrl.core.language import language_of
from onlinesrl.core.values import AnyPath, Count, File, Names, Natural
from onlinesrl.logic.dialect import dialect_of
from onlinesrl.mln.learning.learners import AnyMlnLearner
from onlinesrl.mln.learning.mple import Mple
from onlinesrl.psl.learning.learners import AnyPslLearner
from onlinesrl.psl.learning.mle import Mle
from onlinesrl.runs.config import load_as
from onlinesrl.runs.inputs import examples_of, worlds_of
from onlinesrl.runs.schema import DialectName, Root
from onlinesrl.stream.sources import AnySource
from onlinesrl.stream.sources.common import SourceSection

if TYPE_CHECKING:
    from onlinesrl.mln.learning.problem import MlnProblem


class Batch(Root):
    """Batch learning: the keys outside of sections."""

    output: AnyPath
    """the folder of the result; the default is runs/ and the name of the configuration."""
    seed: Natural = 0
    """of the random numbers of learners that have any."""

    @property
    @abstractmethod
    def batch_learner(self) -> BatchLearner[Any]:
        """The learner."""

    @abstractmethod
    def problem(self, folder: Path | None) -> Problem:
        """Return what is to be learned; in ``folder`` the learner may keep what it needs to resume.

        Raises the located errors of the files, and LearningError.
        """

    @abstractmethod
    def held_out(self) -> Problem | None:
        """Return the model with the data to be scored, if there are any."""


class PslBatch(Batch):
    """Batch learning of PSL: the keys outside of sections."""

    data: File | None = None
    """the .data file of a .psl model; PSL's .json names its data itself (the split learn is used)."""
    test: File | None = None
    """held-out data, like data: the learned weights are scored there."""
    learner: AnyPslLearner = Mle()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self._in_json and self.data is not None:
            raise ValueError("data: not for a .json model, which says itself where its data are")
        if not self._in_json and self.data is None:
            raise ValueError("data: missing; expected the .data file of the .psl model")
        return self

    @property
    def _in_json(self) -> bool:
        return self.model.suffix == ".json"

    @property
    def batch_learner(self) -> BatchLearner[Any]:
        """The learner."""
        return self.learner

    def problem(self, folder: Path | None) -> Problem:
        """Ground the model with its data; see ``Batch.problem``."""
        from onlinesrl.psl import query
        from onlinesrl.psl.learning.problem import grounded

        model = query.load(self.model, self.data)
        database = model.database("learn")
        return grounded(model.program, model.functions, database, self.seed, folder)

    def held_out(self) -> Problem | None:
        """Ground the model with the held-out data, for a .json model by default those of its split infer."""
        from onlinesrl.psl.lang.model import load_json, load_psl
        from onlinesrl.psl.learning.problem import grounded

        if self._in_json:
            model = load_json(self.test or self.model)
            if self.test is None and model.files["learn"] == model.files["infer"]:
                return None
        elif self.test is None:
            return None
        else:
            model = load_psl(self.model, self.test)
        return grounded(model.program, model.functions, model.database(), self.seed)


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
        if self.test is None:
            return None
        return self.problem_of(self.examples(self.test), None, "test")

    def examples(self, source: SourceSection | None = None) -> Iterator[tuple[str, Example]]:
        """Yield the examples of a source, by default the one to learn from, with their places."""
        return examples_of(source or self.source, self.query, dialect_of(self.dialect))

    def problem_of(
        self, examples: Iterable[tuple[str, Example]], folder: Path | None, key: str = "source"
    ) -> MlnProblem:
        """Return the problem of examples with their places; ``key`` names the section they are from."""
        from onlinesrl.core.language import check_query
        from onlinesrl.mln.learning.problem import LIMITS, MlnProblem, checked

        program, dialect = self.language.load(self.model, self.dialect), dialect_of(self.dialect)
        check_query(program, self)
        source = self.test if key == "test" and self.test is not None else self.source
        worlds = [*worlds_of(examples, source, program, dialect)]
        limits = replace(LIMITS, atoms=self.max_atoms, groundings=self.max_groundings)
        fixed = (self.method, self.seed, folder, limits, self.samples)
        return checked(MlnProblem(program, worlds, self.query, dialect, *fixed), key)


def load(path: Path, overrides: Sequence[str] = ()) -> Batch:
    """Read a configuration of batch learning; the language of its model decides which keys it has.

    Raises ConfigError with every problem there is.
    """
    return load_as(_root, path, overrides)


def _root(values: Any) -> type[Batch]:
    model = values.get("model") if isinstance(values, dict) else None
    suffix = Path(model).suffix if isinstance(model, str) else ""
    return PslBatch if language_of(suffix) is language_of(".psl") else MlnBatch
