"""The sink that writes predictions to a file of the run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onlinesrl.stream.predictions import Result
from onlinesrl.stream.run_folder import OutputFile
from onlinesrl.stream.sink import Sink, SinkSection
from onlinesrl.stream.source import Sections


class FileSink(Sink):
    """Writes a line for each example, bad ones too; the trainer truncates and flushes the file."""

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Use the file ``predictions``."""
        self.file = predictions

    def write(self, result: Result) -> None:
        """Write the answer to an example."""
        for message in result.messages():
            self.file.write(message.value + b"\n")


class FileSinkSection(SinkSection):
    """``predictions.jsonl`` in the run folder."""

    name = "file"

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the sink."""
        return FileSink()
