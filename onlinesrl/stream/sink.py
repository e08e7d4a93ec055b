"""What a sink of predictions is: its interface, and the section of a configuration that makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from onlinesrl.core.io.config_section import Section
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import OutputFile
from onlinesrl.stream.source import Sections


class Sink(Protocol):
    """Where predictions go, with default implementations."""

    State: ClassVar[Any] = dict[str, Any]
    """The type of its state, for msgspec, which checks the states of checkpoints."""

    @property
    def due(self) -> bool:
        """Whether it is time to flush."""
        return False

    def open(self, state: Mapping[str, Any] | None, predictions: OutputFile) -> None:
        """Connect, and resume from a state; ``predictions`` is the run folder's file for what is written."""
        ...

    def fits(self, name: str, record: Record) -> None:
        """Raise ExampleError if the id of an example is too long for a prediction."""
        return

    def write(self, result: Result) -> None:
        """Add the answer to an example. Raises ExampleError if it is too long."""
        ...

    def flush(self) -> None:
        """Write out what was added; files are flushed by the checkpoint."""
        return

    def state(self) -> dict[str, Any]:
        """Return the state for the checkpoint; may be empty."""
        return {}

    def close(self) -> None:
        """Disconnect, without flushing. Closing twice is allowed."""
        return


class SinkSection(Section):
    """Where predictions go: ``predictions.jsonl`` in the run folder, tables in it, or a topic."""

    replaceable: ClassVar[frozenset[str]] = frozenset({"max_bytes", "bootstrap", "security"})
    """Keys that say how to get there, and may change from one start of a run to the next."""

    kind: str = ""
    """where predictions go."""

    def check(self, config: Sections) -> None:
        """Raise ValueError, with the key, where another section does not go with this sink."""

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the sink. Raises ConfigError."""
        raise NotImplementedError
