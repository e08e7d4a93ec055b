"""Trained weights on a source, without learning: predict, evaluate, check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.errors import DataError, ExampleError, shortened
from onlinesrl.core.evaluation.own_metric import Metric
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Example, Label, ambiguous_labels
from onlinesrl.core.learner import Learner, scored
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.console import say, warn
from onlinesrl.runs.inputs import make_reader
from onlinesrl.runs.run import compile_kernels, new_learner, trained_learner
from onlinesrl.stream.decoding import Decoded, ExampleReader
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.late_labels import with_labels
from onlinesrl.stream.optional_names import OptionalNames
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.process_batch import process_batch
from onlinesrl.stream.records import Record
from onlinesrl.stream.schedule import Pace
from onlinesrl.stream.source import READ_BYTES

SHOWN_PLACES = 3
CHECK_PATIENCE = "3s"
"""For how long a check waits for brokers, or for the program that sends."""
_DETAIL = re.compile(r"\([^()]*\)|[0-9]+")


def predictions(
    learner: Learner, config: Config, metrics: Metrics, labelled: bool = False
) -> Iterator[Result | None]:
    """Predict the configured source without learning; counts are added to ``metrics``.

    Yields None when all that is there for now has been predicted. If ``labelled``, examples have the labels
    that come separately; otherwise these are skipped.
    """
    compile_kernels(learner, say)
    reader = make_reader(config)
    joined = labelled and config.labels is not None
    batches = _joined_batches(reader, config, learner) if joined else _batches(reader, config.batch)
    for batch in batches:
        if not batch:
            yield None
        for result in _step(learner, batch, metrics, config.metrics.own):
            if (error := result.outcome.error) is not None:
                warn(f"{result.record.file}:{result.record.line}: {error}")
            yield result
    complain(reader.choice, not metrics.examples)
    for complaint in metrics.complaints(config.query):
        warn(complaint)
    predicted = metrics.examples - metrics.bad
    if metrics.certified is not None and metrics.certified < predicted:
        unproven = f"{predicted - metrics.certified} of {predicted} predictions"
        warn(f"{unproven} are not proven to be the best (certified: false)")


def complain(choice: Choice, nothing: bool) -> None:
    """Warn of groups that no example has, and of a source without examples.

    Raises DataError if none of its examples was chosen.
    """
    choice.check()
    for complaint in choice.complaints():
        warn(complaint)
    if nothing:
        warn("the source has no example")


def _step(
    learner: Learner, batch: list[Decoded], metrics: Metrics, own: Mapping[str, Metric]
) -> Iterator[Result]:
    """Predict a micro-batch, and clear it; labels in it are skipped."""
    examples = [
        (record, content) for record, content in batch if not isinstance(content, Label | None)
    ]
    batch.clear()
    outcomes, tally = process_batch(learner, [example for _, example in examples], learning=False)
    metrics.add(tally, len(examples))
    metrics.score(own, scored([example for _, example in examples], outcomes))
    for (record, example), outcome in zip(examples, outcomes, strict=True):
        yield Result(record, example, outcome)


def _batches(reader: ExampleReader, most: int) -> Iterator[list[Decoded]]:
    """Read a source in micro-batches; an empty one: there is no more for now."""
    pace = Pace()
    with closing(reader.source):
        reader.open()
        while (batch := reader.next_batch(min(most, pace.most))) is not None:
            with pace.taking(batch.records):
                yield batch.items


def _joined_batches(
    reader: ExampleReader, config: Config, learner: Learner
) -> Iterator[list[Decoded]]:
    """Read a source to its end in micro-batches of examples with their labels."""
    bad = list[Decoded]()

    def refuse(record: Record, error: ExampleError) -> None:
        bad.append((record, error))

    examples = _joined(reader.good(refuse), config, learner, refuse)
    while batch := [*islice(examples, config.batch), *bad]:
        bad.clear()
        yield batch


def evaluate(config: Config, trained: Path) -> dict[str, Any]:
    """Return the metrics of trained weights on the configured source, without learning.

    Raises DataError if no example can be scored.
    """
    learner, metrics = trained_learner(config, trained), Metrics()
    for _ in predictions(learner, config, metrics, labelled=True):
        pass
    examples, unlabelled = metrics.examples, metrics.unlabelled
    if not metrics.total.labelled:
        raise DataError(
            f"nothing to evaluate: of {examples} examples, {unlabelled} have no `truth` "
            f"and {metrics.bad} are bad"
        )
    if unlabelled:
        warn(f"{unlabelled} of {examples} examples have no `truth` and are not scored")
    snapshot = metrics.snapshot()
    del snapshot["window"]
    return snapshot


def check(config: Config, most: int) -> tuple[list[str], bool]:
    """Validate configuration, model and first examples; return the findings, and whether all is good."""
    learner = new_learner(config)
    mapping = config.source.mapping
    names = (
        None
        if mapping is None
        else OptionalNames(mapping, deep=True, columns=config.source.columns)
    )
    first = first_examples(config, most, names)
    compile_kernels(learner, say)
    findings = [f"model: {learner.describe()}"]
    examples = [example for _, example in first]
    places = [f"{record.file}:{record.line}" for record, _ in first]
    outcomes, tally = process_batch(learner, examples, learning=False)
    bad = list(_alike((p, o.error) for p, o in zip(places, outcomes, strict=True) if o.error))
    if config.source.form() is not None or config.source.linked is not None:
        for record, example in first:
            if isinstance(example, Example):
                findings.append(f"{record.file}:{record.line} becomes")
                findings += (
                    f"  {key}: {shortened(msgspec.json.encode(value).decode())}"
                    for key, value in msgspec.to_builtins(example).items()
                    if value is not None
                )
                break
    findings.append(f"examples: {tally.predicted} of the first {len(examples)} are good")
    whole = [example for example in examples if isinstance(example, Example)]
    answers = zip(examples, outcomes, strict=True)
    good = [x for x, outcome in answers if isinstance(x, Example) and outcome.prediction]
    ambiguous = ambiguous_labels(good, config.query)
    if names is not None:
        findings += names.messages(f"none of the first {names.records} records has").values()
    return [*findings, *bad, *ambiguous, *learner.advice(whole)], not bad


def first_examples(
    config: Config, most: int, names: OptionalNames | None = None
) -> list[tuple[Record, Example | ExampleError]]:
    """Read the first examples, at most ``most``, until their bytes reach READ_BYTES.

    Labels that come later are joined with their examples, if they come soon enough. ``names`` looks at the
    records that are mapped.
    """
    first: list[tuple[Record, Example | ExampleError]] = []
    truths: dict[str, tuple[Record, Label]] = {}
    awaited, room = set[str](), config.labels.pending if config.labels else 0
    size = 0
    if not most:
        return first
    source = config.source.model_copy(update={"patience": CHECK_PATIENCE})
    reader = make_reader(config.model_copy(update={"source": source}), names=names)
    for record, content in chain.from_iterable(reader.read()):
        name = str(content.id) if isinstance(content, Example | Label) else ""
        if isinstance(content, Label):
            if name in awaited or len(first) < most:
                truths.setdefault(name, (record, content))
                awaited.discard(name)
        elif content is None:
            continue
        elif len(first) < most:
            first.append((record, content))
            size += len(record.value)
            most = len(first) if size >= READ_BYTES else most
            if isinstance(content, Example) and content.truth is None and name not in truths:
                awaited.add(name)
        else:
            room -= 1
        if len(first) == most and not (awaited and room > 0):
            break
    else:
        complain(reader.choice, not first)
    for n, (_, content) in enumerate(first):
        if isinstance(content, Example) and content.truth is None and str(content.id) in truths:
            record, label = truths[str(content.id)]
            first[n] = record, label.of(content)
    return first


def lines(config: Config) -> Iterator[tuple[bytes | None, str]]:
    """Yield the line of each example and truth that a source's records become; or None, and why it is bad."""
    for record, content in chain.from_iterable(make_reader(config).read()):
        if isinstance(content, ExampleError):
            yield None, f"{record.file}:{record.line}: {content}"
        elif content is not None:
            fields = msgspec.to_builtins(content)
            line = {key: value for key, value in fields.items() if value is not None}
            yield msgspec.json.encode(line), ""


def labelled_examples(
    config: Config, refuse: Callable[[Record, ExampleError], object]
) -> Iterator[Example]:
    """Yield the examples of the configured source, read to its end, with the labels that come separately.

    ``refuse`` is called with each record that is no example, and with each label that makes a good example
    bad, which then waits for another label.
    """
    reader = make_reader(config)
    contents = reader.good(refuse)
    if config.labels is None:
        yield from (content for _, content in contents if isinstance(content, Example))
    else:
        for _, example in _joined(contents, config, new_learner(config), refuse):
            yield example
    reader.choice.check()


def _joined(
    contents: Iterable[tuple[Record, Example | Label]],
    config: Config,
    learner: Learner,
    refuse: Callable[[Record, ExampleError], object],
) -> Iterator[tuple[Record, Example]]:
    """Yield examples with the labels that come separately; see ``labelled_examples``."""

    def fits(record: Record, label: Label, example: Example) -> bool:
        outcomes, _ = process_batch(learner, [label.of(example)], learning=False)
        reason = next((o.error for o in outcomes if not o.unsolved), None)
        if reason is None or process_batch(learner, [example], learning=False)[1].errors:
            return True
        refuse(record, ExampleError(reason))
        return False

    assert config.labels is not None
    return with_labels(contents, config.labels.pending, fits)


def _alike(complaints: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield one line for all complaints that differ only in numbers and arguments."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for place, reason in complaints:
        groups.setdefault(_DETAIL.sub("", reason), []).append((place, reason))
    for (place, reason), *repetitions in groups.values():
        places = ", ".join(place for place, _ in repetitions[:SHOWN_PLACES])
        more = f", ... {len(repetitions) + 1:,} in all" if len(repetitions) > SHOWN_PLACES else ""
        likeness = "also" if all(other == reason for _, other in repetitions) else "like it"
        yield f"{place}: {reason}" + (f" ({likeness}: {places}{more})" if repetitions else "")
