"""The configuration of a source of tables in Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from onlinesrl.core.io.config_types import Existing, Name
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.config import SourceSection

if TYPE_CHECKING:
    from onlinesrl.stream.source import Sections


class ParquetSection(SourceSection):
    """Tables, one per predicate, in Parquet files."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"path"}

    kind: Literal["parquet"] = "parquet"
    path: Existing
    """a folder with the folders evidence and truth, in which PREDICATE.parquet has a predicate's
    atoms."""
    by: Name = "id"
    """the column that says which example a row belongs to; examples come in ascending order of it."""

    def check(self, config: Sections) -> None:
        """Raise ValueError where labels come later: tables have them beside the evidence."""
        if config.labels is not None:
            raise ValueError(
                "labels: labels of tables are beside the evidence, in the folder truth"
            )

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        return None

    def cut(self, shards: int) -> Source:
        """Return the tables cut into shards."""
        from onlinesrl.stream.distributed.parquet_splits import TableShards

        return TableShards(self.path, self.by, self.max_bytes, shards)

    def pieces(self, pieces: Sequence[Any]) -> Source:
        """See ``SourceSection.pieces``."""
        from onlinesrl.stream.distributed.parquet_splits import TablePieces

        return TablePieces(self.path, self.by, pieces, self.max_bytes)

    def make(self, setting: SourceContext) -> Source:
        """Return the tables' examples. Raises UsageError for a run without an end."""
        from onlinesrl.core.errors import UsageError
        from onlinesrl.stream.sources.parquet import TableSource

        if setting.until == "forever":
            raise UsageError(f"{self.path}: tables have an end; leave out --until forever")
        return TableSource(self.path, self.by, self.max_bytes)
