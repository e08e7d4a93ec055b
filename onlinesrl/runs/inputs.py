"""The configured inputs of a run: its source, and its background facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from onlinesrl.core.background import Background
from onlinesrl.core.errors import DatabaseError
from onlinesrl.core.example import GroundAtom, Number, show_ground_atom
from onlinesrl.core.language import Program
from onlinesrl.logic.dialect import dialect_of
from onlinesrl.logic.tables import load_atoms
from onlinesrl.runs.config import Config
from onlinesrl.runs.messages import warn
from onlinesrl.stream.examples import Reader
from onlinesrl.stream.folder import RunFolder
from onlinesrl.stream.protocols import Setting, Source
from onlinesrl.stream.requests import Requests

Stopping: TypeAlias = Callable[[], bool]
"""Tells whether the run was asked to stop."""


def make_reader(
    config: Config,
    until: str | int | None = "end",
    folder: RunFolder | None = None,
    stopping: Stopping = lambda: False,
    requests: Requests | None = None,
) -> Reader:
    """Return the reader of the configured source; with a run folder, it keeps notes there.

    If there are ``requests`` of clients, these are the source.
    """
    source, labels = config.source, config.labels
    topics = [labels.topic] if labels is not None and labels.topic is not None else []
    setting = Setting(folder, until, stopping, warn, topics, source.max_bytes, config.batch)
    return Reader(
        (requests or source).make(setting),
        config.query,
        source.only,
        source.without,
        labels is not None,
        dialect_of(config.dialect),
    )


def background(config: Config, program: Program) -> Background:
    """Return the background facts.

    Raises DatabaseError for a fact that is unknown to the model, is not true (for PSL: has no value),
    or has two values.
    """
    found: dict[tuple[str, tuple[str, ...]], GroundAtom] = {}
    for path in config.source.background or ():
        for atom in load_atoms(path, program, dialect_of(config.dialect)):
            name = show_ground_atom(atom.predicate, atom.arguments)
            message = None
            sure = atom.value is True or isinstance(atom.value, Number)
            if atom.value is None or (config.language.true_facts and not sure):
                message = f"a background fact must be true, and {name} is not"
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


def check_apart(config: Config, source: Source, folder: RunFolder) -> None:
    """Raise ConfigError if a run would read a file that it writes."""
    written = {file.resolve() for file in folder.written}
    for file in source.files:
        if Path(file).resolve() in written:
            reason = f"{file} is written by this run; choose another output"
            raise config.error("source.path", reason)
