"""The configuration of the sink that writes tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from onlinesrl.stream.sinks.config import SinkSection
from onlinesrl.stream.source import Sink

if TYPE_CHECKING:
    from onlinesrl.stream.source import Sections


class ParquetSinkSection(SinkSection):
    """Tables in Parquet files, in the folder ``predictions`` of the run folder."""

    kind: Literal["parquet"] = "parquet"

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the sink."""
        from onlinesrl.stream.sinks.parquet import TableSink

        return TableSink(config.argument_types())
