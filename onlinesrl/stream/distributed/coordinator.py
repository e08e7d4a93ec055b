"""Learning in rounds of shards: each starts from the same state, and what they gained is merged.

What is learned depends on the files, the shards and the round, never on where the shards are learned. A
checkpoint after every round has the position of each shard. Outputs are in the order of the rounds and,
within one, of the shards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.learner import Mergeable
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.core.online.reservoir import unsampled
from onlinesrl.core.parallel.executors import Pool
from onlinesrl.stream.distributed.file_splits import START, Cut
from onlinesrl.stream.distributed.worker import Learned, ShardTask
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped
from onlinesrl.stream.source import SourcePosition
from onlinesrl.stream.trainer import Trainer


class Common(NamedTuple):
    """What all shards of a round have in common; ``recipe`` says how to make the learner."""

    recipe: Any
    state: State
    asked: ShardTask


class Part(NamedTuple):
    """A shard's pieces, and where it goes on; ``suspect``: a worker has died over it.

    So many examples of the round come ``before`` its own.
    """

    pieces: Sequence[Any]
    position: SourcePosition
    before: int
    suspect: bool = False


@dataclass
class Distribution:
    """Where and how shards are learned."""

    pool: Callable[[], AbstractContextManager[Pool]]
    learned: Callable[[Common, Part], Learned]
    recipe: Any
    shards: int
    asked: ShardTask
    by_dual: bool


class Rounds(Trainer):
    """A run in rounds of shards. Raises what ``Trainer`` raises, and what ``Pool.map`` does."""

    def __init__(self, distribution: Distribution, pool: Pool, *arguments: Any):
        super().__init__(*arguments)
        self.distribution = distribution
        self.pool = pool
        self.pieces: list[list[Any]] = []

    def open(self, stopper: ShutdownSignal) -> None:
        """Open the sink, find the pieces, and compare them with what they were.

        Raises StorageError, DataError.
        """
        state, source, shards = self.state, self.reader.source, self.distribution.shards
        state.sink.open(state.sink_state, self.outputs.predictions)
        assert isinstance(source, Cut)
        position = state.position
        if position is not None and len(position["shards"]) != shards:
            folder = self.checkpointer.folder.checkpoints
            raise Misfit(f"{folder}: the checkpoint has other shards than the run")
        with suppress(Stopped), stopper.waiting():
            stamp = source.begin(None if position is None else position["pieces"], self.pool)
            self.pieces = [
                [piece for piece in source.pieces if piece.shard == n] for n in range(shards)
            ]
            if position is None:
                ats = [START] * shards
                state.position = {"rounds": 0, "share": None, "pieces": stamp, "shards": ats}

    def advance(self, stopper: ShutdownSignal) -> None:
        """Learn a round, merge it, tell the observers, and save; one that a signal ends is not kept."""
        began, distribution, position = time.monotonic(), self.distribution, self.state.position
        assert position is not None
        positions = list(position["shards"])
        open_ = [n for n, at in enumerate(positions) if at is not None]
        parts = [
            Part(self.pieces[n], positions[n], place * distribution.asked.examples)
            for place, n in enumerate(open_)
        ]
        start = unsampled(self.state.learner.save())
        common = Common(distribution.recipe, start, distribution.asked)
        again = partial(Part._replace, suspect=True)
        try:
            with stopper.waiting():
                results = [*self.pool.map(distribution.learned, common, parts, again)]
        except Stopped:
            return
        for n, result in zip(open_, results, strict=True):
            positions[n] = result.position
            self.add(result)
        self.state.position = {**position, "shards": positions}
        written: list[dict[str, Any]] = []
        if gains := [result.gain for result in results if result.gain is not None]:
            learner = self.state.learner
            assert isinstance(learner, Mergeable)
            share = learner.merge(gains, distribution.by_dual)
            self.state.position |= {"rounds": position["rounds"] + 1, "share": share}
            written = [self.write_metrics()]
        self.drained = not any(at is not None for at in positions)
        for observer in self.observers:
            observer.batch(self.progress([], [], time.monotonic() - began, written))
        self.check_share(at_end=True)
        self.save()
        for observer in self.observers:
            observer.saved()

    def note_position(self) -> None:
        """Do nothing: rounds note where each shard is."""

    def add(self, result: Learned) -> None:
        """Write what a shard predicted and refused, and count it."""
        state = self.state
        self.outputs.predictions.write(result.predictions)
        self.outputs.dead.write(result.letters)
        if result.tally is not None:
            state.metrics.add(result.tally, result.examples)
        state.metrics.tombstones += result.tombstones
        for name, top in result.top.items():
            state.top[name].merge(top)
        state.shown.extend(result.shown)
        state.learner.slowest.add(result.slowest)
        state.choice.restore(result.groups)

    def line(self) -> dict[str, Any]:
        """Return a line of metrics, with the rounds so far and gamma of the last merge."""
        position = self.state.position or {}
        return {
            **super().line(),
            "rounds": position.get("rounds", 0),
            "share": position.get("share"),
        }
