"""What clients ask of a run: examples to predict now, and examples to learn from, kept in a journal.

The journal is the run's source: `requests.jsonl` in its folder has a line for each example that was sent
to be learned from, in the one order in which they are learned. A line is on the disk before the run
reads it, so that what a client was told of is learned again, with the same bits, by a run that goes on
from a checkpoint before it. Examples to predict leave no trace.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from types import FrameType
from typing import Any, ClassVar

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example
from onlinesrl.core.learner import Outcome
from onlinesrl.stream.answers import answer
from onlinesrl.stream.examples import micro_batch
from onlinesrl.stream.files import Record
from onlinesrl.stream.folder import OutputFile
from onlinesrl.stream.loop import Loop
from onlinesrl.stream.opened import WAIT_SECONDS
from onlinesrl.stream.protocols import Setting, Source
from onlinesrl.stream.received import Received
from onlinesrl.stream.stopper import Stopper

WAITING = 128
"""Requests in the queue, past which no more are taken."""


class Untaken(Exception):
    """The run ended before it took a request: nothing of it was learned."""


class Unanswered(Exception):
    """The run ended after it had taken a request: it may have been learned, or will be by the next."""


class Asked:
    """A request: its examples, one a line without its end, and what is said of each."""

    def __init__(self, lines: Sequence[bytes], learn: bool) -> None:
        self.lines = lines
        self.learn = learn
        self.answers = [b""] * len(lines)
        self.bad = 0
        self.left = len(lines)
        self.done: Future[None] = Future()

    def answer(self, place: int, said: bytes, bad: bool) -> None:
        """Take what is said of the example in a place."""
        self.answers[place] = said
        self.bad += bad
        self.left -= 1
        if not self.left:
            self.done.set_result(None)


class Requests(Stopper):
    """The queue between a server, which puts in its own thread, and a run, which takes.

    It is the run's Stopper, too: a first signal ends the taking of requests, and the run stops when it
    has answered those in the queue, whatever is searched for them; at once where it has not read its
    journal yet.
    """

    leaves_searches: ClassVar[bool] = False
    ended = False

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = False
        self.batch = 1
        self.predicting: float | None = None
        self._queue = SimpleQueue[Asked]()
        self._lock = Lock()
        self._taken: list[Asked] = []
        self._lines: dict[int, tuple[Asked, int]] = {}

    @property
    def accepting(self) -> bool:
        """Whether requests are taken: from where the journal has been read to a signal."""
        return self.opened and not self.closed

    def put(self, asked: Asked) -> bool:
        """Add a request; False: it is not taken."""
        with self._lock:
            room = self.accepting and self._queue.qsize() < WAITING
            if room:
                self._queue.put(asked)
            return room

    def __exit__(self, *error: object) -> None:
        """Tell those who still wait that the run has ended."""
        super().__exit__(*error)
        with self._lock:
            self.closed = True
        for asked in self._taken:
            if not asked.done.done():
                asked.done.set_exception(Unanswered())
        with suppress(Empty):
            while True:
                asked = self._queue.get_nowait()
                if asked.done.set_running_or_notify_cancel():
                    asked.done.set_exception(Untaken())

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.closed:
            raise KeyboardInterrupt
        self.closed = True
        self.acknowledge()
        self.told()
        self.asked = not self.opened

    def close(self) -> None:
        """Nothing: the server is closed by whom it was opened."""

    # the run's side -------------------------------------------------------------------------------

    def make(self, setting: Setting) -> Source:
        """Return the source that a run has in what clients send."""
        assert setting.folder is not None
        self.batch = setting.batch
        return Received(self, setting.folder.requests, "requests", setting)

    def serve(self, loop: Loop) -> None:
        """Answer from a loop that has not started yet."""
        self.reader, self.learner = loop.reader, loop.learner
        loop.answered = self.answered

    def answered(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Give the run's answer to who waits for it: one that is read again, nobody waits for."""
        if record.line in self._lines:
            asked, place = self._lines.pop(record.line)
            asked.answer(place, answer(record, item, outcome), outcome.prediction is None)

    def take(self, journal: OutputFile, line: int) -> None:
        """Wait, not for long, for requests: predict, and write what is to be learned to the journal.

        All that the journal has, which is so many lines, has been learned. It is as many requests as
        have a micro-batch's examples in all.
        """
        for number, (asked, place) in self._lines.items():  # left out, or the truth of another
            asked.answer(place, b'{"line":%d}' % number, False)
        self._lines = {}
        self.opened = True
        self._taken = self._take()
        self.asked |= self.closed and not self._taken
        self._predict([asked for asked in self._taken if not asked.learn])
        for asked in self._taken:
            for place, text in enumerate(asked.lines if asked.learn else ()):
                line += 1
                journal.write(text + b"\n")
                self._lines[line] = asked, place
        if self._lines:
            journal.flush()

    def _take(self) -> list[Asked]:
        found: list[Asked] = []
        with suppress(Empty):
            found.append(self._queue.get(timeout=WAIT_SECONDS))
            while sum(len(asked.lines) for asked in found) < self.batch:
                found.append(self._queue.get_nowait())
        return [asked for asked in found if asked.done.set_running_or_notify_cancel()]

    def _predict(self, requests: Sequence[Asked]) -> None:
        """Predict with the weights as they are, in micro-batches."""
        lines = [(asked, place) for asked in requests for place in range(len(asked.lines))]
        items = (self._item(asked.lines[place], place + 1) for asked, place in lines)
        first = 0
        while batch := micro_batch(items, self.batch)[0]:
            self.predicting = time.monotonic()
            examples = [item for _, item in batch if isinstance(item, Example | ExampleError)]
            outcomes = self.learner.predict(examples)
            for (record, item), outcome in zip(batch, outcomes, strict=True):
                asked, place = lines[first]
                asked.answer(place, answer(record, item, outcome), outcome.prediction is None)
                first += 1
        self.predicting = None

    def _item(self, text: bytes, line: int) -> tuple[Record, Example | ExampleError]:
        """Read an example to predict."""
        too_long = len(text) > self.reader.source.max_bytes
        record = Record(text, "", line, 0, 0, too_long=too_long)
        found = self.reader.example(record)
        if not isinstance(found, Example | ExampleError):
            found = ExampleError("it is the truth of an example: there is nothing to predict")
        return record, found
