"""Where a run reads from and writes to, as configured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from onlinesrl.config import Config
from onlinesrl.errors import DatabaseError
from onlinesrl.ground.background import Background
from onlinesrl.lang.ast import Program
from onlinesrl.lang.database import GroundAtom, load_db
from onlinesrl.lang.dialect import dialect_of
from onlinesrl.lang.example import show_ground_atom
from onlinesrl.lang.psl_ast import PslProgram
from onlinesrl.progress import warn
from onlinesrl.stream.examples import Reader
from onlinesrl.stream.files import FileSource
from onlinesrl.stream.folder import RunFolder
from onlinesrl.stream.loop import Sink
from onlinesrl.stream.requests import Requests, RequestSource

Stopping: TypeAlias = Callable[[], bool]
"""Tells whether the run was asked to stop."""


def make_reader(
    config: Config,
    until: str | int | None = "end",
    folder: RunFolder | None = None,
    stopping: Stopping = lambda: False,
    requests: Requests | None = None,
) -> Reader:
    """Return the reader of the configured source; a run's notes in its folder what it reads.

    Where clients have ``requests``, these are the source.
    """
    source, labels = config.source, config.labels
    found: Any
    if requests is not None and folder is not None:
        found = RequestSource(requests, folder, source.max_bytes, config.batch, warn)
    elif source.kind == "kafka":
        journal = folder.order if folder else None
        found = _kafka_source(config, until == "end", journal, stopping)
    else:
        found = FileSource(
            source.path or (),
            source.max_bytes,
            live=until == "forever",
            ledger=folder.files if folder else None,
            say=warn,
        )
    return Reader(
        found,
        config.query,
        source.only,
        source.without,
        labels is not None,
        dialect_of(config.dialect),
    )


def background(config: Config, program: Program | PslProgram) -> Background:
    """Return the facts that every example has.

    Raises DatabaseError for one that is unknown to the model, is not true (for PSL: has no value), or
    has another value elsewhere.
    """
    found: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for path in config.source.background or ():
        for atom in load_db(path, program, dialect_of(config.dialect)):
            name = show_ground_atom(atom.predicate, atom.arguments)
            message = None
            if atom.value is None or (atom.value is not True and not config.soft):
                message = f"a background fact is true, and {name} is not"
            first = found.setdefault(atom[:2], atom)
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
    return Background([*found.values()])


def check_apart(config: Config, source: Any, folder: RunFolder) -> None:
    """Raise ConfigError where a run would read a file that it writes."""
    written = {file.resolve() for file in folder.written}
    for file in source.files if isinstance(source, FileSource) else ():
        if Path(file).resolve() in written:
            reason = f"{file} is written by this run; choose another output"
            raise config.error("source.path", reason)


def _kafka_source(config: Config, to_end: bool, journal: Path | None, stopping: Stopping) -> Any:
    from onlinesrl.stream.broker import Broker
    from onlinesrl.stream.kafka_source import KafkaSource, Reading
    from onlinesrl.stream.shared_source import SharedSource

    source, labels = config.source, config.labels
    topics = [source.topic, labels.topic if labels else None]
    reading = Reading(
        [topic for topic in topics if topic is not None],
        source.group,
        source.start == "end",
        to_end,
        source.gaps == "skip",
        source.patience_seconds,
        source.max_bytes,
    )
    broker = Broker(source.bootstrap or "", source.security.settings(), stopping)
    if source.shared and journal is not None:
        return SharedSource(broker, reading, warn)
    return KafkaSource(broker, reading, journal if source.order == "journal" else None, warn)


def kafka_sink(config: Config, stopping: Stopping) -> Sink | None:
    """Return the topic that predictions go to, if they do."""
    if config.sink.kind == "file":
        return None
    from onlinesrl.stream.broker import Broker
    from onlinesrl.stream.kafka_sink import KafkaSink

    source, sink = config.source, config.sink
    bootstrap = sink.bootstrap or source.bootstrap
    if bootstrap is None:
        raise config.error("sink", "bootstrap: missing; expected host:port of Kafka")
    broker = Broker(bootstrap, (sink.security or source.security).settings(), stopping)
    return KafkaSink(broker, sink.topic or "", source.patience_seconds, sink.max_bytes, warn)
