"""Sinks of somebody's own: they get the lines of predictions before each checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onlinesrl.stream.predictions import Result
from onlinesrl.stream.run_folder import OutputFile
from onlinesrl.stream.sink import Sink, SinkSection
from onlinesrl.stream.source import Sections

DUE = 10_000
"""So many lines are sent without waiting for a checkpoint's time."""


class LineSink(SinkSection, ABC):
    """Where predictions go: the base class of sinks of one's own."""

    @abstractmethod
    def send(self, lines: Sequence[bytes], state: Any) -> Any:
        """Write lines of ``predictions.jsonl`` durably; return the state after them, a value for JSON.

        ``state`` is None at first. After a crash, a run goes on from its last checkpoint: what followed it
        is sent again, with the state of that checkpoint. So either undo what is there after the state, or
        write each prediction under its id.
        """

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """See ``SinkSection.make``."""
        return OwnSink(self.send)


class OwnSink(Sink):
    """The lines of predictions since the last call of ``send``."""

    def __init__(self, send: Callable[[Sequence[bytes], Any], Any]) -> None:
        self.send = send
        self.lines: list[bytes] = []
        self.reached: Any = None

    @property
    def due(self) -> bool:
        """See ``Sink.due``."""
        return len(self.lines) >= DUE

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """See ``Sink.open``."""
        self.reached = None if state is None else state.get("reached")

    def write(self, result: Result) -> None:
        """See ``Sink.write``."""
        self.lines += (message.value for message in result.messages())

    def flush(self) -> None:
        """See ``Sink.flush``."""
        if self.lines:
            self.reached = self.send(self.lines, self.reached)
            self.lines = []

    def state(self) -> dict[str, Any]:
        """See ``Sink.state``."""
        return {} if self.reached is None else {"reached": self.reached}
