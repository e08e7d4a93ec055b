"""The configuration of a sink that is a topic of Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from onlinesrl.core.io.config_types import Count, Name
from onlinesrl.stream.sinks.config import SinkSection
from onlinesrl.stream.source import Sink
from onlinesrl.stream.sources.config import Security

if TYPE_CHECKING:
    from onlinesrl.stream.source import Sections


class KafkaSinkSection(SinkSection):
    """A topic of Kafka."""

    kind: Literal["kafka"] = "kafka"
    topic: Name
    """the topic that predictions go to."""
    bootstrap: Name | None = None
    """host:port of a broker; null: the source's."""
    security: Security | None = None
    """how to be let in; null: as for the source."""
    max_bytes: Count = 1_000_000
    """the longest prediction; a longer one, or one longer than the topic takes, is a dead letter."""

    def check(self, config: Sections) -> None:
        """Raise ValueError where predictions would be read as examples or labels."""
        read = config.source.topics(self.bootstrap)
        labels = {config.labels.topic} if read and config.labels is not None else set()
        if self.topic in {*read, *labels}:
            raise ValueError("sink.topic: predictions would be read again; expected another topic")

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the topic. Raises ConfigError where no broker is named."""
        brokers = config.source.brokers
        bootstrap = self.bootstrap or brokers.bootstrap
        if bootstrap is None:
            raise config.error("sink", "bootstrap: missing; expected host:port of Kafka")
        from onlinesrl.stream.kafka.client import Broker
        from onlinesrl.stream.kafka.sink import KafkaSink

        security, patience = self.security or brokers.security, config.source.patience_seconds
        broker = Broker(bootstrap, security.settings(), stopping, patience)
        return KafkaSink(broker, self.topic, patience, self.max_bytes, say)
