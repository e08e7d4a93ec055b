"""What a worker does with a shard, and how a run in rounds is put together."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from onlinesrl.core.background import Background
from onlinesrl.core.errors import UsageError
from onlinesrl.core.language import Program, counted
from onlinesrl.core.learner import ExampleLearner
from onlinesrl.core.parallel.config import opened
from onlinesrl.core.parallel.executors import Forks
from onlinesrl.core.parallel.task_result import DEATHS
from onlinesrl.runs.config.schema import Config, DistributeSection
from onlinesrl.runs.inputs import background, record_decoder
from onlinesrl.stream.crash_notes import CrashNote, CrashNotes
from onlinesrl.stream.decoding import ExampleReader
from onlinesrl.stream.distributed import worker
from onlinesrl.stream.distributed.coordinator import Common, Distribution, Part
from onlinesrl.stream.distributed.splits import pieces_of
from onlinesrl.stream.distributed.worker import Learned, ShardTask


@dataclass(frozen=True)
class Recipe:
    """What a learner is made of, known by ``key``: a worker needs no file but the examples."""

    key: str
    config: Config = field(compare=False)
    program: Program = field(compare=False)
    facts: Background = field(compare=False)


def distribution(
    config: Config, section: DistributeSection, strict: bool, until: str | int | None
) -> Distribution:
    """Return where and how the shards of a run are learned. Raises ConfigError, UsageError."""
    if until == "forever":
        raise UsageError("--until forever: a distributed run ends with the files that it has cut")
    program = config.language.load(config.model, config.dialect)
    files = [config.model, *(config.source.background or ())]
    contents = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    key = json.dumps([config.as_dict(), contents], sort_keys=True)
    recipe = Recipe(key, config, program, background(config, program))
    made(recipe)  # so that forks have it
    settle = config.inference.unsolved == "stop"
    budgets = {} if config.metrics.top is None else dict.fromkeys(config.query, config.metrics.top)
    return Distribution(
        pool=lambda: opened(section),
        learned=learned,
        recipe=recipe,
        shards=section.shards,
        asked=ShardTask(
            section.round, config.batch, strict, settle, config.limits.crashes, budgets
        ),
        by_dual=section.by_dual(config.learner),
    )


@lru_cache(maxsize=1)
def made(recipe: Recipe) -> ExampleLearner:
    """Return the learner of a recipe, compiled; only merges drop weights."""
    config = recipe.config
    unlimited = config.learner.model_copy(update={"max_weights": None})
    config = config.model_copy(update={"learner": unlimited})
    language = config.language
    by = counted(language, recipe.program, config, config.metrics.by)
    learner = language.learner(config, recipe.program, by, False, recipe.facts)
    learner.compile()
    return learner


class _Noted(NamedTuple):
    """A part, and where it is noted which examples are being processed."""

    part: Part
    path: Path


def learned(common: Common, part: Part) -> Learned:
    """Learn a shard's next examples; a part of ``Pool.map``.

    Where a worker died over it already, a fork learns them, so that this process sees which example kills.
    """
    task = common.asked
    if not (part.suspect and task.crashes):
        return _learned(common, part)
    forks = Forks(1, most_deaths=DEATHS + (task.crashes + 1) * task.examples)
    with closing(forks), TemporaryDirectory(prefix="onlinesrl-") as folder:
        return next(forks.map(_noted, common, [_Noted(part, Path(folder, "started"))]))


def _noted(common: Common, noted: _Noted) -> Learned:
    note = CrashNotes(noted.path, common.asked.crashes)
    with closing(note):
        return _learned(common, noted.part, note)


def _learned(common: Common, part: Part, note: CrashNote | None = None) -> Learned:
    config: Any = common.recipe.config
    source = config.source
    learner = made(common.recipe)
    reader = ExampleReader(
        pieces_of(source, part.pieces), record_decoder(config, source.form(), learner)
    )
    header, arrays = common.state
    state = {**header, "seen": header.get("seen", 0) + part.before}, arrays  # audits go by it
    with closing(reader.source):
        return worker.learn(learner, state, reader, part.position, common.asked, note)
