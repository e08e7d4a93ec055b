"""Requests of clients: examples to predict, to explain, and to learn from, which are kept in a journal.

The journal is the run's source: `requests.jsonl` in its folder has a line for each example sent to
/learn, in the order in which they are learned from. A line is on disk before the run reads it, so that
a run that resumes from an earlier checkpoint learns from it again, with bit-identical results.
Other examples are not kept.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Lock
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from onlinesrl.core.errors import ExampleError, FolderError, OnlinesrlError
from onlinesrl.core.example import Example, Label
from onlinesrl.core.io.atomic_write import plain, storage_errors, sync_folder
from onlinesrl.core.learner import Learner, Outcome
from onlinesrl.stream import checkpoints
from onlinesrl.stream.batching import Pace
from onlinesrl.stream.decoding import READ_BYTES, Content, ExampleReader, micro_batch
from onlinesrl.stream.late_labels import LabelJoiner, PendingExample, Shelf
from onlinesrl.stream.predictions import Refusal, answer
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import PARTS, OutputFile, RunFolder, part_of, parts
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.files import FileSource
from onlinesrl.stream.sources.line_reader import WAIT_SECONDS, LineReader

WAITING = 128
"""The most requests in the queue; more are refused."""
RECENT, RECENT_BYTES = 1_000, 16 << 20
"""So many of the last examples that were learned from, or wait for a label, can be explained by their id."""
Explain: TypeAlias = Callable[[Learner, Example], bytes]
"""Explains an example. Raises OnlinesrlError."""
_encode = msgspec.json.Encoder().encode


class Untaken(Exception):
    """The run ended before it took a request: nothing of it was learned."""


class Unanswered(Exception):
    """The run ended after it had taken a request: lines of it were learned, or will be by the next."""


class PendingRequest:
    """A request: its examples, one per line of its body, and the answer to each.

    They are to be predicted, and learned from (``learn``), or to be explained.
    """

    def __init__(self, body: bytes, learn: bool, explain: Explain | None = None) -> None:
        self.body = body.rstrip()
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
        return self._at >= len(self.body)

    def take(self) -> bytes:
        """Return the next line that is not blank; there is one."""
        line = b""
        while not line:
            end = self.body.find(b"\n", self._at)
            end = len(self.body) if end < 0 else end
            line = self.body[self._at : end].strip()
            self._at = end + 1
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

    asked: PendingRequest
    place: int
    text: bytes


class Requests(ShutdownSignal):
    """The queue from the server's thread to the run, which takes some lines of each request in turn.

    It is also the run's Stopper: after a first signal no more requests are accepted, and the run stops
    when it has answered those in the queue; it stops at once if it has not finished reading its journal.
    """

    ended = False

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = False
        self.batch, self.pace = 1, Pace()
        self.predicting: float | None = None
        # not SimpleQueue, which before Python 3.13 misses its timeout if a signal comes at that moment
        self._queue = Queue[PendingRequest]()
        self._lock = Lock()
        self._waiting = deque[PendingRequest]()
        """Requests that have lines to take, the next one first."""
        self._turn: list[Line] = []
        self._since = 0.0
        self._lines: dict[int, Line] = {}
        self.recent = Shelf(RECENT, RECENT_BYTES, Example)
        self.labels: Callable[[], LabelJoiner | None] = lambda: None

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
        for request in {line.asked for line in self._turn}.union(self._waiting):
            request.fail()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.closed:
            raise KeyboardInterrupt
        self.closed = True
        for callback in self._callbacks:
            callback()
        self.asked = not self.opened
        if self._in_wait:
            raise Stopped("stopped")

    def close(self) -> None:
        """Do nothing: the server is closed by its owner."""

    # the run's side -------------------------------------------------------------------------------

    def make(self, setting: SourceContext) -> Source:
        """Return the source of what clients send."""
        assert setting.folder is not None
        self.batch = setting.batch
        return WriteAheadLog(self, setting.folder.requests, setting)

    def serve(
        self, reader: ExampleReader, learner: Learner, labels: Callable[[], LabelJoiner | None]
    ) -> None:
        """Read, predict and explain by these; ``labels`` returns the separate labels, if there are any."""
        self.reader, self.learner, self.labels = reader, learner, labels

    def answered(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Pass the run's answer to the client, if the line was not merely read again."""
        if (line := self._lines.pop(record.line, None)) is not None:
            text = answer(record, item, outcome)
            if isinstance(item, Example) and outcome.prediction is not None:
                recent = PendingExample(msgspec.Raw(record.value), msgspec.Raw(text))
                self.recent.put(str(item.id), recent)
            line.asked.answer(line.place, text, outcome.prediction is None)

    def take(self, journal: OutputFile, line: int) -> None:
        """Wait briefly for requests; predict, and write examples to learn from to the journal.

        All lines in the journal, whose number is ``line``, have been learned from.
        """
        for number, line_ in self._lines.items():
            self._tell(number, line_)
        if self._turn:
            self.pace.heed(len(self._turn), time.monotonic() - self._since)
        self.opened = True
        self._turn = self._next_turn()
        self._since = time.monotonic()
        self.asked |= self.closed and not self._turn
        asked = [line_ for line_ in self._turn if not line_.asked.learn]
        self._predict([line_ for line_ in asked if line_.asked.explain is None])
        for line_ in asked:
            if line_.asked.explain is not None:
                self._explain(line_, line_.asked.explain)
        learned = [line_ for line_ in self._turn if line_.asked.learn]
        for line_ in learned:
            journal.write(line_.text + b"\n")
        self._lines = dict(enumerate(learned, line + 1))
        if learned:
            journal.flush()

    def _tell(self, number: int, line: Line) -> None:
        """Answer a line that was not predicted: it is a label, or of a group that is left out."""
        said: dict[str, Any] = {"line": number}
        labels = self.labels()
        item = None if labels is None else self._item(line.text, number)[1]
        if labels is not None and isinstance(item, Label):
            said |= labels.told(item)
            line.asked.waits = True
        else:
            said["left_out"] = "its group is not read (source.only, source.without)"
        line.asked.answer(line.place, _encode(said), False)

    def _next_turn(self) -> list[Line]:
        """Return lines for about a second: as many of each request that waits, the next one first."""
        with suppress(Empty):
            if not self._waiting:
                self._waiting.append(self._queue.get(timeout=WAIT_SECONDS))
            while True:
                self._waiting.append(self._queue.get_nowait())
        turn: list[Line] = []
        room, size = min(self.batch, self.pace.most), 0
        share = max(1, room // max(1, len(self._waiting)))
        while self._waiting and len(turn) < room and size < READ_BYTES:
            request = self._waiting.popleft()
            if not request.answers and not request.done.set_running_or_notify_cancel():
                continue
            for _ in range(min(share, room - len(turn))):
                if request.over or size >= READ_BYTES:
                    break
                turn.append(Line(request, len(request.answers), request.take()))
                size += len(turn[-1].text)
            if not request.over:
                self._waiting.append(request)
        return turn

    def _predict(self, lines: Sequence[Line]) -> None:
        """Predict with the weights as they are, in micro-batches."""
        items = (self._example(line) for line in lines)
        first = 0
        while batch := micro_batch(items, self.batch)[0]:
            self.predicting = time.monotonic()
            examples = [item for _, item in batch if isinstance(item, Example | ExampleError)]
            outcomes = self.learner.predict(examples)
            for (record, item), outcome in zip(batch, outcomes, strict=True):
                request, place, _ = lines[first]
                request.answer(place, answer(record, item, outcome), outcome.prediction is None)
                first += 1
        self.predicting = None

    def _explain(self, line: Line, explain: Explain) -> None:
        """Explain with the weights as they are."""
        self.predicting = time.monotonic()
        record, item = self._example(line)
        try:
            if isinstance(item, ExampleError):
                raise item
            text, bad = explain(self.learner, item.whole()), False
        except OnlinesrlError as error:
            text, bad = _encode(Refusal(record.line, str(error))), True
        line.asked.answer(line.place, text, bad)
        self.predicting = None

    def _example(self, line: Line) -> tuple[Record, Example | ExampleError]:
        """Read an example to predict."""
        record, item = self._item(line.text, line.place + 1)
        if not isinstance(item, Example | ExampleError):
            item = ExampleError("it is the truth of an example: there is nothing to predict")
        return record, item

    def _item(self, text: bytes, line: int) -> tuple[Record, Content]:
        """Read a line."""
        too_long = len(text) > self.reader.source.max_bytes
        record = Record(text, "", line, 0, 0, too_long=too_long)
        return record, self.reader.example(record)


class WriteAheadLog(FileSource):
    """A journal file, which grows by what a feed delivers.

    Raises FolderError for a checkpoint of another source, StorageError like FileSource.
    """

    ahead = False
    folder: RunFolder

    def __init__(self, feed: Requests, path: Path, setting: SourceContext) -> None:
        self.feed = feed
        self.path = path
        assert setting.folder is not None
        self.folder, self.retention = setting.folder, setting.retention
        self.journal = OutputFile(path)
        with storage_errors(path, "write"):
            _end_line(self.journal)
            sync_folder(path.parent)
        self._needed = checkpoints.NeededParts(self.folder.checkpoints)
        self._first = 0
        super().__init__([path], setting.max_bytes, live=True, say=setting.say)

    @property
    def over(self) -> bool:
        """Whether there is no more than has come."""
        return self.feed.ended

    def accepts(self, position: dict[str, Any] | None, number: int) -> bool:
        """Tell whether a run may resume from its checkpoint, which must be of this journal."""
        if position is not None and not Path(position["path"]).name.startswith(self.path.name):
            raise FolderError(
                f"{self.path.parent}: is a run over {position['path']}, not over requests; choose "
                f"another output, with learner.start={self.path.parent} to keep what it learned"
            )
        self._needed.note(number, _part_at(position))
        return True

    def owes(self, position: dict[str, Any] | None) -> bool:
        """Tell whether the journal has lines after a position."""
        return self.journal.part > _part_at(position) or (
            self.journal.length > (0 if position is None else position["bytes"])
        )

    def open(self, position: dict[str, Any] | None) -> dict[str, Any] | None:
        """See ``Source.open``; say so if the beginning of the journal has been removed."""
        if position is None and part_of(Path(self.files[0])):
            self.say(
                f"{self.path}: its oldest lines were removed (limits.retention_bytes), and are not "
                "learned from again"
            )
        return position

    def acknowledge(self, position: dict[str, Any] | None, number: int) -> None:
        """Remove the oldest parts, if there are too many, that no checkpoint needs."""
        if self.retention is None:
            return
        self._needed.note(number, _part_at(position))
        for part in self._needed.oldest():
            self.journal.forget(part, self.retention)

    def _resume(self, position: dict[str, Any] | None) -> Iterator[None]:
        self._first = _part_at(position)
        yield from super()._resume(position)

    def _listed(self) -> list[str]:
        return [str(path) for path in parts(self.path) if part_of(path) >= self._first]

    def _wait(self, opened: LineReader) -> None:
        if self.retention is not None and self.journal.length > self.retention // PARTS:
            self.journal.begin_part()
            self._look()
        else:
            self.feed.take(self.journal, opened.line)

    def close(self) -> None:
        """Close the feed and the journal."""
        self.feed.close()
        self.journal.close()


def _part_at(position: dict[str, Any] | None) -> int:
    """Return the part of the journal at a position."""
    return 0 if position is None else part_of(Path(position["path"]))


def _end_line(journal: OutputFile) -> None:
    """End an incomplete line: it was not acknowledged, and becomes a bad example."""
    with open(journal.path, "rb", opener=plain) as stream:
        if stream.seek(0, os.SEEK_END) and stream.seek(-1, os.SEEK_END) and stream.read() != b"\n":
            journal.write(b"\n")
            journal.flush()
