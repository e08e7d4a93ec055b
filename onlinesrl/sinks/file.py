"""The configuration of the sink that is a file of the run folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from onlinesrl.sinks.common import SinkSection
from onlinesrl.stream.protocols import Sink

if TYPE_CHECKING:
    from onlinesrl.schema import Config


class FileSinkSection(SinkSection):
    """``predictions.jsonl`` in the run folder."""

    kind: Literal["file"] = "file"

    def make(
        self, config: Config, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the sink."""
        from onlinesrl.stream.file_sink import FileSink

        return FileSink()
