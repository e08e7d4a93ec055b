"""The configuration of a source that is a topic of Kafka, which a group may share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic import model_validator

from onlinesrl.core.values import Name
from onlinesrl.stream.protocols import Setting, Source
from onlinesrl.stream.sources.common import Brokers, SourceSection

if TYPE_CHECKING:
    from onlinesrl.stream.kafka.source import KafkaSource
    from onlinesrl.stream.protocols import Sections


class KafkaSection(Brokers, SourceSection):
    """A topic of Kafka."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"gaps"}

    kind: Literal["kafka"] = "kafka"
    topic: Name
    """the topic; the value of each record is an example, tombstones are passed over."""
    group: Name | None = None
    """the consumer group that is told how far the checkpoints are."""
    shared: bool = False
    """runs of this group divide the partitions, and each record is learned by one of them."""
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
        if self.shared and self.group is None:
            raise ValueError("group: missing; a shared source is shared with the group's members")
        return self

    def topics(self, bootstrap: str | None) -> Collection[str]:
        """Return the topic, where it is of these brokers."""
        return {self.topic} if bootstrap in (None, self.bootstrap) else ()

    def check(self, config: Sections) -> None:
        """Raise ValueError where labels or checkpoints do not go with the topic."""
        if config.labels is not None and config.labels.topic == self.topic:
            raise ValueError("labels.topic: leave it out where labels are on the source's topic")
        if self.shared and config.labels is not None:
            raise ValueError("labels: a shared source has none: they may go to another run")
        if self.shared and config.checkpoint.keep < 2:
            raise ValueError(
                "checkpoint.keep: expected at least 2: a shared run may have to go back"
            )

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        if self.shared:
            return "source.shared: a group divides partitions itself; leave it or distribute out"
        if self.start == "end":
            return "source.start: shards are cut from what is there; expected beginning"
        return None

    def cut(self, shards: int) -> Source:
        """Return what is in the topic now, cut into shards."""
        from onlinesrl.stream.kafka.history import History

        return History(self._source, self.topic, shards)

    def pieces(self, pieces: Sequence[Any]) -> Source:
        """See ``SourceSection.pieces``."""
        from onlinesrl.stream.kafka.history import Spans

        return Spans(self._source, pieces, self.max_bytes)

    def _source(self) -> KafkaSource:
        """Return the topic as a source that ends."""
        setting = Setting(None, "end", lambda: False, lambda _: None, [], self.max_bytes, 1)
        return cast("KafkaSource", self.make(setting))

    def make(self, setting: Setting) -> Source:
        """Return the topic's records; for a run of a group that shares them, its part."""
        from onlinesrl.stream.kafka.broker import Broker, ConsumerOptions
        from onlinesrl.stream.kafka.shared import SharedSource
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
        broker = Broker(self.bootstrap or "", self.security.settings(), setting.stopping)
        folder = setting.folder
        if self.shared and folder is not None:
            return SharedSource(broker, options, setting.say)
        noted = folder is not None and self.order == "journal"
        return KafkaSource(broker, options, folder.order if noted and folder else None, setting.say)
