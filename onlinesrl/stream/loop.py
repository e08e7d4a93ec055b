"""The run: read, step, write; every so often flush the outputs and save state and position as one."""

from __future__ import annotations

import gc
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any, Protocol, TypeAlias

import msgspec

from onlinesrl import __version__
from onlinesrl.errors import DataError, ExampleError, OnlinesrlError
from onlinesrl.lang.example import Example
from onlinesrl.learn.online import OnlineLearner, Outcome
from onlinesrl.metrics import Metrics
from onlinesrl.stream import checkpoint
from onlinesrl.stream.deadletter import DeadLetters
from onlinesrl.stream.examples import Reader
from onlinesrl.stream.files import Record
from onlinesrl.stream.folder import OutputFile, RunFolder

Item: TypeAlias = tuple[Record, Example | ExampleError]
SHOWN = 8
BAD_GRACE = 100
_encode = msgspec.json.Encoder().encode


class MismatchError(OnlinesrlError):
    """A checkpoint is of another configuration."""

    exit_code = 78


class Watcher(Protocol):
    """Who is told how a run goes; it never changes what the run does."""

    def reading(self, items: Iterator[Item], stopper: Stopper) -> Iterator[Item]:
        """Pass on what the run reads: it changes only while it has an item and asks for no other."""
        ...

    def update(self, snapshot: Callable[[], dict[str, Any]], examples: int) -> None:
        """Take note of progress; ``snapshot`` makes a metrics line if one is wanted."""
        ...

    def saved(self) -> None:
        """Take note of a checkpoint."""
        ...


@dataclass(frozen=True)
class Schedule:
    """When to save and when to write a line of metrics; None: by powers of two, or never."""

    checkpoint_examples: int | None
    checkpoint_seconds: float | None
    keep: int
    metrics_every: int | None
    batch: int

    def room(self, examples: int) -> int:
        """Return how many examples may be taken before something is due: at most a batch."""
        due = [self.batch, (1 << examples.bit_length()) - examples]
        due += [n - examples % n for n in (self.metrics_every, self.checkpoint_examples) if n]
        return min(due)

    def metrics_due(self, examples: int) -> bool:
        """Tell whether a line of metrics is due after so many examples."""
        power = examples & (examples - 1) == 0
        return power or bool(self.metrics_every and examples % self.metrics_every == 0)


class Stopped(Exception):
    """A signal came while the run was waiting for its source."""


class Stopper:
    """SIGINT and SIGTERM: the first asks to stop after the examples at hand, the second stops at once.

    While the run is ``waiting`` for its source, which may have nothing for hours, the first raises
    Stopped.
    """

    def __init__(self) -> None:
        self.asked = False
        self.waiting = False

    def __enter__(self) -> Stopper:
        self.old = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.old.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self.waiting:
            raise Stopped


@contextmanager
def rare_collections() -> Iterator[None]:
    """Spare a stream of short-lived examples the search for reference cycles, which has none to find.

    What was there before is left out of it, and it runs once in 100,000 new objects: without this it
    takes more time than the learning.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class Run:
    """One run over a source, from its start or from its last checkpoint.

    Raises DataError (exit 65) with ``strict`` at the first bad example, or when more than
    ``bad_share`` of them are bad; StorageError when anything cannot be written.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a run is made of
        self,
        learner: OnlineLearner,
        reader: Reader,
        folder: RunFolder,
        schedule: Schedule,
        fingerprint: Mapping[str, Any],
        strict: bool = False,
        bad_share: float = 1.0,
    ):
        self.learner = learner
        self.reader = reader
        self.folder = folder
        self.schedule = schedule
        self.fingerprint = fingerprint
        self.strict = strict
        self.bad_share = bad_share
        self.metrics = Metrics()
        self.position: dict[str, Any] | None = None
        self.saves = 0
        self.seconds = 0.0
        self.finished = False
        self.shown: deque[tuple[Example, Outcome]] = deque(maxlen=SHOWN)
        self.predictions = OutputFile(folder.predictions)
        self.lines = OutputFile(folder.metrics)
        self.dead = DeadLetters(folder.deadletter)

    # from and to a checkpoint ------------------------------------------------------------------

    def resume(self, saved: checkpoint.Checkpoint | None) -> None:
        """Go on from a checkpoint, cutting the outputs to where it was taken; None: from the start."""
        header = saved.header if saved else {}
        lengths = header.get("lengths", {})
        for name, file in self._outputs().items():
            file.truncate(lengths.get(name, 0))
        if saved is None:
            return
        self.learner.restore(header["learner"], saved.arrays)
        self.metrics = Metrics.restore(header["metrics"])
        self.position = header["position"]
        self.seconds = header["seconds"]
        self.finished = header["finished"]
        self.shown.extend(msgspec.convert(header["shown"], list[tuple[Example, Outcome]]))
        self.saves = saved.number

    def _outputs(self) -> dict[str, OutputFile]:
        return {"predictions": self.predictions, "metrics": self.lines, "deadletter": self.dead}

    def save(self) -> None:
        """Make the outputs durable, then write state and position as one file."""
        for file in self._outputs().values():
            file.flush()
        learner, arrays = self.learner.save()
        self.saves += 1
        header = {
            "version": __version__,
            "fingerprint": dict(self.fingerprint),
            "model": self.learner.layout.plan.program.text,
            "lengths": {name: file.length for name, file in self._outputs().items()},
            "learner": learner,
            "metrics": self.metrics.save(),
            "position": self.position,
            "seconds": self.seconds + time.monotonic() - self.started,
            "finished": self.finished,
            "shown": msgspec.to_builtins(list(self.shown)),
        }
        checkpoint.save(self.folder.checkpoints, self.saves, header, arrays, self.schedule.keep)

    # the loop ------------------------------------------------------------------------------------

    def run(self, watcher: Watcher) -> None:
        """Take the source to its end, or until a signal asks to stop; save in either case."""
        self.started = time.monotonic()
        with rare_collections(), Stopper() as stopper:
            saved_at = self.started
            source = watcher.reading(self.reader.read(self.position), stopper)
            while batch := self.take(source, stopper):
                records, examples = [r for r, _ in batch], [e for _, e in batch]
                outcomes, tally = self.learner.step(examples)
                self.write(records, examples, outcomes)
                self.metrics.add(tally, len(records))
                self.position = records[-1].position
                watcher.update(self.line, self.metrics.examples)
                self.report_metrics()
                self.check_share()
                now = time.monotonic()
                if self.save_due(now - saved_at):
                    self.save()
                    watcher.saved()
                    saved_at = now
            if not stopper.asked:
                self.finish()
        self.save()
        self.seconds += time.monotonic() - self.started

    def finish(self) -> None:
        """Write the last line of metrics, unless it is there already."""
        self.finished = True
        if self.metrics.examples and not self.schedule.metrics_due(self.metrics.examples):
            self.write_metrics()

    def take(self, source: Iterator[Item], stopper: Stopper) -> list[Item]:
        """Read the next micro-batch, up to where something is due; less of it when asked to stop.

        What a signal makes it lose is read again later: the position is that of the last example
        learned from.
        """
        batch: list[Item] = []
        with suppress(Stopped):
            stopper.waiting = True
            if not stopper.asked:
                batch.extend(islice(source, self.room()))
            stopper.waiting = False
        return batch

    def room(self) -> int:
        """Return the next micro-batch's size; with ``strict`` nothing is learned past a bad one."""
        return 1 if self.strict else self.schedule.room(self.metrics.examples)

    def save_due(self, seconds: float) -> bool:
        """Tell whether a checkpoint is due: by count, or by time since the last."""
        every, interval = self.schedule.checkpoint_examples, self.schedule.checkpoint_seconds
        if every is not None:
            return self.metrics.examples % every == 0
        return interval is not None and seconds >= interval

    # writing -------------------------------------------------------------------------------------

    def write(
        self,
        records: Sequence[Record],
        examples: Sequence[Example | ExampleError],
        outcomes: Sequence[Outcome],
    ) -> None:
        """Write predictions and dead letters in the order of the records."""
        for record, example, outcome in zip(records, examples, outcomes, strict=True):
            if outcome.prediction is None:
                self.refuse(record, example, outcome.error or "")
            else:
                self.predictions.write(_encode(outcome.prediction) + b"\n")
        labelled = (
            (e, o)
            for e, o in zip(reversed(examples), reversed(outcomes), strict=True)
            if isinstance(e, Example) and e.truth is not None and o.prediction is not None
        )
        self.shown.extend(reversed(list(islice(labelled, SHOWN))))

    def refuse(self, record: Record, example: Example | ExampleError, reason: str) -> None:
        """Put a bad example aside; with ``strict`` save and stop before it. Raises DataError."""
        name = str(example.id) if isinstance(example, Example) else None
        if self.strict:
            self.save()
            of = f" (example {name})" if name else ""
            raise DataError(f"{record.file}:{record.line}: {reason}{of}")
        self.dead.append(record, reason, name)

    def check_share(self) -> None:
        """Raise DataError, after a checkpoint, when too many examples are bad."""
        bad, examples = self.metrics.bad, self.metrics.examples
        if examples >= BAD_GRACE and bad > self.bad_share * examples:
            self.save()
            raise DataError(
                f"{bad} of {examples} examples are bad, more than limits.bad_share "
                f"({self.bad_share:g}) allows; see {self.folder.deadletter}"
            )

    def line(self) -> dict[str, Any]:
        """Return a line of metrics: what is so far."""
        return {
            **self.metrics.snapshot(),
            **self.learner.certificate(),
            "updates": self.learner.weights.updates,
            "weights": len(self.learner.weights),
            "dropped_weights": self.learner.weights.dropped,
        }

    def report_metrics(self) -> None:
        """Write a line of metrics where one is due."""
        if self.schedule.metrics_due(self.metrics.examples):
            self.write_metrics()

    def write_metrics(self) -> None:
        """Write a line of metrics and begin a new window."""
        self.lines.write(_encode(self.line()) + b"\n")
        self.metrics.next_window()

    def close(self) -> None:
        """Close the outputs."""
        for file in self._outputs().values():
            file.close()


def check_fingerprint(saved: checkpoint.Checkpoint, differences: Sequence[str]) -> None:
    """Raise MismatchError where a checkpoint is of another configuration."""
    if differences:
        listing = "\n  ".join(differences)
        raise MismatchError(
            f"{saved.path}: made with another configuration:\n  {listing}\n"
            "go back to it, choose another output, or start over with --fresh"
        )
