"""The micro-batches of a run, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from onlinesrl.core.errors import DataError
from onlinesrl.stream.decoding import Batch, ExampleReader
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped

SECONDS = 1.0
"""How long a micro-batch should take, so that slow examples delay no progress, checkpoint or signal."""


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


def micro_batches(
    reader: ExampleReader,
    position: dict[str, Any] | None,
    room: Callable[[], int],
    stopper: ShutdownSignal,
    changed: Callable[[], object],
) -> Generator[Batch]:
    """Yield the micro-batches after a position, until the source ends or a signal arrives.

    Each has at most ``room`` examples, 0 at the end of the run. ``changed`` is called before the error that
    the source has changed. Raises DataError, StorageError where the source cannot be read on.
    """
    records, pace = reader.records(position), Pace()
    while not stopper.asked and (most := room()):
        try:
            batch = reader.take(records, min(most, pace.most))
        except Stopped:  # while it waited for brokers
            return
        except DataError:
            changed()
            raise
        reader.choice.note(batch.groups)
        if not batch.batch and not batch.dry:
            return
        with pace.taking(len(batch.batch)):
            yield batch
