"""The learning loop: read, step, write. Checkpoints contain state and position together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from onlinesrl.core.errors import DataError, ExampleError, printable
from onlinesrl.core.evaluation.drift import DriftDetector
from onlinesrl.core.evaluation.own_metric import Metric
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Example, Label
from onlinesrl.core.io.restoring import converted, restoring
from onlinesrl.core.learner import Answered, Learner, Outcome, Tally, scored
from onlinesrl.core.version import __version__
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.batching import micro_batches
from onlinesrl.stream.checkpoint_copies import CheckpointCopies
from onlinesrl.stream.checkpoints import CheckpointWriter
from onlinesrl.stream.crash_notes import CrashNote, run_of
from onlinesrl.stream.decoding import Batch, Content, Decoded, ExampleReader
from onlinesrl.stream.late_labels import LabelJoiner, PendingExample
from onlinesrl.stream.output_files import Outputs
from onlinesrl.stream.process_batch import process_batch
from onlinesrl.stream.recent_examples import Shown, Work, drifts
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.schedule import SHARE_EVERY, WEIGH_EVERY, Schedule, rare_collections
from onlinesrl.stream.shutdown import ShutdownSignal
from onlinesrl.stream.sink import Sink


class Watcher(Protocol):
    """Observes a run without affecting it."""

    def running(self, stopper: ShutdownSignal) -> AbstractContextManager[object]:
        """Return a context for the time in which the run reads micro-batches."""
        ...

    def processing(self, batch: Batch) -> AbstractContextManager[object]:
        """Return a context for a micro-batch. The state of the run changes only in such a context."""
        ...

    def update(self, snapshot: Callable[[], dict[str, Any]], examples: int) -> None:
        """Note progress; ``snapshot`` makes a line of metrics if one is wanted."""
        ...

    def saved(self) -> None:
        """Note that a checkpoint was written."""
        ...


FIRST = 100
"""In so many labelled examples a run looks for labels that may be missing."""


class Trainer:
    """Learns from a source, from its start or from the last checkpoint.

    Raises DataError (exit 65) at the first bad example with ``strict``, at the first unsolved one with
    ``settle``, or when more than ``bad_share`` of the examples are bad; StorageError when something
    cannot be written. An example in which ``crashes`` processes died is bad. ``answered`` is called
    with each record, its item and its outcome. ``first`` is called with the good labelled examples of a
    batch, until it returns something true or ``FIRST`` were learned from.
    ``drift`` watches the errors of predictions.
    ``settings`` and ``config``, all keys and values of the run, are kept in checkpoints.
    """

    def __init__(
        self,
        learner: Learner,
        reader: ExampleReader,
        folder: RunFolder,
        schedule: Schedule,
        fingerprint: Mapping[str, Any],
        settings: Mapping[str, Any],
        config: Mapping[str, Any],
        sink: Sink,
        strict: bool = False,
        bad_share: float = 1.0,
        crashes: int = 0,
        settle: bool = False,
        until: int | None = None,
        labels: LabelJoiner | None = None,
        answered: Callable[[Record, Any, Outcome], object] | None = None,
        first: Callable[[Sequence[Example]], object] | None = None,
        copies: CheckpointCopies | None = None,
        drift: DriftDetector | None = None,
        own: Mapping[str, Metric] = MappingProxyType({}),
    ):
        self.learner = learner
        self.reader = reader
        self.folder = folder
        self.schedule = schedule
        self.fingerprint, self.settings, self.config = fingerprint, settings, config
        self.strict = strict
        self.bad_share, self.settle = bad_share, settle
        self.until = until
        self.labels = labels
        self.plain = labels is None and type(sink).fits is Sink.fits  # any record is work by itself
        self.sink = sink
        self.answered = answered
        self.first = first
        self.copies = copies
        self.drift, self.own = drift, own
        self.log: Callable[[Mapping[str, Any]], object] | None = None
        self.sink_state: dict[str, Any] | None = None
        self.metrics = Metrics()
        self.position: dict[str, Any] | None = None
        self.saves, self.seconds = 0, 0.0
        self.drained = self.finished = False
        self.shown = Shown()
        self.outputs = outputs = Outputs(folder, reader.source.retention)
        self.predictions, self.lines, self.dead = outputs.predictions, outputs.metrics, outputs.dead
        self.saver = CheckpointWriter(
            folder.checkpoints,
            schedule.keep,
            [*self.outputs.files.values()],
            *([] if copies is None else [copies.put]),
        )
        self.crash = CrashNote(folder.started, run_of(fingerprint), crashes)

    # from and to a checkpoint ------------------------------------------------------------------

    def resume(self, saved: checkpoints_module.Checkpoint | None) -> None:
        """Resume from a checkpoint, truncating the outputs to it; None: start from the beginning."""
        if saved is not None:
            header, self.saves = saved.header, saved.number
            with restoring(saved.path):
                self.position, self.seconds = header["position"], header["seconds"]
                self.drained = self.finished = header["finished"]
                self.learner.restore(header["learner"], saved.arrays)
                self.learner.slowest.found = header["slowest"]
                self.metrics = Metrics.restore(header["metrics"])
                self.reader.choice.restore(header["groups"])
                self.shown.restore(header["shown"])
                self.sink_state = converted(header.get("sink"), self.sink.State | None)
                if self.drift is not None:
                    self.drift = DriftDetector(self.drift.section, header["drift"])
                if self.labels is not None:
                    self.labels.restore(converted(header.get("labels"), dict), saved.arrays)
        self.outputs.resume(saved.header if saved else {}, saved.number if saved else 0)

    def save(self) -> None:
        """Write the outputs, then state and position to one file; see ``CheckpointWriter.write``."""
        self.sink.flush()
        self.outputs.begin_parts()
        learner, arrays = self.learner.save()
        self.saves += 1
        header: dict[str, Any] = {
            "version": __version__,
            "fingerprint": dict(self.fingerprint),
            "settings": dict(self.settings),
            "config": dict(self.config),
            "model": self.learner.model_text,
            **self.outputs.state(),
            "learner": learner,
            "metrics": self.metrics.save(),
            "position": self.position,
            "seconds": self.seconds + time.monotonic() - self.started,
            "slowest": self.learner.slowest.found,
            "finished": self.finished,
            "shown": None,  # the saver's
            "groups": self.reader.choice.save(),
        }
        if behind := self.reader.source.lag():
            header["behind"] = behind
        if sink := self.sink.state():
            header["sink"] = sink
        if self.drift is not None:
            header["drift"] = self.drift.window
        if self.labels is not None:
            header["labels"], waiting = self.labels.save()
            arrays |= waiting
        self.saver.write(self.saves, header, arrays, self.shown)
        self.saved_position = self.position
        self.outputs.saved(self.saves)
        self.reader.source.acknowledge(self.position, self.saves)

    # the loop ------------------------------------------------------------------------------------

    def run(self, watcher: Watcher, stopper: ShutdownSignal) -> None:
        """Learn until the source ends or a signal asks to stop; save a checkpoint in either case."""
        self.started = time.monotonic()
        self.drained = self.finished = False
        stopper.subscribe(self.crash.excuse)
        self.open()
        with rare_collections():
            saved_at = self.started
            self.check_share()
            reading = micro_batches(self.reader, self.position, self.room, stopper, self.save)
            with closing(reading) as batches, watcher.running(stopper):
                for batch in batches:
                    with watcher.processing(batch):
                        saved_at = self.process(batch, watcher, saved_at)
            if not stopper.asked and not self.enough:
                self.check_share(at_end=True)
                if not self.reader.source.live:
                    self.reader.choice.check()
                self.drained, self.finished = True, not self.reader.source.live
            self.save()
        self.seconds += time.monotonic() - self.started

    def process(self, batch: Batch, watcher: Watcher, saved_at: float) -> float:
        """Learn from a micro-batch, and save if that is due; return when the last checkpoint was saved."""
        has_records = bool(batch.batch)
        condemned = self.learn(batch)
        if batch.dry:
            self.predictions.flush(fsync=False)
        if has_records or self.reader.source.live:
            watcher.update(self.line, self.metrics.examples)
        if self.sink.due:
            self.sink.flush()
        now = time.monotonic()
        if not condemned and not self.save_due(now - saved_at):
            return saved_at
        self.save()
        self.crash.passed(self.metrics.steps)
        watcher.saved()
        return now

    def open(self) -> None:
        """Open source and sink; of a live source, a new run saves its starting position first."""
        source = self.reader.source
        self.position = source.open(self.position)
        self.sink.open(self.sink_state, self.predictions)
        self.saved_position = self.position
        if self.saves == 0 and (source.live or self.sink.state()):
            self.save()

    def learn(self, micro_batch: Batch) -> bool:
        """Process and clear a micro-batch; return whether an example was condemned for crashes."""
        items = micro_batch.batch
        condemned, records = False, [record for record, _ in items]
        while items:
            crashed, read = self.step(items)
            condemned |= crashed
            del items[:read]
        if records:
            self.position = self.reader.source.after(self.position, records, mark=micro_batch.mark)
            if self.labels is not None and self.metrics.steps % WEIGH_EVERY == 0:
                self.labels.weigh()
            self.check_share()
        return condemned

    def step(self, batch: Sequence[Decoded]) -> tuple[bool, int]:
        """Process the first examples; return whether one was condemned for crashes, and how many were read.

        It ends before the label of an example that has to be predicted first.
        """
        work, read = self.work(batch)
        condemned = False
        if work:
            outcomes, tally = process_batch(
                self.learner, [entry.item for entry in work], True, self.crash, self.metrics.steps
            )
            condemned = "crash" in tally.errors
            if work[0].early is not None and outcomes and tally.errors and not condemned:
                work, outcomes, tally = self.without_label(
                    work[0], batch[read - 1], outcomes, tally
                )
            self.look(work, outcomes)
            self.write(work, outcomes)
            late = sum(isinstance(task.item, Answered) for task in work)
            self.metrics.add(tally, len(work) - late, late, drifts(outcomes, work, self.drift))
            self.metrics.score(self.own, scored([task.item for task in work], outcomes))
        self.metrics.tombstones += sum(item is None for _, item in batch[:read])
        if work and self.schedule.metrics_due(self.metrics.steps):
            self.write_metrics()
        return condemned, read

    def without_label(
        self, task: Work, origin: Decoded, outcomes: list[Outcome], tally: Tally
    ) -> tuple[list[Work], list[Outcome], Tally]:
        """Predict an example without its early label, as these outcomes are bad; return what that comes to.

        If it is good alone, the label is the bad record, and the example waits for another one. Otherwise the
        label waits for another example.
        """
        labels, label, example = self.labels, task.early, origin[1]
        assert labels is not None and label is not None and isinstance(example, Example)
        again, counts = process_batch(self.learner, [example], True, self.crash, self.metrics.steps)
        labels.early.put(str(example.id), label)
        if again[0].prediction is not None:
            self.refuse(Work(label.record, task.item), outcomes[0])
            labels.early.take(str(example.id))
            self.metrics.refuse(next(iter(tally.errors)))
            task = Work(origin[0], example, labels.wait(example))
        return [task], again, counts

    def look(self, work: Sequence[Work], outcomes: Sequence[Outcome]) -> None:
        """Show ``first`` the good labelled examples of the work."""
        if self.first is not None and self.metrics.total.labelled < FIRST:
            examples = [
                task.example
                for task, outcome in zip(work, outcomes, strict=True)
                if outcome.prediction is not None
            ]
            if self.first([x for x in examples if isinstance(x, Example) and x.labelled]):
                self.first = None

    def work(self, batch: Sequence[Decoded]) -> tuple[list[Work], int]:
        """Return the work in a micro-batch, and how many of its records that covers.

        It ends before a record whose example has to be processed first. An example with an early label is
        alone, since it is processed again without the label where that is bad.
        """
        if self.plain:
            kinds = Example | ExampleError
            return [Work(origin, item) for origin, item in batch if isinstance(item, kinds)], len(
                batch
            )
        work: list[Work] = []
        undecided = set[str]()
        for read, (record, content) in enumerate(batch):
            item = self.sendable(record, content)
            name = str(item.id) if isinstance(item, Example | Label) else ""
            early = self.early(item)
            if name in undecided or (early is not None and work):
                return work, read
            task = self.join(record, item)
            if early is not None and task is not None:
                return [task._replace(early=early)], read + 1
            if task is not None:
                work.append(task)
                undecided |= set() if task.waiting is None else {name}
        return work, len(batch)

    def early(self, item: Content) -> PendingExample | None:
        """Return the label that waits for an example."""
        if self.labels is None or not isinstance(item, Example) or item.labelled:
            return None
        return self.labels.early.get(str(item.id))

    def join(self, record: Record, item: Content) -> Work | None:
        """Return the work of a record, where labels come separately with its example or label."""
        if isinstance(item, Label):
            joined = None if self.labels is None else self.labels.join(item, record)
            return None if joined is None else Work(record, *joined)
        if item is None or isinstance(item, ExampleError) or self.labels is None:
            return None if item is None else Work(record, item)
        met = self.labels.meet(item)
        return Work(record, met) if isinstance(met, Example) else Work(record, item, met)

    def sendable(self, record: Record, item: Content) -> Content:
        """Return the content, or an error if the sink cannot take a prediction with this id."""
        if isinstance(item, Example):
            try:
                self.sink.fits(str(item.id), record)
            except ExampleError as error:
                return error
        return item

    @property
    def enough(self) -> bool:
        """Whether the requested number of examples has been reached."""
        return self.until is not None and self.metrics.examples >= self.until

    def end(self) -> None:
        """Write the last line of metrics if the source has ended, unless it is there already.

        It is not part of a checkpoint: a run that is resumed when there is more removes it.
        """
        if self.drained and self.metrics.steps > self.metrics.reported:
            self.write_metrics()
        self.lines.flush()

    def room(self) -> int:
        """Return the size of the next micro-batch: up to where something is due; 0 at the end of the run."""
        steps, examples = self.metrics.steps, self.metrics.examples
        due = [1 if self.strict or self.settle else self.schedule.room(steps)]
        due += [] if self.labels is None else [WEIGH_EVERY - steps % WEIGH_EVERY]
        due += [] if self.until is None else [self.until - examples]
        room = min(due)
        return self.crash.room(steps, room) if room > 0 else 0

    def save_due(self, seconds: float) -> bool:
        """Tell whether a checkpoint is due: by count, or by time since the last."""
        if self.position is self.saved_position:
            return False
        every, interval = self.schedule.checkpoint_examples, self.schedule.checkpoint_seconds
        if every is not None:
            return self.metrics.steps % every == 0
        return interval is not None and seconds >= interval

    # writing -------------------------------------------------------------------------------------

    def write(self, work: Sequence[Work], outcomes: Sequence[Outcome]) -> None:
        """Write one prediction per example, and dead letters, in the order of the records."""
        for entry, outcome in zip(work, outcomes, strict=True):
            (record, item, waiting, _), prediction = entry, outcome.prediction
            late = isinstance(item, Answered)
            if late and prediction is None and waiting is not None and self.labels is not None:
                self.labels.refuse(str(entry.example.id), waiting)
            if prediction is None:
                self.refuse(entry, outcome)
            if self.answered is not None:
                self.answered(record, item, outcome)
            if isinstance(item, Answered):
                continue
            if waiting is not None:
                waiting.give_out(prediction)
            self.send(record, item, outcome)
        self.shown.take(work, outcomes)

    def send(self, record: Record, item: Example | ExampleError, outcome: Outcome) -> None:
        """Give a prediction to the sink; if it is too long, it becomes a dead letter."""
        try:
            self.sink.write(record, item, outcome)
        except ExampleError as error:
            self.metrics.refuse(error.kind)
            reason = f"{error.reason}; the example was learned from, but its prediction is lost"
            self.dead.append(record, reason, str(item.id) if isinstance(item, Example) else None)

    def refuse(self, work: Work, outcome: Outcome) -> None:
        """Write a dead letter; with ``strict`` or ``settle`` save the state before it and raise DataError."""
        record, example = work.record, work.example
        name = None if example.id is None else str(example.id)
        reason = outcome.error or ""
        if self.strict or (self.settle and outcome.unsolved):
            self.save()  # with the position before the record, which was read alone
            suffix = f" (example {printable(name)})" if name else ""
            raise DataError(f"{record.file}:{record.line}: {reason}{suffix}")
        self.dead.append(record, reason, name)

    def check_share(self, at_end: bool = False) -> None:
        """Raise DataError, after saving, if a check is due and too many examples are bad."""
        bad, examples = self.metrics.bad, self.metrics.examples
        due = at_end or self.metrics.steps % SHARE_EVERY == 0
        if due and bad > self.bad_share * examples:
            self.save()
            raise DataError(
                f"{bad} of {examples} examples are bad, more than limits.bad_share "
                f"({self.bad_share:g}) allows; see {self.folder.deadletter}"
            )

    def line(self) -> dict[str, Any]:
        """Return a line of metrics, over the run so far."""
        return {
            **self.metrics.snapshot(),
            **({"lost": lost} if (lost := (self.position or {}).get("lost")) else {}),
            **self.learner.certificate(),
            "updates": self.learner.weights.updates,
            "weights": len(self.learner.weights),
            "dropped_weights": self.learner.weights.dropped,
            **(self.labels.counts() if self.labels is not None else {}),
            **({} if self.copies is None else {"failed_copies": self.copies.failures}),
        }

    def write_metrics(self) -> None:
        """Write a line of metrics, and start a new window."""
        line = self.line()
        self.lines.write(msgspec.json.encode(line) + b"\n")
        if self.log is not None:
            self.log(line)
        self.metrics.next_window()

    def close(self) -> None:
        """Close the outputs and the crash note; the source stays open."""
        self.sink.close()
        self.crash.close()
        self.outputs.close()
