"""The configured inputs of a run: its source, and its background facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from onlinesrl.core.background import Background
from onlinesrl.core.errors import DatabaseError, DataError, ExampleError, OnlinesrlError
from onlinesrl.core.example import Example, GroundAtom, Number, show_ground_atom
from onlinesrl.core.language import Program
from onlinesrl.logic.dialect import Dialect, dialect_of
from onlinesrl.logic.tables import load_atoms
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.console import warn
from onlinesrl.stream.decoding import Decoder, ExampleReader, RecordDecoder
from onlinesrl.stream.distributed.splits import cut as cut_shards
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.optional_names import OptionalNames
from onlinesrl.stream.record_form import RecordForm
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.source import Source, SourceContext, SourceSection
from onlinesrl.stream.world_changes import ChangeDecoder, ChangeRecords

Stopping: TypeAlias = Callable[[], bool]
"""Tells whether the run was asked to stop."""


def make_reader(
    config: Config,
    until: str | int | None = "end",
    folder: RunFolder | None = None,
    stopping: Stopping = lambda: False,
    decoder: Decoder | None = None,
    made: Callable[[SourceContext, RecordDecoder], Source] | None = None,
    names: OptionalNames | None = None,
) -> ExampleReader:
    """Return the reader of the configured source; with a run folder, it keeps notes there.

    The source is ``made`` otherwise where requests of clients take its place. The ``decoder``, a learner, is
    not used where labels come separately: an example that waits for its label stays whole. ``names`` looks
    at the names of the records that are mapped.
    """
    source, labels = config.source, config.labels
    topics = [labels.topic] if labels is not None and labels.topic is not None else []
    retention = config.limits.retention_bytes
    setting = SourceContext(
        folder,
        until,
        stopping,
        warn,
        topics,
        source.max_bytes,
        config.batch,
        retention,
        names,
        whole=config.of_records,
    )
    records = record_decoder(config, source.form(setting), decoder)
    if made is not None:
        return ExampleReader(made(setting, records), records)
    cut = config.distribute if folder is not None else None
    origin = source.make(setting) if cut is None else cut_shards(source, cut.shards)
    return ExampleReader(origin, records)


def record_decoder(
    config: Config, form: RecordForm | None, decoder: Decoder | None
) -> RecordDecoder:
    """Return the decoder of the records of a run, which have a ``form``."""
    source, labels = config.source, config.labels is not None
    return (ChangeRecords if config.world else RecordDecoder)(
        () if config.world else config.query,
        source.max_bytes,
        Choice(source.only, source.without),
        labels,
        dialect_of(config.dialect),
        ChangeDecoder() if config.world else None if labels else decoder,
        form,
    )


def examples_of(
    source: SourceSection,
    query: Sequence[str],
    dialect: Dialect,
    misfit: Callable[[str, str], OnlinesrlError],
) -> Iterator[tuple[str, Example]]:
    """Yield the examples of a source of Markov logic, read to its end, each with its place.

    Raises DataError, with the place, at the first that is bad, and for a source without any; and the
    ``misfit`` of a key of the source, and a reason, for a group that no example has.
    """
    setting = SourceContext(None, "end", lambda: False, warn, [], source.max_bytes, 1)
    choice = Choice(source.only, source.without)
    decoder = RecordDecoder(
        query, source.max_bytes, choice, dialect=dialect, form=source.form(setting)
    )
    reader, place = ExampleReader(source.make(setting), decoder), ""
    for items in reader.read():
        for record, content in items:
            example = content
            place = record.file if record.kind == "db" else f"{record.file}:{record.line}"
            if isinstance(example, ExampleError):
                raise _placed(place, example)
            if not isinstance(example, Example):
                continue
            if record.kind == "db" and example.truth is None:
                example = replace(example, truth={})  # where no atom of the query is true
            yield place, example
    for complaint in reader.choice.complaints():
        key, _, reason = complaint.removeprefix("source.").partition(": ")
        raise misfit(key, reason)
    if not place:
        raise DataError("there are no examples in the source, or none of the groups asked for")


def worlds_of(
    examples: Iterable[tuple[str, Example]], source: SourceSection, program: Any, dialect: Dialect
) -> Iterator[tuple[str, list[GroundAtom]]]:
    """Yield the places of examples, and the atoms of the worlds that they and the background are.

    Raises DataError, with the place, at the first that has no truth.
    """
    from onlinesrl.mln.learning.problem import atoms_of

    shared = [a for path in source.background or () for a in load_atoms(path, program, dialect)]
    for place, example in examples:
        try:
            yield place, atoms_of(example, program) + shared
        except ExampleError as error:
            raise _placed(place, error) from None


def _placed(place: str, error: ExampleError) -> DataError:
    return DataError(f"{place}: {str(error).removeprefix(f'{place}: ')}")


def background(config: Config, program: Program) -> Background:
    """Return the background facts.

    Raises DatabaseError for a fact that is unknown to the model, is not true (for PSL: has no value),
    or has two values.
    """
    facts: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for path in config.source.background or ():
        for atom in load_atoms(path, program, dialect_of(config.dialect)):
            name = show_ground_atom(atom.predicate, atom.arguments)
            message = None
            sure = atom.value is True or isinstance(atom.value, Number)
            if atom.value is None or (config.language.true_facts and not sure):
                message = f"a background fact must be true, and {name} is not"
            first = facts.setdefault(atom[:2], atom)
            if first.value != atom.value:
                message = f"{name} has another value here than in line {first.line}"
            if message is not None:
                raise DatabaseError(
                    message,
                    file=str(path),
                    line=atom.line,
                    column=1,
                    hint="put in the examples what differs among them; all else is false",
                )
    return Background([*facts.values()])


def check_apart(config: Config, source: Source, folder: RunFolder) -> None:
    """Raise ConfigError if a run would read a file that it writes."""
    written = {file.resolve() for file in folder.written}
    for file in source.files:
        if Path(file).resolve() in written:
            reason = f"{file} is written by this run; choose another output"
            raise config.error("source.path", reason)
