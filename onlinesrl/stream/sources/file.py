"""The configuration of a source of files."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import field_validator

from onlinesrl.core.values import STDIN, Inputs
from onlinesrl.stream.protocols import Setting, Source
from onlinesrl.stream.sources.common import Brokers, SourceSection


class FileSection(Brokers, SourceSection):
    """Files and standard input."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"path"}
    served: ClassVar[bool] = True

    kind: Literal["file"] = "file"
    path: Inputs
    """a file of examples, a folder, a pattern such as "day*.jsonl" or a list of them, read in this
    order; "-" (quoted): standard input."""

    @field_validator("path")
    @classmethod
    def _alone(cls, path: tuple[Path, ...]) -> tuple[Path, ...]:
        if STDIN in path and len(path) > 1:
            raise ValueError("- (standard input) cannot be one of several")
        return path

    def cut(self, shards: int) -> Source:
        """Return the files cut into shards."""
        from onlinesrl.stream.shards import Shards

        return Shards(self.path, self.max_bytes, shards)

    def make(self, setting: Setting) -> Source:
        """Return the files' records."""
        from onlinesrl.stream.files import FileSource

        return FileSource(
            self.path,
            self.max_bytes,
            live=setting.until == "forever",
            ledger=setting.folder.files if setting.folder else None,
            say=setting.say,
        )
