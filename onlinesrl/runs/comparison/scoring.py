"""A configuration's score on a fold: a pass over the training part, then the test by averaged weights."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from onlinesrl.core.errors import DataError, ExampleError
from onlinesrl.core.evaluation.metric_table import METRIC_TABLE
from onlinesrl.core.evaluation.metrics import METRICS, Scored
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Example, Rows, arguments, unlabelled_atoms
from onlinesrl.core.learner import Learner, Outcome
from onlinesrl.core.operating_system import peak_bytes
from onlinesrl.runs.batch_learning import mln_examples, mln_problem
from onlinesrl.runs.comparison.candidates import Configured
from onlinesrl.runs.comparison.folds import Fold, by_time, divided
from onlinesrl.runs.config.mln_batch import MlnBatch
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.console import warn
from onlinesrl.runs.evaluation import labelled_examples
from onlinesrl.runs.inputs import make_reader
from onlinesrl.runs.run import new_learner
from onlinesrl.stream.process_batch import process_batch
from onlinesrl.stream.records import Record

MAP = "map"
SCORES = {key: entry.greater for key, entry in METRIC_TABLE.items() if entry.greater is not None}
"""What can be compared: the metrics of ``evaluate`` and MAP, and whether greater is better.

MAP is the mean, over groups of atoms that differ in their last argument only, of the average precision of
their probabilities (PSL: values).
"""

BATCH = {key: entry.batch for key, entry in METRIC_TABLE.items() if entry.batch is not None}
"""Those that are measured for batch learners too, by their names there."""


class Score(NamedTuple):
    """A score, the CPU seconds of learning, and the peak memory of the process in bytes."""

    value: float
    cpu_seconds: float
    peak_bytes: int


def examples_of(config: Configured) -> list[Example]:
    """Return the examples of the configured source, read to its end; lines that are none are told of.

    Where labels come separately, examples come in the order in which a run would learn from them. Raises
    DataError where more lines are none than ``limits.bad_share``, for batch learning any.
    """
    if isinstance(config, MlnBatch):
        return [example for _, example in mln_examples(config)]
    refused: list[Record] = []

    def refuse(record: Record, error: ExampleError) -> None:
        warn(f"{record.file}:{record.line}: left out: {error}")
        refused.append(record)

    examples = [*labelled_examples(config, refuse)]
    bad = len(refused)
    if bad > config.limits.bad_share * (bad + len(examples)):
        raise DataError(f"{bad:,} of {bad + len(examples):,} lines are no examples")
    return examples


def folds_of(config: Configured, k: int | None) -> list[Fold]:
    """Return the folds of the configured source: k, of linked rows by time; None: one for each group.

    Raises UsageError, and as ``examples_of``.
    """
    folds = divided(examples_of(config), k)
    if k is None or isinstance(config, MlnBatch) or config.source.linked is None:
        return folds
    assert config.labels is not None
    return by_time([*make_reader(config).good(lambda *_: None)], k, config.labels.pending)


def score(config: Configured, fold: Fold, metric: str) -> Score:
    """Learn from the training part of a fold, and score its test part.

    Raises DataError where more examples are bad than ``limits.bad_share``, or the metric is not defined.
    """
    if isinstance(config, MlnBatch):
        value, seconds = _batch(config, fold, metric)
    else:
        value, seconds = _online(config, fold, metric)
    if value is None:
        reason = "no atom of the test part is true, or predictions have no scores"
        raise DataError(f"{metric} is not defined: {reason}")
    return Score(value, seconds, peak_bytes())


def _online(config: Config, fold: Fold, metric: str) -> tuple[float | None, float]:
    """Return the score of one pass, and its CPU seconds."""
    learner = new_learner(config)
    learner.compile()
    began = time.process_time()
    metrics = Metrics()
    for batch in _batches(fold.training, config.batch):
        _add(metrics, learner, batch, learning=True, limit=config.limits.bad_share)
    seconds = time.process_time() - began
    if metric == MAP:
        parts = _batches(fold.test, config.batch)
        outcomes = [o for batch in parts for o in learner.predict(batch, not learner.valued)]
        return mean_average_precision(fold.test, outcomes), seconds
    metrics = Metrics()
    for batch in _batches(fold.test, config.batch):
        _add(metrics, learner, batch, learning=False, limit=config.limits.bad_share)
    return metrics.snapshot().get(metric), seconds


def _batch(config: MlnBatch, fold: Fold, metric: str) -> tuple[float | None, float]:
    """Return the score of batch learning, and its CPU seconds. Raises DataError for an online metric."""
    if metric not in BATCH:
        raise DataError(
            f"{metric} is not measured for batch learners; take one of {', '.join(BATCH)}"
        )
    began = time.process_time()
    problem, test = (
        mln_problem(config, ((f"example {e.id}", e) for e in part), None)
        for part in (fold.training, fold.test)
    )
    weights = config.learner.learn(problem, lambda _: None).weights
    seconds = time.process_time() - began
    scored = [*problem.predicted(weights, test).values()]
    truth, values, groups = map(np.concatenate, zip(*scored, strict=True))
    return METRICS[BATCH[metric]].measure(truth, values, groups), seconds


def _add(
    metrics: Metrics, learner: Learner, batch: Sequence[Example], learning: bool, limit: float
) -> None:
    """Take some examples, and count them. Raises DataError where too many are bad."""
    outcomes, tally = process_batch(learner, batch, learning)
    metrics.add(tally, len(batch))
    bad = [(e, o) for e, o in zip(batch, outcomes, strict=True) if o.error is not None]
    if bad and metrics.bad > limit * metrics.examples:
        example, outcome = bad[0]
        share = f"{metrics.bad:,} of {metrics.examples:,} examples are bad"
        raise DataError(f"{share}, such as {example.id}: {outcome.error}")


def _batches(examples: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    return (examples[at : at + size] for at in range(0, len(examples), size))


def mean_average_precision(
    examples: Sequence[Example], outcomes: Sequence[Outcome]
) -> float | None:
    """Return MAP of predictions with marginals (PSL: values); None where no group has a true atom.

    Raises DataError at a bad example.
    """
    groups: dict[tuple[str, ...], int] = {}
    rows = [
        (true, value, groups.setdefault(group, len(groups)))
        for example, outcome in zip(examples, outcomes, strict=True)
        for group, true, value in _ranked(example, outcome)
    ]
    truth, values, groups_ = np.array(rows).reshape(-1, 3).T
    return METRICS["map"].measure(*Scored(truth, values, groups_.astype(np.int64)))


def _ranked(example: Example, outcome: Outcome) -> Iterator[tuple[tuple[str, ...], float, float]]:
    """Yield group, truth and probability or value of every open atom that is labelled."""
    prediction = outcome.prediction
    if prediction is None:
        raise DataError(f"example {example.id}: {outcome.error}")
    truth = dict(_valued(example.truth or {}))
    unlabelled = unlabelled_atoms(example)
    for atom, value in _valued(prediction.marginals or prediction.predicted):
        if (atom[0], atom[1:]) not in unlabelled:
            yield (str(example.id), *atom[:-1]), truth.get(atom, 0.0), value


def _valued(atoms: Rows) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield every atom with its value, 1 where none is given."""
    for name, rows in atoms.items():
        for atom in rows:
            key = (name, *map(str, arguments(atom)))
            yield key, 1.0 if isinstance(atom, list) else atom.value
