"""Requests of clients, from the server's thread to the run.

A run takes some lines of each request in turn. Examples to learn from go to its journal, see
``sources.request_journal``; others are answered with the weights as they are.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Lock
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from onlinesrl.core.errors import ExampleError, OnlinesrlError
from onlinesrl.core.example import Constant, Example, Label
from onlinesrl.core.learner import Learner
from onlinesrl.stream.decoding import RecordDecoder
from onlinesrl.stream.late_labels import LabelJoiner, PendingExample, Shelf
from onlinesrl.stream.observer import Observer, Progress
from onlinesrl.stream.predictions import Refusal, Result
from onlinesrl.stream.records import Record
from onlinesrl.stream.schedule import Pace
from onlinesrl.stream.shutdown import ShutdownSignal
from onlinesrl.stream.source import READ_BYTES
from onlinesrl.stream.sources.line_reader import WAIT_SECONDS
from onlinesrl.stream.tail import Tail

WAITING = 128
"""The most requests in the queue; more are refused."""
RECENT, RECENT_BYTES = 1_000, 16 << 20
"""So many of the last examples that were learned from, or wait for a label, can be explained by their id."""
Explain: TypeAlias = Callable[[Learner, Example | None], bytes]
"""Explains an example, or what is asked without one. Raises OnlinesrlError."""
_encode = msgspec.json.Encoder().encode


class Untaken(Exception):
    """The run ended before it took a request: nothing of it was learned."""


class Unanswered(Exception):
    """The run ended after it had taken a request: lines of it were learned, or will be by the next."""


class PendingRequest:
    """A request: its examples, one per line of its body, and the answer to each.

    They are to be predicted, and learned from (``learn``), or to be explained; what is to be explained may be
    asked without an example. ``known``: the body is an example that the run has had.
    """

    def __init__(
        self, body: bytes, learn: bool, explain: Explain | None = None, known: bool = False
    ) -> None:
        self.body, self.known = body.rstrip(), known
        self.learn, self.explain = learn, explain
        self.answers: list[bytes] = []
        self.bad = 0
        self.waits = False
        """Whether a line is a label that waits for its example."""
        self.left = 0
        """How many lines have been taken and not been answered."""
        self.done: Future[None] = Future()
        self._at = 0

    @property
    def over(self) -> bool:
        """Whether all lines have been taken."""
        return self._at >= max(len(self.body), self.explain is not None)

    def take(self) -> bytes:
        """Return the next line that is not blank; there is one, or the request has no body."""
        line = b""
        while not line:
            end = self.body.find(b"\n", self._at)
            end = len(self.body) if end < 0 else end
            line = self.body[self._at : end].strip()
            self._at = end + 1
            if not self.body:
                break
        self.answers.append(b"")
        self.left += 1
        return line

    def answer(self, place: int, text: bytes, bad: bool) -> None:
        """Set the answer to the example at a place."""
        self.answers[place] = text
        self.bad += bad
        self.left -= 1
        if self.over and not self.left:
            self.done.set_result(None)

    def fail(self) -> None:
        """Tell who waits that the run has ended."""
        if not self.answers and self.done.set_running_or_notify_cancel():
            self.done.set_exception(Untaken())
        elif not self.done.done():
            self.done.set_exception(Unanswered())


class Line(NamedTuple):
    """A line of a request, and its place there."""

    request: PendingRequest
    place: int
    text: bytes

    def answer(self, text: bytes, bad: bool) -> None:
        """Set the answer."""
        self.request.answer(self.place, text, bad)


class Requests(ShutdownSignal):
    """The queue from the server's thread to the run.

    It is also what stops the run: after a first signal no more requests are accepted, and the run stops when
    it has answered those in the queue; at once if it has not finished reading its journal.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = False
        self.recent = Shelf(RECENT, RECENT_BYTES, Example)
        """Examples that can be explained by their id."""
        # not SimpleQueue, which before Python 3.13 misses its timeout if a signal comes at that moment
        self._queue = Queue[PendingRequest]()
        self._lock = Lock()
        self._waiting = deque[PendingRequest]()
        """Requests that have lines to take, the next one first."""
        self._turn: list[Line] = []
        self._pace, self._since = Pace(), 0.0

    @property
    def accepting(self) -> bool:
        """Whether requests are accepted: after the journal has been read, until a signal."""
        return self.opened and not self.closed

    def put(self, request: PendingRequest) -> bool:
        """Add a request; False: it is refused."""
        with self._lock:
            room = self.accepting and self._queue.qsize() + len(self._waiting) < WAITING
            if room:
                self._queue.put(request)
            return room

    def __exit__(self, *error: object) -> None:
        """Fail all open requests: the run has ended."""
        super().__exit__(*error)
        with self._lock:
            self.closed = True
        with suppress(Empty):
            while True:
                self._waiting.append(self._queue.get_nowait())
        for request in {line.request for line in self._turn}.union(self._waiting):
            request.fail()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.closed:
            raise KeyboardInterrupt
        self.closed = True
        if self.opened:
            self._tell()
        else:
            super()._ask(number, frame)

    # the run's side -------------------------------------------------------------------------------

    def take(self, most: int, learned: int) -> list[Line]:
        """Wait briefly for requests; return lines for about a second, at most so many.

        At most ``learned`` are to be learned from. Each request that waits has as many, the next one first.
        All lines that were taken before have been answered.
        """
        if self._turn:
            self._pace.heed(len(self._turn), time.monotonic() - self._since)
        self.opened = True
        with suppress(Empty):
            if not self._waiting:
                self._waiting.append(self._queue.get(timeout=WAIT_SECONDS))
            while True:
                self._waiting.append(self._queue.get_nowait())
        turn: list[Line] = []
        room, size = min(most, self._pace.most), 0
        share = max(1, room // max(1, len(self._waiting)))
        while self._waiting and len(turn) < room and size < READ_BYTES and learned:
            request = self._waiting.popleft()
            if not request.answers and not request.done.set_running_or_notify_cancel():
                continue
            for _ in range(min(share, room - len(turn), learned if request.learn else room)):
                if request.over or size >= READ_BYTES:
                    break
                turn.append(Line(request, len(request.answers), request.take()))
                size += len(turn[-1].text)
                learned -= request.learn
            if not request.over:
                self._waiting.append(request)
        self._turn, self._since = turn, time.monotonic()
        self.asked |= self.closed and not turn
        return turn


class _Named(msgspec.Struct):
    """The id of a line; an example also has ``evidence``, a prediction ``predicted``."""

    id: Constant
    evidence: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    predicted: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _named(line: bytes) -> _Named | None:
    try:
        return msgspec.json.decode(line, type=_Named)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Answerer(Observer):
    """Answers lines of requests: with the weights as they are, or by what a run has learned from them.

    ``labels`` are the separate labels, if there are any. ``rows`` decodes what clients ask about, where the
    run links rows; None: ``decoder`` does, as what the run reads.
    """

    rows: RecordDecoder | None = None

    def __init__(
        self,
        requests: Requests,
        learner: Learner,
        decoder: RecordDecoder,
        labels: LabelJoiner | None,
    ) -> None:
        self.recent = requests.recent
        self.learner = learner
        self.decoder = decoder
        self.labels = labels
        self._lines: dict[tuple[str, int], Line] = {}

    def answer(self, lines: Sequence[Line]) -> None:
        """Answer lines that are not learned from."""
        predicted = [line for line in lines if line.request.explain is None]
        examples = [self._example(line) for line in predicted]
        outcomes = self.learner.predict([item for _, item in examples]) if examples else []
        for line, example, outcome in zip(predicted, examples, outcomes, strict=True):
            line.answer(Result(*example, outcome).answer, outcome.prediction is None)
        for line in lines:
            if line.request.explain is not None:
                self._explain(line, line.request.explain)

    def _explain(self, line: Line, explain: Explain) -> None:
        record, item = self._example(line)
        try:
            if isinstance(item, ExampleError) and line.text:
                raise item
            text = explain(self.learner, item.whole() if isinstance(item, Example) else None)
            line.answer(text, False)
        except OnlinesrlError as error:
            line.answer(_encode(Refusal(record.line, str(error))), True)

    def _example(self, line: Line) -> tuple[Record, Example | ExampleError]:
        """Read an example to predict."""
        number, too_long = line.place + 1, len(line.text) > self.decoder.max_bytes
        record = Record(line.text, "", number, 0, 0, too_long=too_long)
        decoder = self.decoder if self.rows is None or line.request.known else self.rows
        item = decoder.content(record)
        if not isinstance(item, Example | ExampleError):
            item = ExampleError("it is the truth of an example: there is nothing to predict")
        return record, item

    def recall(self, journal: Path, predictions: Path) -> None:
        """Take the last examples of a journal among those that can be explained, with their predictions.

        Where rows are linked, the journal has none, but those that wait for their label are still known.
        """
        for name, entry in self.labels.pending.items() if self.labels is not None else ():
            if entry.predicted:
                self.recent.put(name, PendingExample(entry.text, entry.prediction))
        answers = dict[str, bytes]()
        for line in Tail(predictions, RECENT_BYTES).lines():
            named = _named(line)
            if named is not None and named.predicted is not msgspec.UNSET:
                answers[str(named.id)] = line
        for line in Tail(journal, RECENT_BYTES).lines():
            named = _named(line)
            if named is not None and named.evidence is not msgspec.UNSET:
                name = str(named.id)
                answer = msgspec.Raw(answers.get(name, b"null"))
                self.recent.put(name, PendingExample(msgspec.Raw(line), answer))

    def expect(self, records: Sequence[Record], lines: Sequence[Line]) -> None:
        """Take note that the run learns from these lines next, which are these records."""
        places = ((record.file, record.line) for record in records)
        self._lines |= zip(places, lines, strict=True)

    def batch(self, progress: Progress) -> None:
        """Answer the lines that the run has learned from, or that wait, or that it left out.

        Where rows are linked, those of other lines are still to come.
        """
        lines = self._lines
        if not lines:
            return
        for result in progress.results:
            place = result.record.file, result.record.line
            if (line := lines.pop(place, None)) is not None:
                prediction = result.outcome.prediction
                if isinstance(result.item, Example) and prediction is not None:
                    value, answer = msgspec.Raw(result.record.value), msgspec.Raw(result.answer)
                    self.recent.put(str(result.item.id), PendingExample(value, answer))
                line.answer(result.answer, prediction is None)
        items = {(record.file, record.line): (record, item) for record, item in progress.items}
        for place in [*lines] if self.rows is None else lines.keys() & items.keys():
            said: dict[str, Any] = {"line": place[1]}
            line, (record, item) = lines.pop(place), items.get(place, (None, None))
            if record is not None and record.kind == "note":
                said |= msgspec.json.decode(record.value)
                line.request.waits |= said["waits"]
            elif self.labels is not None and isinstance(item, Label):
                said |= self.labels.told(item)
                line.request.waits = True
            else:
                said["left_out"] = "its group is not read (source.only, source.without)"
            line.answer(_encode(said), False)
