"""What sinks of all kinds have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from onlinesrl.core.io.config_section import Section
from onlinesrl.stream.source import Sink

if TYPE_CHECKING:
    from onlinesrl.stream.source import Sections


class SinkSection(Section):
    """Where predictions go: ``predictions.jsonl`` in the run folder, tables in it, or a topic."""

    replaceable: ClassVar[frozenset[str]] = frozenset({"max_bytes", "bootstrap", "security"})
    """Keys that say how to get there, and may change from one start of a run to the next."""

    kind: str
    """predictions.jsonl in the run folder, tables in Parquet files in it, or a topic of Kafka."""

    def check(self, config: Sections) -> None:
        """Raise ValueError, with the key, where another section does not go with this sink."""

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the sink. Raises ConfigError."""
        raise NotImplementedError
