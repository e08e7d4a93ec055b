"""The options, messages and outputs that several commands share."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, BinaryIO, get_type_hints

import typer

from onlinesrl.core.io.remote import is_address, local_copy

STARTED = time.perf_counter()
"""When the commands were imported, close to the start of the process."""


def located(text: str) -> Path:
    """Return the path of a file, or of a copy if it is at an address. Raises UsageError, StorageError."""
    return local_copy(text) if is_address(text) else Path(text)


ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A run's YAML file.")]
Trained = Annotated[
    Path,
    typer.Argument(
        metavar="TRAINED",
        parser=located,
        help="A checkpoint, a run folder, an .mln or a .psl file.",
    ),
]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the configuration."),
]
OutputOption = Annotated[
    Path | None, typer.Option(help="The file to write; by default standard output.")
]

TablesOption = Annotated[
    Path | None,
    typer.Option("--tables", metavar="FOLDER", help="Write tables there, in Parquet files."),
]

Distribute = Annotated[
    list[str],
    typer.Option(
        "--distribute",
        metavar="KEY=VALUE",
        help="Where the work is done: engine=local|ray, address, workers; see the guide to clusters.",
    ),
]

AllowHost = Annotated[
    list[str],
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="A host name that clients may use, besides localhost and IP addresses; may be repeated.",
    ),
]

Model = Annotated[Path, typer.Option("--model", metavar="M.mln", parser=located, help="The model.")]

Evidence = Annotated[
    list[Path],
    typer.Option("--evidence", metavar="E.db", help="Markov logic: a database; may be repeated."),
]

Query = Annotated[str, typer.Option("--query", metavar="P,Q", help="Predicates to answer for.")]

Closed = Annotated[
    str,
    typer.Option(
        "--closed",
        metavar="P,Q",
        help="Markov logic: predicates whose atoms are false unless a database says otherwise.",
    ),
]

Open = Annotated[
    str,
    typer.Option(
        "--open",
        metavar="P,Q",
        help="Markov logic: predicates whose atoms are unknown unless a database says otherwise.",
    ),
]

MaxAtoms = Annotated[
    int, typer.Option(min=1, help="Markov logic: the most open atoms that the world may have.")
]

MaxGroundings = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="1,000,000; for PSL 50,000,000",
        help="The most ground clauses; for PSL, the most rows of a join (tandem has no limit).",
    ),
]

DialectOption = Annotated[
    str,
    typer.Option(
        "--dialect",
        metavar="NAME",
        help="Markov logic: how the files are written: alchemy, tuffy, rockit, pracmln, "
        "pracmln-standard or lomrf.",
    ),
]


def with_records(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer: each field of a dataclass among its parameters is an option of its own."""
    hints = get_type_hints(command, include_extras=True)
    records: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in signature(command).parameters.items():
        if name not in records:
            kind = Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=hints[name]))
            continue
        types = get_type_hints(records[name], include_extras=True)
        for field in fields(records[name]):
            made = MISSING if field.default_factory is MISSING else field.default_factory()
            default = field.default if made is MISSING else made
            parameters.append(
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=types[field.name],
                )
            )

    @wraps(command)
    def flat(**values: Any) -> None:
        made = {
            name: record(**{field.name: values.pop(field.name) for field in fields(record)})
            for name, record in records.items()
        }
        command(**values, **made)

    flat.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in parameters}
    return flat


@contextmanager
def output_to(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file for writing; without a path, standard output."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    from onlinesrl.core.io.atomic_write import storage_errors

    with storage_errors(path, "write"), path.open("wb") as stream:
        yield stream


def write_lines(path: Path | None, lines: Iterator[str] | list[str]) -> None:
    """Write lines to a file, or to standard output."""
    with output_to(path) as stream:
        stream.write("".join(f"{line}\n" for line in lines).encode())


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that no temporary files stay on disk."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
