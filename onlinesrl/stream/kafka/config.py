"""The configuration of a source that is a topic of Kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic import model_validator

from onlinesrl.core.io.config_types import Name
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.config import Brokers, SourceSection

if TYPE_CHECKING:
    from onlinesrl.stream.kafka.source import KafkaSource
    from onlinesrl.stream.source import Sections


class KafkaSection(Brokers, SourceSection):
    """A topic of Kafka."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"gaps"}
    gone: ClassVar[Mapping[str, str]] = {
        "shared": "runs no longer share a topic; leave it out, and let one run learn it in rounds of shards "
        "(section distribute; see onlinesrl guide cluster)"
    }

    kind: Literal["kafka"] = "kafka"
    topic: Name
    """the topic; the value of each record is an example, tombstones are passed over."""
    group: Name | None = None
    """the consumer group that is told how far the checkpoints are."""
    order: Literal["journal", "arrival"] = "journal"
    """note the order in which several partitions were read in order.jsonl, so that a run can be
    repeated; or do not."""
    start: Literal["beginning", "end"] = "beginning"
    """where a new run begins."""
    gaps: Literal["stop", "skip"] = "stop"
    """what to do where records were deleted before they were read."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.bootstrap is None:
            raise ValueError("bootstrap: missing; expected host:port of a broker")
        return self

    def topics(self, bootstrap: str | None) -> Collection[str]:
        """Return the topic, where it is of these brokers."""
        return {self.topic} if bootstrap in (None, self.bootstrap) else ()

    def check(self, config: Sections) -> None:
        """Raise ValueError where labels do not go with the topic."""
        if config.labels is not None and config.labels.topic == self.topic:
            raise ValueError("labels.topic: leave it out where labels are on the source's topic")

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        if self.start == "end":
            return "source.start: shards are cut from what is there; expected beginning"
        return None

    def cut(self, shards: int) -> Source:
        """Return what is in the topic now, cut into shards."""
        from onlinesrl.stream.distributed.kafka_splits import History

        return History(self._source, self.topic, shards)

    def pieces(self, pieces: Sequence[Any]) -> Source:
        """See ``SourceSection.pieces``."""
        from onlinesrl.stream.distributed.kafka_splits import Spans

        return Spans(self._source, pieces, self.max_bytes)

    def _source(self) -> KafkaSource:
        """Return the topic as a source that ends."""
        setting = SourceContext(None, "end", lambda: False, lambda _: None, [], self.max_bytes, 1)
        return cast("KafkaSource", self.make(setting))

    def make(self, setting: SourceContext) -> Source:
        """Return the topic's records."""
        from onlinesrl.stream.kafka.client import Broker, ConsumerOptions
        from onlinesrl.stream.kafka.source import KafkaSource

        options = ConsumerOptions(
            [self.topic, *setting.labels],
            self.group,
            self.start == "end",
            setting.until == "end",
            self.gaps == "skip",
            self.patience_seconds,
            self.max_bytes,
        )
        broker = Broker(
            self.bootstrap or "", self.security.settings(), setting.stopping, options.patience
        )
        folder = setting.folder
        noted = folder is not None and self.order == "journal"
        return KafkaSource(broker, options, folder.order if noted and folder else None, setting.say)
