"""The configuration of a source of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import field_validator

from onlinesrl.core.errors import UsageError
from onlinesrl.core.io.config_types import STDIN, Inputs
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.config import Brokers, SourceSection


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

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        stdin = STDIN in self.path
        return "distribute: standard input cannot be cut; leave it out" if stdin else None

    def by_file(self) -> Sequence[SourceSection]:
        """See ``SourceSection.by_file``."""
        from onlinesrl.stream.sources.files import expand

        files = [Path(file) for path in self.path for file in expand(path, empty=False)]
        if STDIN in files:
            raise UsageError("--distribute: standard input is no file of many; leave it out")
        return [self.model_copy(update={"path": (file,)}) for file in files]

    def cut(self, shards: int) -> Source:
        """Return the files cut into shards."""
        from onlinesrl.stream.distributed.file_splits import Shards

        return Shards(self.path, self.max_bytes, shards)

    def pieces(self, pieces: Sequence[Any]) -> Source:
        """See ``SourceSection.pieces``."""
        from onlinesrl.stream.distributed.file_splits import FilePieces

        return FilePieces(pieces, self.max_bytes)

    def make(self, setting: SourceContext) -> Source:
        """Return the files' records."""
        from onlinesrl.stream.sources.files import FileSource

        return FileSource(
            self.path,
            self.max_bytes,
            live=setting.until == "forever",
            ledger=setting.folder.files if setting.folder else None,
            say=setting.say,
        )
