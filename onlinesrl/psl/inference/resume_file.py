"""A file from which inference resumes after its process was killed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onlinesrl.core.arrays import Floats
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.core.io.checkpoint_file import Checkpoint, DamagedCheckpoint, load, write
from onlinesrl.core.version import __version__
from onlinesrl.psl.lang.data import Database

SECONDS = 30.0
"""The least time between two writes."""


@dataclass
class ResumeFile:
    """The file; ``tell`` gets a message that says whether an existing file is used."""

    path: Path
    tell: Callable[[str], object]
    _key: str = ""
    _written: float = field(default_factory=time.monotonic)

    def open(self, key: str) -> Checkpoint | None:
        """Return what was saved for the problem that ``key`` names, None if nothing. Raises StorageError."""
        self._key, self._written = key, time.monotonic()
        if not self.path.exists():
            return None
        try:
            checkpoint = load(self.path)
        except DamagedCheckpoint as error:
            self.tell(f"{error}; beginning anew")
            return None
        if checkpoint.header.get("key") != key:
            self.tell(f"{self.path} is of another model, data or options; beginning anew")
            return None
        self.tell(f"going on after round {checkpoint.number}")
        return checkpoint

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() - self._written >= SECONDS

    def write(self, number: int, header: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """Replace the file durably and as a whole. Raises StorageError, and then the old file stays."""
        with storage_errors(self.path.parent, "create"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write(self.path, number, {**header, "key": self._key}, arrays)
        self._written = time.monotonic()


def digest(settings: object, weights: Floats, database: Database) -> str:
    """Return a digest of what an answer depends on."""
    digest_ = hashlib.sha256(repr((__version__, settings, database.constants)).encode())
    digest_.update(weights.tobytes())
    for name, relation in database.relations.items():
        for table in (relation.observed, relation.targets):
            digest_.update(repr((name, table.columns.shape)).encode())
            digest_.update(table.columns.tobytes() + table.values.tobytes())
    return digest_.hexdigest()
