"""Trained weights on the files of a source, each by a worker; the lines are those of one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from onlinesrl.core.errors import UsageError
from onlinesrl.core.evaluation.prequential import Metrics, known_sum
from onlinesrl.core.interrupt import whole
from onlinesrl.core.learner import Learner
from onlinesrl.core.parallel.config import PoolSection, opened
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.console import say, told_to
from onlinesrl.runs.evaluation import predictions_of, tell
from onlinesrl.runs.inputs import make_reader
from onlinesrl.runs.run import compile_kernels, trained_learner
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.predictions import answer
from onlinesrl.stream.source import SourceSection


@dataclass(frozen=True)
class _Trained:
    """A configuration and the weights to predict with; a worker makes the learner once."""

    key: str
    path: Path
    config: Config = field(compare=False)


class _Predicted(NamedTuple):
    """The lines of a file, what was said, the groups met, and the counts of examples."""

    lines: bytes
    said: list[str]
    groups: list[str | None]
    examples: int
    bad: int
    certified: int | None


def predicted(config: Config, trained: Path, section: PoolSection) -> Iterator[bytes]:
    """Yield the lines of the predictions, file after file.

    Raises UsageError where the source is not of files, or where an example's prediction may depend on others.
    """
    sources = config.source.by_file()
    common = _Trained(json.dumps([config.as_dict(), str(trained)]), trained, config)
    learner = _made(common)
    if not learner.apart:
        raise UsageError(
            "--distribute: all examples share the constants of open types, so that files cannot be "
            "predicted apart; leave it out"
        )
    compile_kernels(learner, say)  # so that forks have it
    choice, metrics = Choice(config.source.only, config.source.without), Metrics()
    with opened(section) as pool, whole():
        for result in pool.map(_predicted, common, sources):
            for message in result.said:
                say(message)
            choice.restore(result.groups)
            metrics.examples += result.examples
            metrics.bad += result.bad
            metrics.certified = known_sum(metrics.certified, result.certified)
            yield result.lines
    tell(choice, metrics)


@lru_cache(maxsize=1)
def _made(common: _Trained) -> Learner:
    return trained_learner(common.config, common.path, margins=True)


def _predicted(common: _Trained, source: SourceSection) -> _Predicted:
    """Predict a file; a part of ``Pool.map``."""
    config, metrics = common.config.model_copy(update={"source": source}), Metrics()
    reader, messages = make_reader(config), list[str]()
    with told_to(messages.append):
        predictions_ = predictions_of(reader, _made(common), config.batch, metrics)
        lines = b"".join(answer(*triple) + b"\n" for triple in predictions_ if triple is not None)
    groups = reader.choice.save()
    return _Predicted(lines, messages, groups, metrics.examples, metrics.bad, metrics.certified)
