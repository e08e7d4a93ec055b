"""One shard in one round: a learner takes the merged state, learns some examples, and returns its gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from onlinesrl.core.errors import DataError, ExampleError, printable
from onlinesrl.core.evaluation.precision_at_k import Budget, PrecisionAtK
from onlinesrl.core.example import Example
from onlinesrl.core.learner import ExampleLearner, Tally
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.stream.crash_notes import CrashNote
from onlinesrl.stream.dead_letters import letter
from onlinesrl.stream.decoding import Decoded, ExampleReader
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.process_batch import process_batch
from onlinesrl.stream.recent_examples import Shown
from onlinesrl.stream.schedule import rare_collections
from onlinesrl.stream.scored_atoms import count_top
from onlinesrl.stream.source import SourcePosition


class ShardTask(NamedTuple):
    """How a shard learns: at most so many examples, so many in a micro-batch.

    ``strict``: a bad example is an error; ``settle``: so is an unsolved one. An example in which
    ``crashes`` processes died is bad; 0: never. ``top`` has the predicates whose most probable atoms count.
    """

    examples: int
    batch: int
    strict: bool
    settle: bool
    crashes: int = 0
    top: Mapping[str, Budget] = {}


@dataclass
class Learned:
    """What came of a shard; ``position`` None: it has been read to its end."""

    position: SourcePosition | None
    examples: int = 0
    gain: Any = None
    tombstones: int = 0
    tally: Tally | None = None
    top: Mapping[str, PrecisionAtK] = field(default_factory=dict)
    predictions: bytes = b""
    letters: bytes = b""
    shown: list[Any] = field(default_factory=list)
    slowest: list[dict[str, Any]] = field(default_factory=list)
    groups: list[str | None] = field(default_factory=list)


def learn(
    learner: ExampleLearner,
    state: State,
    reader: ExampleReader,
    position: SourcePosition,
    task: ShardTask,
    note: CrashNote | None = None,
) -> Learned:
    """Learn the next examples of a reader from a state; ``note`` finds those that crash the process.

    Raises DataError, StorageError.
    """
    learner.restore(*state)
    learner.slowest.restore([])
    learned, recent, tallies = Learned(position), Shown(), list[Tally]()
    learned.top = {name: PrecisionAtK(budget, math.inf) for name, budget in task.top.items()}
    reader.open(position)
    with rare_collections():
        while room := min(task.batch, task.examples - learned.examples):
            batch = reader.next_batch(note.room(learned.examples, room) if note else room)
            if batch is None:
                break
            first, n = learned.examples, sum(content is not None for _, content in batch.items)
            learned.examples += n
            learned.tombstones += len(batch.items) - n
            if n:
                tallies.append(_step(learner, batch.items, learned, recent, task, note, first))
    learned.position = reader.snapshot() if learned.examples == task.examples else None
    if tallies:
        learned.tally, learned.gain = reduce(add, tallies), learner.gain(state)
    learned.shown, learned.slowest = recent.whole(), learner.slowest.found
    learned.groups = reader.choice.save()
    return learned


def _step(
    learner: ExampleLearner,
    part: Sequence[Decoded],
    learned: Learned,
    recent: Shown,
    task: ShardTask,
    note: CrashNote | None,
    number: int,
) -> Tally:
    """Learn a micro-batch that begins with example ``number``; write its predictions and dead letters.

    Raises DataError for a bad example that ends the run.
    """
    kinds = Example | ExampleError  # a shard has no separate labels
    work = [(record, content) for record, content in part if isinstance(content, kinds)]
    items = [content for _, content in work]
    outcomes, tally = process_batch(learner, items, True, note, number)
    count_top(learned.top, items, outcomes)
    results = [Result(*pair, outcome) for pair, outcome in zip(work, outcomes, strict=True)]
    for result in results:
        record, outcome, name = result.record, result.outcome, result.name
        if outcome.prediction is None:
            reason = outcome.error or ""
            if task.strict or (task.settle and outcome.unsolved):
                suffix = f" (example {printable(name)})" if name else ""
                raise DataError(
                    f"{record.file}:{record.line}: {reason}{suffix}; nothing of its round was kept"
                )
            learned.letters += b"".join(letter(record, reason, name))
    learned.predictions += b"".join(result.answer + b"\n" for result in results)
    recent.take(results)
    return tally
