"""What several commands share: their arguments, messages, and where they write."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from onlinesrl.core.errors import legible

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A run's YAML file.")]
Trained = Annotated[
    Path,
    typer.Argument(metavar="TRAINED", help="A checkpoint, a run folder, an .mln or a .psl file."),
]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the configuration."),
]
OutputOption = Annotated[Path | None, typer.Option(help="A file; else standard output.")]

TablesOption = Annotated[
    Path | None,
    typer.Option("--tables", metavar="FOLDER", help="Write tables there, in Parquet files."),
]

Distribute = Annotated[
    list[str],
    typer.Option(
        "--distribute",
        metavar="KEY=VALUE",
        help="Where parts are worked on: engine=local|ray, address, workers; see the guide to clusters.",
    ),
]


def say(message: str) -> None:
    """Write a message to standard error, if anybody is there to read it."""
    with suppress(OSError):
        print(legible(message), file=sys.stderr)


def warn(message: str) -> None:
    """Write a warning to standard error."""
    say(f"warning: {message}")


AllowHost = Annotated[
    list[str],
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="A name by which clients may ask, besides localhost and IP addresses; may be repeated.",
    ),
]


@contextmanager
def output_to(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file to write to, or standard output where there is no path."""
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
