"""onlinesrl checkpoint: list, show and verify the checkpoints of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinesrl.commands.common import located
from onlinesrl.core.errors import OnlinesrlError, StorageError, UsageError

if TYPE_CHECKING:
    from onlinesrl.stream.checkpoints import Checkpoint

SHOWN = ("version", "finished", "seconds", "position", "lengths", "metrics", "fingerprint")

checkpoints = typer.Typer(
    no_args_is_help=True, help="The checkpoints of a run: list, show, verify."
)
CheckpointArgument = Annotated[
    Path, typer.Argument(metavar="RUN|FILE", parser=located, help="A run folder, or a checkpoint.")
]


def _loaded(path: Path) -> Iterator[tuple[Path, Checkpoint | StorageError]]:
    """Yield the checkpoint files of a run folder, or one file, each with its content or the damage."""
    from onlinesrl.stream.checkpoints import DamagedCheckpoint, checked, load, named, numbered

    files, inside = [path], path / "checkpoints"
    if path.is_dir():
        files = [file for _, file in sorted(numbered(inside if inside.is_dir() else path).items())]
    if not files:
        raise StorageError(f"{path}: no checkpoint in this folder")
    for file in files:
        try:
            yield file, named(file) if file == path else checked(load(file))
        except DamagedCheckpoint as error:
            yield file, error
        except StorageError:
            if file == path or file.exists():
                raise
            # else the run has replaced it by a newer one in the meantime


@checkpoints.command("list")
def checkpoint_list(path: CheckpointArgument) -> None:
    """List the checkpoints: number, time, size, examples, and whether they are intact."""
    from datetime import datetime

    for file, checkpoint in _loaded(path):
        try:
            status = file.stat()
        except FileNotFoundError:  # removed just now
            continue
        time = datetime.fromtimestamp(status.st_mtime).isoformat(" ", "seconds")
        state = "damaged"
        if not isinstance(checkpoint, StorageError):
            state = f"intact  {checkpoint.header['metrics'].get('examples', 0):,} examples"
        print(f"{file.name}  {time}  {status.st_size:>12,} bytes  {state}")


@checkpoints.command("show")
def checkpoint_show(path: CheckpointArgument) -> None:
    """Show what the newest intact checkpoint holds, as JSON."""
    newest = None
    for _, loaded in _loaded(path):
        newest = newest if isinstance(loaded, StorageError) else loaded
    if newest is None:
        raise StorageError(f"{path}: no intact checkpoint")
    about = {
        "path": str(newest.path),
        "number": newest.number,
        **{key: newest.header[key] for key in SHOWN if key in newest.header},
        "model_characters": len(newest.header["model"]),
        "arrays": {name: f"{a.dtype} {[*a.shape]}" for name, a in newest.arrays.items()},
    }
    print(json.dumps(about, indent=2))


@checkpoints.command("verify")
def checkpoint_verify(path: CheckpointArgument) -> None:
    """Read every byte of every checkpoint, and restore it; exit 74 if one is damaged.

    One that names a module of somebody's own is not restored.
    """
    from onlinesrl.library.restored import restore

    intact, damaged = 0, []
    for file, checkpoint in _loaded(path):
        try:
            if isinstance(checkpoint, StorageError):
                raise checkpoint
            restore(checkpoint)
            intact += 1
        except UsageError as error:
            intact += 1
            print(f"{file}: intact, and not restored: {error}")
        except OnlinesrlError as error:
            damaged.append(f"damaged: {error}")
    print(f"{intact} intact, {len(damaged)} damaged")
    if damaged:
        raise StorageError("\n".join(damaged))
