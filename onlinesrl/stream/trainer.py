"""The learning loop: read a batch, step, write. Checkpoints contain state and position together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from onlinesrl.core.errors import DataError, ExampleError, printable
from onlinesrl.core.evaluation.precision_at_k import period_of
from onlinesrl.core.example import Atom, Example, Label
from onlinesrl.core.learner import Answered, Item, Outcome, Tally, scored
from onlinesrl.stream.alerts import Term
from onlinesrl.stream.checkpointer import Checkpointer
from onlinesrl.stream.crash_notes import CrashNote
from onlinesrl.stream.decoding import Content, Contents, Decoded, ExampleReader
from onlinesrl.stream.late_labels import PendingExample
from onlinesrl.stream.observer import Observer, Progress
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.process_batch import process_batch
from onlinesrl.stream.recent_examples import drifts
from onlinesrl.stream.records import Record
from onlinesrl.stream.schedule import SHARE_EVERY, WEIGH_EVERY, Pace, Schedule, rare_collections
from onlinesrl.stream.scored_atoms import count_top
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped
from onlinesrl.stream.sink import Sink


class Rules(NamedTuple):
    """When a run writes, and what ends it.

    ``strict``: a bad example; ``settle``: an unsolved one; more than ``bad_share`` of the examples being bad;
    or that there have been ``until`` examples.
    """

    schedule: Schedule
    strict: bool = False
    settle: bool = False
    bad_share: float = 1.0
    until: int | None = None


class EarlyLabel(NamedTuple):
    """The record of a label that came before its example, and the example without it."""

    record: Record
    example: Example


class Work(NamedTuple):
    """An item for the learner, its record, and its entry among those that wait for a label.

    ``early``: the item has a label that came before its example.
    """

    record: Record
    item: Item
    waiting: PendingExample | None = None
    early: EarlyLabel | None = None


class Trainer:
    """Learns from a source, from its start or from the last checkpoint.

    Raises DataError (exit 65) for what ends it by the ``rules``; StorageError when something cannot be
    written. An example in which too many processes died, as ``crash`` tells, is bad.
    """

    def __init__(
        self,
        reader: ExampleReader,
        checkpointer: Checkpointer,
        rules: Rules,
        crash: CrashNote,
        observers: Sequence[Observer] = (),
    ):
        self.reader = reader
        self.checkpointer, self.state = checkpointer, checkpointer.state
        self.outputs = checkpointer.outputs
        self.rules = rules
        self.crash = crash
        self.observers = observers
        self.pace = Pace()
        self.limits_ids = type(self.state.sink).fits is not Sink.fits
        self.unsaved = self.condemned = False
        self.drained = self.state.finished
        """Whether the source has ended."""

    # the loop ------------------------------------------------------------------------------------

    def run(self, stopper: ShutdownSignal) -> None:
        """Learn until the source ends or a signal asks to stop; save a checkpoint in either case."""
        state, live = self.state, self.reader.source.live
        self.started = time.monotonic() - state.seconds
        self.drained = state.finished = False
        stopper.subscribe(self.crash.excuse)
        self.open(stopper)
        self.saved_at = time.monotonic()
        self.check_share()
        try:
            progress = self.progress([], [], 0.0)
            for observer in self.observers:
                observer.begin(progress)
            with rare_collections():
                while not (stopper.asked or self.drained or self.enough):
                    self.advance(stopper)
        finally:
            for observer in self.observers:
                observer.end()
        if self.drained and not stopper.asked:
            self.check_share(at_end=True)
            if not live:
                self.reader.choice.check()
            state.finished = not live
        self.save()

    def open(self, stopper: ShutdownSignal) -> None:
        """Open source and sink; of a live source, a new run saves its starting position first."""
        state = self.state
        self.reader.open(state.position)
        state.sink.open(state.sink_state, self.outputs.predictions)
        if state.alerts is not None:
            state.alerts.sink.open(state.alerts.sink_state, self.outputs.files["alerts"])
        held = any(sink.state() for sink in state.sinks())
        if self.checkpointer.number == 0 and (self.reader.source.live or held):
            self.save()

    def advance(self, stopper: ShutdownSignal) -> None:
        """Learn from the next micro-batch, tell the observers, and save if that is due."""
        room, steps = min(self.room, self.pace.most), self.state.metrics.steps
        if self.rules.strict or self.rules.settle:  # it may be the one to go back to
            self.note_position()
        try:
            batch = self.reader.next_batch(room, self.crash.condemned(steps))
        except MemoryError:
            with self.crash.trying(steps, room):
                raise
        except Stopped:  # while it waited for brokers
            return
        except DataError:
            self.save()
            raise
        if batch is None:
            self.drained = True
            return
        began, metrics = time.monotonic(), self.state.metrics
        before, self.condemned = metrics.steps, False
        results, written = self.learn(batch)
        if metrics.steps > before and self.rules.schedule.metrics_due(metrics.steps):
            written.append(self.write_metrics())
        if batch.items:
            self.unsaved = True
            if self.state.labels is not None and metrics.steps % WEIGH_EVERY == 0:
                self.state.labels.weigh()
            self.check_share()
        else:
            self.outputs.predictions.flush(fsync=False)
        took = time.monotonic() - began
        self.pace.heed(batch.records, took)
        progress = self.progress(batch.items, results, took, written)
        for observer in self.observers:
            observer.batch(progress)
        for sink in self.state.sinks():
            if sink.due:
                sink.flush()
        if self.condemned or self.save_due:
            self.save()
            self.crash.passed(metrics.steps)
            for observer in self.observers:
                observer.saved()

    @property
    def enough(self) -> bool:
        """Whether the requested number of examples has been reached."""
        return self.rules.until is not None and self.state.metrics.examples >= self.rules.until

    @property
    def room(self) -> int:
        """The most records of the next micro-batch: up to where something is due."""
        steps, rules = self.state.metrics.steps, self.rules
        due = [1 if rules.strict or rules.settle else rules.schedule.room(steps)]
        due += [] if self.state.labels is None else [WEIGH_EVERY - steps % WEIGH_EVERY]
        due += [] if rules.until is None else [rules.until - self.state.metrics.examples]
        return self.crash.room(steps, min(due))

    @property
    def save_due(self) -> bool:
        """Whether a checkpoint is due: by count, or by time since the last."""
        schedule = self.rules.schedule
        every, seconds = schedule.checkpoint_examples, schedule.checkpoint_seconds
        if not self.unsaved:
            return False
        if every is not None:
            return self.state.metrics.steps % every == 0
        return seconds is not None and time.monotonic() - self.saved_at >= seconds

    def note_position(self) -> None:
        """Note how far the source has been read."""
        self.state.position = self.reader.snapshot()

    def save(self) -> None:
        """Write a checkpoint after what the source has given."""
        self.note_position()
        self.write_checkpoint()

    def write_checkpoint(self) -> None:
        """Write a checkpoint, after the position that was noted; see ``Checkpointer.save``."""
        self.state.seconds = time.monotonic() - self.started
        self.checkpointer.save(self.reader.source)
        self.unsaved, self.saved_at = False, time.monotonic()

    def progress(
        self,
        items: Sequence[Decoded],
        results: Sequence[Result],
        took: float,
        written: Sequence[dict[str, Any]] = (),
    ) -> Progress:
        """Return what the observers are told."""
        seconds, examples = time.monotonic() - self.started, self.state.metrics.examples
        lag = self.reader.source.lag
        return Progress(items, results, examples, took, seconds, written, self.line, lag)

    # a micro-batch -------------------------------------------------------------------------------

    def learn(self, batch: Contents) -> tuple[list[Result], list[dict[str, Any]]]:
        """Predict the examples of a micro-batch, learn from them, and write what came of it.

        Returns the results, and the lines of metrics of periods that ended before one of the examples.
        """
        results, written, part = list[Result](), list[dict[str, Any]](), list[Decoded]()
        for record, content in batch.items:
            if (ended := self.ended(content)) is not None:
                results += self.learn_part(part)
                written.append(self.write_metrics(ended))
                part = []
            part.append((record, content))
        return results + self.learn_part(part), written

    def ended(self, content: Content) -> float | None:
        """Return the time at which the period of metrics ended before an example, if it did so."""
        seconds, state = self.rules.schedule.metrics_seconds, self.state
        if seconds is None or not isinstance(content, Example):
            return None
        period, before = period_of(content.time, seconds), state.period
        if period is None or (before is not None and period <= before):
            return None
        state.period = period
        return None if before is None else (before + 1) * seconds

    def learn_part(self, items: Sequence[Decoded]) -> list[Result]:
        """Learn from items between which no period of metrics ends."""
        results = list[Result]()
        for work in self.parts(items):
            for part in self.apart(work):
                results += self.step(part)
        self.state.metrics.tombstones += sum(
            item is None and record.kind != "note" for record, item in items
        )
        return results

    def parts(self, items: Sequence[Decoded]) -> Iterator[list[Work]]:
        """Yield the work of a micro-batch in parts, each to be done before the next one is asked for.

        A part ends before the label, or a namesake, of an example in it. An example whose label came before
        it is alone, since it is processed again without the label where that is bad.
        """
        labels = self.state.labels
        part, names = list[Work](), set[str]()
        for record, content in items:
            item = self.sendable(record, content)
            if item is None:
                continue
            if labels is None or isinstance(item, ExampleError):
                part += [] if isinstance(item, Label) else [Work(record, item)]
                continue
            name, early = str(item.id), None
            if isinstance(item, Example):
                early = labels.early_label(item)
            if part and (early is not None or name in names):
                yield part
                part, names = [], set()
            if isinstance(item, Label):
                joined = labels.join(item, record)
                part += [] if joined is None else [Work(record, *joined)]
                names |= set() if joined is None else {name}
            elif early is not None:
                waiting = EarlyLabel(labels.early[name].record, item)
                yield [Work(record, early.of(item), early=waiting)]
            elif item.truth is not None:
                part.append(Work(record, item))
            else:
                part.append(Work(record, item, labels.wait(item)))
                names.add(name)
        if part:
            yield part

    def apart(self, work: list[Work]) -> Iterator[list[Work]]:
        """Yield a part in order; where there are alerts, what is learned from is alone.

        So the weights that predicted the other examples explain their alerts, whatever the micro-batches.
        """
        if self.state.alerts is None:
            yield work
            return
        part = list[Work]()
        for task in work:
            if part and (_learned(task.item) or _learned(part[-1].item)):
                yield part
                part = []
            part.append(task)
        yield part

    def sendable(self, record: Record, item: Content) -> Content:
        """Return the content, or an error if the sink cannot take a prediction with this id."""
        if self.limits_ids and isinstance(item, Example):
            try:
                self.state.sink.fits(str(item.id), record)
            except ExampleError as error:
                return error
        return item

    def step(self, work: list[Work]) -> list[Result]:
        """Process a part of a micro-batch, and write its results."""
        state, reasons = self.state, self.expected_alerts(work[0].item)
        outcomes, tally = self.process([task.item for task in work])
        if work[0].early is not None:
            work, outcomes, tally = self.with_early_label(work[0], outcomes, tally)
        results = [self.write(*pair) for pair in zip(work, outcomes, strict=True)]
        self.alert(results, reasons)
        state.shown.take(results)
        late = sum(isinstance(task.item, Answered) for task in work)
        marks = drifts(results, state.drift)
        state.metrics.add(tally, len(work) - late, late, marks)
        items = [task.item for task in work]
        state.metrics.score(state.own, scored(items, outcomes))
        count_top(state.top, items, outcomes)
        return results

    def expected_alerts(self, item: Item) -> dict[Atom, list[Term]]:
        """Return the alerts of an example that is learned from, by the weights before it is."""
        alerts, steps = self.state.alerts, self.state.metrics.steps
        if alerts is None or not isinstance(item, Example) or not item.labelled:
            return {}
        if self.crash.condemned(steps) is not None:
            return {}
        with self.crash.trying(steps, 1):
            return alerts.expected(item)

    def alert(self, results: Sequence[Result], reasons: Mapping[Atom, list[Term]]) -> None:
        """Raise the alerts of predictions."""
        alerts, steps = self.state.alerts, self.state.metrics.steps
        if alerts is None:
            return
        with self.crash.trying(steps, len(results)):
            raised = [alerts.add(result, reasons) for result in results]
        self.crash.passed(steps + len(results))
        for alerted in filter(None, raised):
            self.send(alerted, alerts.sink, "alert")

    def process(self, items: Sequence[Item]) -> tuple[list[Outcome], Tally]:
        """Predict items, and learn from them."""
        steps = self.state.metrics.steps
        outcomes, tally = process_batch(self.state.learner, items, True, self.crash, steps)
        self.condemned |= "crash" in tally.errors
        return outcomes, tally

    def with_early_label(
        self, task: Work, outcomes: list[Outcome], tally: Tally
    ) -> tuple[list[Work], list[Outcome], Tally]:
        """Take the label that came before an example from those that wait, if the outcome with it is good.

        If it is bad, the example is processed without the label. If it is good alone, the label is the bad
        record, and the example waits for another one. Otherwise the label waits for another example.
        """
        labels, early = self.state.labels, task.early
        assert labels is not None and early is not None
        name, error = str(early.example.id), next(iter(tally.errors), None)
        if error is None or error == "crash":
            labels.early.take(name)
            return [task], outcomes, tally
        again, counts = self.process([early.example])
        bad, task = Result(early.record, task.item, outcomes[0]), Work(task.record, early.example)
        if again[0].prediction is not None:
            self.refuse(bad)
            self.state.metrics.refuse(error)
            labels.early.take(name)
            task = task._replace(waiting=labels.wait(early.example))
        return [task], again, counts

    # writing -------------------------------------------------------------------------------------

    def write(self, task: Work, outcome: Outcome) -> Result:
        """Write the prediction of an example, and why it is bad where it is."""
        record, item, waiting, _ = task
        result = Result(record, item, outcome)
        if isinstance(item, Answered):
            if outcome.prediction is None and waiting is not None and self.state.labels is not None:
                self.state.labels.refuse(str(item.example.id), waiting)
        elif waiting is not None:
            waiting.give_out(outcome.prediction)
        if outcome.prediction is None:
            self.refuse(result)
        if not isinstance(item, Answered):
            self.send(result, self.state.sink)
        return result

    def send(self, result: Result, sink: Sink, noun: str = "prediction") -> None:
        """Give a prediction, or an alert, to a sink; if it is too long, it becomes a dead letter."""
        try:
            sink.write(result)
        except ExampleError as error:
            self.state.metrics.refuse(error.kind)
            reason = f"{error.reason}; the example was learned from, but its {noun} is lost"
            self.outputs.dead.append(result.record, reason, result.name)

    def refuse(self, result: Result) -> None:
        """Write a dead letter; where that ends the run, save the state before it and raise DataError."""
        record, outcome, name = result.record, result.outcome, result.name
        reason = outcome.error or ""
        if self.rules.strict or (self.rules.settle and outcome.unsolved):
            self.write_checkpoint()  # with the position before the record, which was read alone
            suffix = f" (example {printable(name)})" if name else ""
            raise DataError(f"{record.file}:{record.line}: {reason}{suffix}")
        self.outputs.dead.append(record, reason, name)

    def check_share(self, at_end: bool = False) -> None:
        """Raise DataError, after saving, if a check is due and too many examples are bad."""
        metrics, share = self.state.metrics, self.rules.bad_share
        due = at_end or metrics.steps % SHARE_EVERY == 0
        if due and metrics.bad > share * metrics.examples:
            self.save()
            raise DataError(
                f"{metrics.bad} of {metrics.examples} examples are bad, more than limits.bad_share "
                f"({share:g}) allows; see {self.outputs.dead.path}"
            )

    def line(self) -> dict[str, Any]:
        """Return a line of metrics, over the run so far."""
        copies = self.checkpointer.copies
        self.note_position()
        return self.state.line() | ({} if copies is None else {"failed_copies": copies.failures})

    def write_metrics(self, ended: float | None = None) -> dict[str, Any]:
        """Write a line of metrics, and start a new window; return the line.

        That of a period, which ``ended`` at a time, has nothing about the source, which is read ahead.
        """
        line = self.line() if ended is None else {"until": ended, **self.state.line(position=False)}
        self.outputs.metrics.write(msgspec.json.encode(line) + b"\n")
        self.state.metrics.next_window()
        return line

    def end(self) -> dict[str, Any] | None:
        """Write the last line of metrics if the source has ended, unless it is there already; return it.

        It is not part of a checkpoint: a run that is resumed when there is more removes it.
        """
        metrics, line = self.state.metrics, None
        if self.drained and metrics.steps > metrics.reported:
            line = self.write_metrics()
        self.outputs.metrics.flush()
        return line

    def close(self) -> None:
        """Close the outputs and the crash note; the source stays open."""
        for sink in self.state.sinks():
            sink.close()
        self.crash.close()
        self.outputs.close()


def _learned(item: Item) -> bool:
    """Tell whether a step changes weights."""
    return isinstance(item, Answered) or (isinstance(item, Example) and item.labelled)
