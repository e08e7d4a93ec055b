"""The micro-batches of a run, one after the other; another thread may read the next ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from onlinesrl.core.errors import DataError, ExampleError
from onlinesrl.core.example import Example
from onlinesrl.core.learner import AHEAD, Item, Prefetching
from onlinesrl.core.parallel.threads import BackgroundWorker
from onlinesrl.stream.decoding import READ_BYTES, Batch, ExampleReader, unread
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped

SECONDS = 1.0
"""How long a micro-batch should take, so that slow examples delay no progress, checkpoint or signal."""
HELD = 2 * READ_BYTES
"""Reading ahead stops at so many bytes, those of the caller's micro-batch included."""


class Pace:
    """Finds ``most``, the number of examples that take about a second. It begins with one.

    Results do not depend on the size of micro-batches.
    """

    def __init__(self) -> None:
        self.most = 1

    @contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """Return a context that measures how long a micro-batch of this size takes."""
        began = time.monotonic()
        yield
        self.heed(size, time.monotonic() - began)

    def heed(self, size: int, seconds: float) -> None:
        """Halve the size of a micro-batch that took too long; quadruple that of one that took far less."""
        if seconds > SECONDS:
            self.most = max(size // 2, 1)
        elif seconds < SECONDS / 8:
            self.most = max(self.most, 4 * size)


class Batches:
    """Reads micro-batches, each up to where something is due.

    ``count`` returns the numbers of steps and of examples so far; ``room`` returns how large the micro-batch
    after so many may be. If ``threaded``, another thread reads the next ones, and the learner works ahead on
    them, while the caller processes one. ``changed`` is called before the error that the source has changed.
    """

    def __init__(
        self,
        reader: ExampleReader,
        learner: Prefetching,
        threaded: bool,
        count: Callable[[], tuple[int, int]],
        room: Callable[[int, int], int],
        changed: Callable[[], object],
    ) -> None:
        self.reader = reader
        self.learner = learner
        self.threaded = threaded
        self.count = count
        self.room = room
        self.changed = changed
        self.read = self.given = 0
        """The bytes that were read, and the bytes of those micro-batches that the caller has processed."""
        self.at = 0, 0
        """What ``count`` will return when all that was read has been processed."""
        self.pace = Pace()

    def each(self, position: dict[str, Any] | None, stopper: ShutdownSignal) -> Generator[Batch]:
        """Yield the micro-batches after a position, until the source ends or a signal arrives.

        Raises DataError, StorageError where the source cannot be read on.
        """
        records = self.reader.records(position)
        with BackgroundWorker(self.threaded) as worker:
            self.learner.quiet = worker.wait
            try:
                while not stopper.asked and (batch := self._next(records, worker)) is not None:
                    with self.pace.taking(len(batch.batch)):
                        yield batch
                    self.given += batch.size
            finally:
                self.learner.quiet = lambda: None

    def _next(self, records: Iterator[Record | None], worker: BackgroundWorker) -> Batch | None:
        """Return the next micro-batch, and start to read those after it. Return None at the end.

        It is shorter if the source has no more for now.
        """
        batch: Batch | None = None
        try:
            while len(worker) and batch is None:
                batch = worker.take()
            if batch is None:  # nothing is ahead
                self.read, self.at = self.given, self.count()
                batch = self._read(records)
        except Stopped:  # while it waited for brokers
            return None
        except DataError:
            self.changed()
            raise
        if batch is None:
            return None
        self.reader.choice.note(batch.groups)
        if not batch.batch and not batch.dry:
            return None
        if self.threaded:
            if batch.batch:
                self.learner.turn(_items(batch))
            while len(worker) < AHEAD:
                worker.begin(self._read, records)
        return batch

    def _read(self, records: Iterator[Record | None]) -> Batch | None:
        """Read a micro-batch; with threads the learner works ahead on it.

        Return None, and read nothing, at the end of the run or where enough was read ahead.
        """
        if self.read - self.given >= HELD or not (room := self.room(*self.at)):
            return None
        batch = self.reader.take(records, min(room, self.pace.most))
        if unread(batch.batch):  # only decoding again tells how many of them count as examples
            batch = batch._replace(size=HELD)
        self.read += batch.size
        if self.threaded and batch.batch:
            items, (steps, examples) = _items(batch), self.at
            self.at = steps + len(items), examples + len(items)
            self.learner.ahead(items)
        return batch


def _items(batch: Batch) -> list[Item]:
    """Return the examples of a source without labels."""
    return [item for _, item in batch.batch if isinstance(item, Example | ExampleError)]
