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
from typing import Any, NamedTuple

from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.core.parallel.executors import Pool
from onlinesrl.core.timing import KEPT
from onlinesrl.stream.distributed.file_splits import START, Cut
from onlinesrl.stream.distributed.worker import Learned, ShardTask
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped
from onlinesrl.stream.source import SourcePosition
from onlinesrl.stream.trainer import Trainer, Watcher


class Common(NamedTuple):
    """What all shards of a round have in common; ``recipe`` says how to make the learner."""

    recipe: Any
    state: State
    asked: ShardTask


class Part(NamedTuple):
    """A shard's pieces, and where it goes on; ``suspect``: a worker has died over it."""

    pieces: Sequence[Any]
    position: SourcePosition
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

    def __init__(self, distribution: Distribution, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.distribution = distribution

    def run(self, watcher: Watcher, stopper: ShutdownSignal) -> None:
        """Learn until all shards have ended or a signal asks to stop; a round it interrupts is not kept."""
        self.started = time.monotonic()
        self.drained = self.finished = False
        self.sink.open(self.sink_state, self.predictions)
        with suppress(Stopped), self.distribution.pool() as pool:
            with stopper.waiting():
                self.begin(pool)
            while not (stopper.asked or self.enough or self.finished):
                self.finished = not self.round(pool, stopper)
                watcher.update(self.line, self.metrics.examples)
                self.check_share(at_end=True)
                self.save()
                watcher.saved()
        if self.finished:
            self.reader.choice.check()
            self.drained = True
        self.save()
        self.seconds += time.monotonic() - self.started

    def begin(self, pool: Pool) -> None:
        """Find the pieces, and compare them with what they were. Raises StorageError, DataError."""
        source = self.reader.source
        assert isinstance(source, Cut)
        if self.position is not None and len(self.position["shards"]) != self.distribution.shards:
            raise Misfit(f"{self.folder.checkpoints}: the checkpoint has other shards than the run")
        known_pieces = None if self.position is None else self.position["pieces"]
        stamp = source.begin(known_pieces, pool)
        if self.position is None:
            ats = [START] * self.distribution.shards
            self.position = {"rounds": 0, "share": None, "pieces": stamp, "shards": ats}
        self.pieces = [
            [piece for piece in source.pieces if piece.shard == n]
            for n in range(self.distribution.shards)
        ]

    def round(self, pool: Pool, stopper: ShutdownSignal) -> bool:
        """Learn a round and merge it; False where there was no example left."""
        assert self.position is not None
        distribution, positions = self.distribution, list(self.position["shards"])
        open_ = [n for n, at in enumerate(positions) if at is not None]
        parts = [Part(self.pieces[n], positions[n]) for n in open_]
        common = Common(distribution.recipe, self.learner.save(), distribution.asked)
        shards = pool.map(distribution.learned, common, parts, lambda p: p._replace(suspect=True))
        with stopper.waiting():
            results = [*shards]
        for n, result in zip(open_, results, strict=True):
            positions[n] = result.position
            self.add(result)
        self.position = {**self.position, "shards": positions}
        if gains := [result.gain for result in results if result.gain is not None]:
            share = self.learner.merge(gains, distribution.by_dual)
            self.position |= {"rounds": self.position["rounds"] + 1, "share": share}
            self.write_metrics()
        return any(at is not None for at in positions)

    def add(self, result: Learned) -> None:
        """Write what a shard predicted and refused, and count it."""
        self.predictions.write(result.predictions)
        self.dead.write(result.letters)
        if result.tally is not None:
            self.metrics.add(result.tally, result.examples)
        self.metrics.tombstones += result.tombstones
        self.shown.extend(result.shown)
        slowest = [*self.learner.slowest.found, *result.slowest]
        self.learner.slowest.found = sorted(slowest, key=lambda example: -example["seconds"])[:KEPT]
        self.reader.choice.restore(result.groups)

    def line(self) -> dict[str, Any]:
        """Return a line of metrics, with the rounds so far and gamma of the last merge."""
        position = self.position or {}
        return {
            **super().line(),
            "rounds": position.get("rounds", 0),
            "share": position.get("share"),
        }
