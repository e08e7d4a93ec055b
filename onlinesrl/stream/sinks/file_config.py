"""The configuration of the sink that is a file of the run folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from onlinesrl.stream.sinks.config import SinkSection
from onlinesrl.stream.source import Sink

if TYPE_CHECKING:
    from onlinesrl.stream.source import Sections


class FileSinkSection(SinkSection):
    """``predictions.jsonl`` in the run folder."""

    kind: Literal["file"] = "file"

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the sink."""
        from onlinesrl.stream.sinks.file import FileSink

        return FileSink()
