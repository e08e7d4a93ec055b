"""The micro-batches of a run, one after the other; another thread may read the next one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from onlinesrl.core.errors import DataError, ExampleError
from onlinesrl.core.example import Example
from onlinesrl.core.learner import Item, Learner
from onlinesrl.core.threads import Aside
from onlinesrl.stream.examples import Reader, Taken
from onlinesrl.stream.files import Record
from onlinesrl.stream.stopper import Stopped, Stopper


class Batches:
    """Reads micro-batches, each up to where something is due.

    ``room`` says how large the micro-batch after so many more examples may be. ``threaded``: the next one is
    read, and the learner works ahead on it, while the caller has one. ``changed`` is called where the source
    has changed, before that is raised.
    """

    def __init__(
        self,
        reader: Reader,
        learner: Learner,
        threaded: bool,
        room: Callable[[int], int],
        changed: Callable[[], object],
    ) -> None:
        self.reader = reader
        self.learner = learner
        self.threaded = threaded
        self.room = room
        self.changed = changed

    def each(self, position: dict[str, Any] | None, stopper: Stopper) -> Generator[Taken]:
        """Yield the micro-batches after a position, until the source ends or a signal comes.

        Raises DataError, StorageError where the source cannot be read on.
        """
        records = self.reader.records(position)
        with Aside(self.threaded) as aside:
            self.learner.quiet = aside.wait
            try:
                while not stopper.asked and (taken := self._next(records, aside)) is not None:
                    yield taken
            finally:
                self.learner.quiet = lambda: None

    def _next(self, records: Iterator[Record | None], aside: Aside) -> Taken | None:
        """Read the next micro-batch, and have the one after it read; None: the end.

        It is shorter if the source has no more for now.
        """
        room = self.room(0)
        if not room:
            return None
        try:
            taken: Taken = aside.take() if aside.busy else self._read(records, room)
        except Stopped:  # while it waited for brokers
            return None
        except DataError:
            self.changed()
            raise
        for group in taken.groups:
            self.reader.choice.takes(group)
        if not taken.batch and not taken.dry:
            return None
        if self.threaded:
            self._go_on(records, aside, taken)
        return taken

    def _go_on(self, records: Iterator[Record | None], aside: Aside, taken: Taken) -> None:
        """Have the micro-batch after one read, by the other thread."""
        if taken.batch:
            self.learner.turn(_items(taken), taken.ahead)
        if room := self.room(len(taken.batch)):
            aside.begin(self._read, records, room)

    def _read(self, records: Iterator[Record | None], room: int) -> Taken:
        """Read a micro-batch; with threads the learner works ahead on it."""
        taken = self.reader.take(records, room)
        if not self.threaded or not taken.batch:
            return taken
        return taken._replace(ahead=self.learner.ahead(_items(taken)))


def _items(taken: Taken) -> list[Item]:
    """Return the examples of a source without labels."""
    return [item for _, item in taken.batch if isinstance(item, Example | ExampleError)]
