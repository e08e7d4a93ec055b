"""The checkpoints of a run: numbered files in a folder. A run resumes from the newest that is intact."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeAlias, TypedDict

import numpy as np
from msgspec import Meta

from onlinesrl.core.errors import StorageError
from onlinesrl.core.evaluation.drift import Window
from onlinesrl.core.example import Constant
from onlinesrl.core.io.atomic_write import check_folder, storage_errors
from onlinesrl.core.io.checkpoint_file import Checkpoint, DamagedCheckpoint, load, write
from onlinesrl.core.io.restoring import Natural, converted, restoring
from onlinesrl.core.timing import KEPT

__all__ = [
    "Checkpoint",
    "DamagedCheckpoint",
    "NeededParts",
    "checked",
    "latest",
    "load",
    "named",
    "numbered",
    "save",
    "write",
]

NAME = re.compile(r"checkpoint-(\d{12,})\.ckpt")
FOLDER = "checkpoints"
_Scalar: TypeAlias = str | int | float | bool | None
_Value: TypeAlias = _Scalar | list[_Scalar | list[_Scalar] | dict[str, _Scalar]]
_Seconds = Annotated[float, Meta(ge=0, le=1e12)]


class _Slow(TypedDict):
    id: Constant
    seconds: _Seconds
    atoms: Natural
    route: str


class _Metrics(TypedDict):
    examples: NotRequired[Natural]


class Header(TypedDict):
    """The header of every checkpoint. A part is checked by the code that restores it."""

    version: str
    fingerprint: dict[str, _Value]
    model: str
    learner: dict[str, Any]
    metrics: _Metrics
    library: NotRequired[dict[str, Any]]


class RunHeader(Header):
    """The header of a run's checkpoint."""

    lengths: dict[str, Natural]
    parts: NotRequired[dict[str, Natural]]
    settings: dict[str, Any]
    config: NotRequired[dict[str, Any]]
    position: dict[str, Any] | None
    seconds: _Seconds
    finished: bool
    shown: list[Any]
    slowest: Annotated[list[_Slow], Meta(max_length=KEPT)]
    groups: list[str | None]
    behind: NotRequired[dict[str, int]]
    sink: NotRequired[dict[str, Any]]
    labels: NotRequired[dict[str, Any]]
    drift: NotRequired[Window]


def named(path: Path) -> Checkpoint:
    """Read a file that the user names, which may be a link, and check its header. Raises StorageError."""
    return checked(load(Path(os.path.realpath(path)) if path.is_symlink() else path))


def checked(saved: Checkpoint, kind: Any = Header) -> Checkpoint:
    """Return a checkpoint whose header has this type. Raises DamagedCheckpoint."""
    with restoring(saved.path):
        converted(saved.header, kind)
    return saved


def save(
    folder: Path, number: int, header: dict[str, Any], arrays: Mapping[str, np.ndarray], keep: int
) -> Path:
    """Write checkpoint `number` durably, then remove all but the newest `keep` up to it.

    Checkpoints with a higher number are removed too: the run that saves `number` has skipped them as
    damaged. A crash or an error at any step leaves the earlier ones as they were. The header
    contains only JSON values (no NaN, no infinity), and the arrays contain numbers.
    Raises StorageError; ValueError or TypeError for a header or array that cannot be written.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    path = folder / f"checkpoint-{number:012d}.ckpt"
    write(path, number, header, arrays)
    with storage_errors(folder, "remove old checkpoints"):
        files = numbered(folder)
        newest = sorted(other for other in files if other <= number)[-keep:]
        for other in files.keys() - set(newest):
            files[other].unlink()
        for stale in folder.glob(".checkpoint-*.tmp"):
            stale.unlink()
    return path


def latest(
    folder: Path,
    warn: Callable[[str], None],
    accepts: Callable[[Checkpoint], bool] = lambda files: True,
) -> Checkpoint | None:
    """Return the newest intact checkpoint that is accepted, or None.

    Warns of each damaged one that is skipped. Raises StorageError when all are damaged, because
    starting empty would hide that, or when one cannot be opened.
    """
    files, refused = numbered(folder), False
    for number in sorted(files, reverse=True):
        try:
            intact = load(files[number])
        except DamagedCheckpoint as error:
            warn(f"damaged checkpoint skipped: {error}")
            continue
        except StorageError:
            if files[number].exists():
                raise
            return latest(folder, warn, accepts)  # a running run has removed it for a newer one
        if accepts(intact):
            return intact
        refused = True
    if files and not refused:
        raise StorageError(
            f"{folder}: none of the {len(files)} checkpoints is intact; restore one from a copy, "
            f"or start over with --fresh"
        )
    return None


def numbered(folder: Path) -> dict[int, Path]:
    """Return the checkpoint files of a folder by number; none if the folder does not exist."""
    with storage_errors(folder, "list"):
        if folder.name == FOLDER:
            check_folder(folder)
        paths = sorted(folder.iterdir()) if folder.exists() else []
    return {int(match[1]): path for path in paths if (match := NAME.fullmatch(path.name))}


class NeededParts:
    """Which parts of files the checkpoints of a folder need; see ``OutputFile``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: dict[int, tuple[int, ...]] = {}

    def note(self, number: int, *parts: int) -> None:
        """Note the part of each file at a checkpoint."""
        self._parts[number] = parts

    def oldest(self) -> tuple[int, ...]:
        """Return the oldest part of each file that is needed; nothing where a checkpoint is not known."""
        files = numbered(self._folder)
        self._parts = {number: parts for number, parts in self._parts.items() if number in files}
        if len(self._parts) < len(files):
            return ()
        return tuple(map(min, zip(*self._parts.values(), strict=True)))
