"""Requests of clients: examples to predict, and examples to learn from, which are kept in a journal.

The journal is the run's source: `requests.jsonl` in its folder has a line for each example sent to
/learn, in the order in which they are learned from. A line is on disk before the run reads it, so that
a run that resumes from an earlier checkpoint learns from it again, with bit-identical results.
Examples sent to /predict are not kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, Queue
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
from onlinesrl.stream.pace import Pace
from onlinesrl.stream.protocols import Setting, Source
from onlinesrl.stream.received import Received
from onlinesrl.stream.stopper import Stopper

WAITING = 128
"""The most requests in the queue; more are refused."""


class Untaken(Exception):
    """The run ended before it took a request: nothing of it was learned."""


class Unanswered(Exception):
    """The run ended after it had taken a request: it may have been learned, or will be by the next."""


class Asked:
    """A request: its examples, one per line, and the answer to each."""

    def __init__(self, lines: Sequence[bytes], learn: bool) -> None:
        self.lines = lines
        self.learn = learn
        self.answers = [b""] * len(lines)
        self.bad = 0
        self.left = len(lines)
        self.done: Future[None] = Future()

    def answer(self, place: int, said: bytes, bad: bool) -> None:
        """Set the answer to the example at a place."""
        self.answers[place] = said
        self.bad += bad
        self.left -= 1
        if not self.left:
            self.done.set_result(None)


class Requests(Stopper):
    """The queue from the server's thread to the run.

    It is also the run's Stopper: after a first signal no more requests are accepted, and the run stops
    when it has answered those in the queue, without interrupting searches; it stops at once if it has
    not finished reading its journal.
    """

    leaves_searches: ClassVar[bool] = False
    ended = False

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = False
        self.batch, self.pace = 1, Pace()
        self.predicting: float | None = None
        # not SimpleQueue, which before Python 3.13 misses its timeout if a signal comes at that moment
        self._queue = Queue[Asked]()
        self._lock = Lock()
        self._taken: list[Asked] = []
        self._lines: dict[int, tuple[Asked, int]] = {}

    @property
    def accepting(self) -> bool:
        """Whether requests are accepted: after the journal has been read, until a signal."""
        return self.opened and not self.closed

    def put(self, asked: Asked) -> bool:
        """Add a request; False: it is refused."""
        with self._lock:
            room = self.accepting and self._queue.qsize() < WAITING
            if room:
                self._queue.put(asked)
            return room

    def __exit__(self, *error: object) -> None:
        """Fail all open requests: the run has ended."""
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
        """Do nothing: the server is closed by its owner."""

    # the run's side -------------------------------------------------------------------------------

    def make(self, setting: Setting) -> Source:
        """Return the source of what clients send."""
        assert setting.folder is not None
        self.batch = setting.batch
        return Received(self, setting.folder.requests, "requests", setting)

    def serve(self, loop: Loop) -> None:
        """Answer from a loop that has not started yet."""
        self.reader, self.learner = loop.reader, loop.learner
        loop.answered = self.answered

    def answered(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Pass the run's answer to the client, if the line was not merely read again."""
        if record.line in self._lines:
            asked, place = self._lines.pop(record.line)
            asked.answer(place, answer(record, item, outcome), outcome.prediction is None)

    def take(self, journal: OutputFile, line: int) -> None:
        """Wait briefly for requests; predict, and write examples to learn from to the journal.

        All lines in the journal, whose number is ``line``, have been learned from. Takes requests
        until they have a micro-batch of examples.
        """
        for number, (asked, place) in self._lines.items():  # of a group left out, or a label
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
        while batch := micro_batch(items, min(self.batch, self.pace.most))[0]:
            self.predicting = time.monotonic()
            examples = [item for _, item in batch if isinstance(item, Example | ExampleError)]
            with self.pace.taking(len(batch)):
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
