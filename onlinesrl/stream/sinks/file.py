"""The sink that writes predictions to a file of the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinesrl.core.learner import Outcome
from onlinesrl.stream.predictions import answer
from onlinesrl.stream.run_folder import OutputFile
from onlinesrl.stream.source import Sink
from onlinesrl.stream.sources.files import Record


class FileSink(Sink):
    """Writes a line for each example, bad ones too; the loop truncates and flushes the file."""

    textual = True

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Use the file ``predictions``."""
        self.file = predictions

    def write(self, record: Record, item: Any, outcome: Outcome) -> None:
        """Write the answer to an example."""
        self.file.write(answer(record, item, outcome) + b"\n")
