"""Batch learning of weights in Python, that of ``onlinesrl learn``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import DataError, ExampleError, UsageError
from onlinesrl.core.example import Example, GroundAtom
from onlinesrl.core.language import language_of
from onlinesrl.core.learning.batch import BatchLearner, Problem
from onlinesrl.library.inference import Evidence, atoms_given, psl_database, read
from onlinesrl.library.inputs import Given, example
from onlinesrl.library.learner import section, validated
from onlinesrl.library.model import Model, model_of
from onlinesrl.library.notebook import table_html


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """A ``model`` with learned weights.

    ``objective`` is what the learner minimised, by step; ``stats`` are figures of the learner, ``warnings``
    messages.
    """

    model: Model
    objective: Sequence[float]
    stats: Mapping[str, Any]
    warnings: Sequence[str]

    def __repr__(self) -> str:
        return f"<LearnedModel of {len(self.model.rules)} rules>"

    def __str__(self) -> str:
        """Return the model's rules, one per line."""
        return str(self.model)

    def _repr_html_(self) -> str:
        rows: list[list[Any]] = [[rule.weight, rule.text] for rule in self.model.rules]
        return table_html(f"{len(rows)} rules", ["weight", "rule"], rows)


def learn(
    model: Model | str,
    evidence: Evidence | Iterable[Given | Example],
    query: str | Sequence[str] | Given,
    *,
    truth: Given | None = None,
    learner: str | Mapping[str, Any] | type[BatchLearner] | BatchLearner | None = None,
    seed: int = 0,
    progress: Callable[[int, float], object] | None = None,
) -> LearnedModel:
    """Learn weights from data with their truth, as ``onlinesrl learn`` does.

    For Markov logic ``evidence`` are worlds: examples, .db files, or atoms by predicate; what they do not
    have is false, also of the predicates named by ``query``, which the others predict. For PSL
    ``evidence`` has the observed atoms, ``query`` the targets and ``truth`` their true values, by predicate.
    ``learner`` is the section of a configuration, or its ``kind``. ``progress`` is called with the number
    and the objective of each step.

    Raises ModelError, DatabaseError, DataError, ExampleError, UsageError, LearningError.

    >>> model = Model("1: Friends(A, B) & Smokes(A) -> Smokes(B) ^2   1: !Smokes(A) ^2", "psl")
    >>> seen = {"Friends": [["Anna", "Bob"]]}
    >>> truth = {"Smokes": {("Anna",): 1.0, ("Bob",): 1.0}}
    >>> learn(model, seen, {"Smokes": ["Anna", "Bob"]}, truth=truth)
    <LearnedModel of 2 rules>
    """
    model = model_of(model)
    if model.language is language_of(".psl"):
        problem, kinds = _psl_problem(model, evidence, query, truth or {}, seed)
    else:
        problem, kinds = _mln_problem(model, evidence, query, seed)
    chosen = section({} if learner is None else learner, "kind")
    batch_learner: BatchLearner = validated(kinds, "learner", chosen)
    result = batch_learner.learn(problem, lambda step: progress and progress(*step))
    trained = Model(problem.trained(result.weights), model.language.suffix[1:])
    steps = [step.objective for step in result.trace]
    return LearnedModel(trained, steps, result.stats, result.warnings)


def _psl_problem(
    model: Model, evidence: Any, query: Any, truth: Given, seed: int
) -> tuple[Problem, Any]:
    from onlinesrl.psl.learning.problem import grounded
    from onlinesrl.psl.learning.registry import AnyPslLearner

    if not isinstance(evidence, Mapping) or not isinstance(query, Mapping):
        raise UsageError("PSL: evidence and query are mappings from predicates to atoms")
    database = psl_database(model, evidence, query, truth)
    return grounded(model.program, {}, database, seed), AnyPslLearner


def _mln_problem(model: Model, evidence: Any, query: Any, seed: int) -> tuple[Problem, Any]:
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.mln.learning.problem import MlnProblem, checked
    from onlinesrl.mln.learning.registry import AnyMlnLearner

    predicates = (
        (*query,) if isinstance(query, Iterable) and not isinstance(query, str) else (query,)
    )
    if not predicates or not {*predicates} <= model.predicates.keys():
        names = ", ".join(sorted(model.predicates))
        raise UsageError(
            f"query: expected some of the predicates {names}, found {', '.join(map(str, predicates))}"
        )
    program, dialect = model.program, dialect_of(model.dialect)
    evidences = [evidence] if isinstance(evidence, Mapping | str | Path | Example) else evidence
    if not isinstance(evidences, Iterable):
        raise UsageError(f"evidence: expected worlds, found {evidences!r}")
    worlds = [_world(program, dialect, world, number) for number, world in enumerate(evidences, 1)]
    return checked(MlnProblem(program, worlds, predicates, dialect, seed=seed)), AnyMlnLearner


def _world(program: Any, dialect: Any, evidence: Any, number: int) -> list[GroundAtom]:
    """Return the atoms of a world; errors tell its number, from 1."""
    from onlinesrl.mln.learning.problem import atoms_of

    place = f"world {number}"
    try:
        if isinstance(evidence, Example):
            return atoms_of(example(evidence), program)
        if isinstance(evidence, Mapping | str | Path | Sequence):
            listed, atoms = atoms_given(program, read(evidence), dialect)
            if listed.types != program.types:
                raise DataError("list the constants of types in the model, not in a database")
            return atoms
    except ExampleError as error:
        raise ExampleError(f"{place}: {error.reason}", error.kind) from None
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    raise UsageError(
        f"{place}: expected an Example, atoms by predicate or .db files, found {evidence!r}"
    )
