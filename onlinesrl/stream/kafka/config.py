"""The sections of a configuration that know of Kafka: brokers, a topic of examples, one of predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr, field_validator, model_validator

from onlinesrl.core.io.config_section import Section, require
from onlinesrl.core.io.config_types import Count, Name, Names
from onlinesrl.core.io.remote import has_login
from onlinesrl.stream.record_form import Values
from onlinesrl.stream.sink import Sink, SinkSection
from onlinesrl.stream.source import Sections, Source, SourceContext, SourceSection

if TYPE_CHECKING:
    from onlinesrl.stream.kafka.registry import SchemaRegistry
    from onlinesrl.stream.kafka.source import KafkaSource


def _bootstrap(text: str) -> str:
    if "@" in text:
        raise ValueError("expected host:port, without a login, which `security` has")
    return text


Bootstrap = Annotated[Name, AfterValidator(_bootstrap)]


class Security(Section):
    """How to be let in by Kafka: kafka-python's own keys, passed on as they are."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """how the connection is made safe."""
    ssl_cafile: Name | None = None
    """certificates of the authorities to trust; null: the system's."""
    ssl_certfile: Name | None = None
    """the client's own certificate."""
    ssl_keyfile: Name | None = None
    """the private key of ssl_certfile."""
    ssl_password: SecretStr | None = None
    """the password of ssl_keyfile."""
    ssl_check_hostname: bool = True
    """whether the certificate must be that of the host."""
    sasl_mechanism: Name | None = None
    """how the client says who it is, such as SCRAM-SHA-512 or PLAIN."""
    sasl_plain_username: Name | None = None
    """the name to log in with."""
    sasl_plain_password: SecretStr | None = None
    """the password to log in with."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.security_protocol.startswith("SASL"):
            return self
        if self.sasl_mechanism is None:
            raise ValueError(
                "sasl_mechanism: missing; expected a name such as SCRAM-SHA-512 or PLAIN"
            )
        if self.sasl_mechanism == "PLAIN" or self.sasl_mechanism.startswith("SCRAM-"):
            for key in "sasl_plain_username", "sasl_plain_password":
                if getattr(self, key) is None:
                    raise ValueError(
                        f"{key}: missing; expected what {self.sasl_mechanism} logs in with"
                    )
        return self

    def settings(self) -> dict[str, Any]:
        """Return what a client is given."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in values.items()
            if value is not None
        }


class Brokers(Section):
    """Where Kafka is, for the source and for a sink that does not say."""

    bootstrap: Bootstrap | None = None
    """host:port of a broker."""
    security: Security = Security()


class RegistrySection(Section):
    """The schema registry in whose framing the values of a topic are."""

    url: Name
    """http://host:port of the registry."""
    username: Name | None = None
    """the name to log in with; null: no login."""
    password: SecretStr | None = None
    """the password to log in with."""
    ssl_cafile: Name | None = None
    """certificates of the authorities to trust; null: the system's."""

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or has_login(url):
            raise ValueError("expected http://host:port or https://host:port, without a login")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.username is None) is not (self.password is None):
            raise ValueError("username: expected with password, and not alone")
        return self

    def client(self, patience: float, setting: SourceContext | None) -> SchemaRegistry:
        """Return a client. Raises UsageError if a package that reads values is missing."""
        from onlinesrl.stream.kafka.registry import SchemaRegistry

        for module in ("fastavro", "google.protobuf", "grpc_tools"):
            require(module, "source.registry")
        login = None
        if self.username is not None and self.password is not None:
            login = self.username, self.password.get_secret_value()
        stopping, say = (_never, _ignored) if setting is None else (setting.stopping, setting.say)
        return SchemaRegistry(self.url, login, self.ssl_cafile, patience, stopping, say)


def _never() -> bool:
    return False


def _ignored(message: str) -> None:
    pass


class KafkaSection(Brokers, SourceSection):
    """A topic of Kafka."""

    replaceable: ClassVar[frozenset[str]] = SourceSection.replaceable | {"gaps", "registry"}
    gone: ClassVar[Mapping[str, str]] = {
        "shared": "runs no longer share a topic; leave it out, and let one run learn it in rounds of shards "
        "(section distribute; see onlinesrl guide cluster)"
    }

    links: ClassVar[bool] = True

    name = "kafka"
    topic: Names
    """the topic; the value of each record is an example, tombstones are passed over. Rows that are linked,
    and the changes of a world, may be in several."""
    group: Name | None = None
    """the consumer group that is told how far the checkpoints are."""
    order: Literal["journal", "arrival"] = "journal"
    """note the order in which several partitions were read in order.jsonl, so that a run can be
    repeated; or do not. Of linked rows, which partitions were idle."""
    start: Literal["beginning", "end"] = "beginning"
    """where a new run begins."""
    gaps: Literal["stop", "skip"] = "stop"
    """what to do where records were deleted before they were read."""
    registry: RegistrySection | None = None
    """of values in Avro, Protobuf or JSON Schema; null: values are JSON."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.bootstrap is None:
            raise ValueError("bootstrap: missing; expected host:port of a broker")
        return self

    def check(self, config: Sections) -> None:
        """Raise ValueError, with the key, where labels or rows do not go with the topics."""
        labels = None if config.labels is None else config.labels.topic
        if labels in self.topic:
            raise ValueError("labels.topic: leave it out where labels are on the source's topic")
        if self.linked is None and len(self.topic) > 1 and not config.world:
            raise ValueError(
                "source.topic: several are read by source.linked and by a world (world: true); expected one"
            )
        if self.linked is not None and labels is not None:
            raise ValueError(f"labels.topic: rows are linked; list {labels} in source.topic")
        if self.linked is not None and self.registry is not None:
            raise ValueError("source.registry: rows that are linked are JSON; leave it out")
        self.check_linked(config)

    @property
    def uncut(self) -> str | None:
        """See ``SourceSection.uncut``."""
        if self.linked is not None:
            return "distribute: rows are linked across shards; leave it out"
        if self.start == "end":
            return "source.start: shards are cut from what is there; expected beginning"
        return None

    def ending(self) -> KafkaSource:
        """Return the topic as a source that ends."""
        setting = SourceContext(None, "end", lambda: False, lambda _: None, [], self.max_bytes, 1)
        return cast("KafkaSource", self.make(setting))

    def values(self, setting: SourceContext | None) -> Values | None:
        """See ``SourceSection.values``. Raises UsageError if a package is missing."""
        if self.registry is None:
            return None
        from onlinesrl.stream.kafka.framed_values import FramedValues

        names = set[str]() if self.mapping is None else self.mapping.names
        return FramedValues(self.registry.client(self.patience_seconds, setting), names)

    def make(self, setting: SourceContext) -> Source:
        """Return the topic's records."""
        from onlinesrl.stream.kafka.client import Broker, ConsumerOptions
        from onlinesrl.stream.kafka.source import KafkaSource

        options = ConsumerOptions(
            [*self.topic, *setting.labels],
            self.group,
            self.start == "end",
            setting.until == "end",
            self.gaps == "skip",
            self.patience_seconds,
            self.max_bytes,
            self.linked is not None,
        )
        broker = Broker(
            self.bootstrap or "", self.security.settings(), setting.stopping, options.patience
        )
        folder = setting.folder
        journal = folder.order if folder is not None and self.order == "journal" else None
        if self.linked is None:
            return KafkaSource(broker, options, journal, setting.say)
        from onlinesrl.stream.kafka.linked_topics import LinkedTopics

        reader = KafkaSource(broker, options, None, setting.say)
        return LinkedTopics(self.linked, reader, journal, folder)


class KafkaSinkSection(SinkSection):
    """A topic of Kafka."""

    name = "kafka"
    topic: Name
    """the topic that predictions go to."""
    bootstrap: Bootstrap | None = None
    """host:port of a broker; null: the source's."""
    security: Security | None = None
    """how to be let in; null: as for the source."""
    max_bytes: Count = 1_000_000
    """the longest prediction; a longer one, or one longer than the topic takes, is a dead letter."""

    def check(self, config: Sections) -> None:
        """Raise ValueError where predictions would be read as examples or labels."""
        source, labels = config.source, config.labels
        if not isinstance(source, KafkaSection) or self.bootstrap not in (None, source.bootstrap):
            return
        if self.topic in (*source.topic, labels.topic if labels is not None else None):
            raise ValueError("sink.topic: predictions would be read again; expected another topic")

    def make(
        self, config: Sections, stopping: Callable[[], bool], say: Callable[[str], None]
    ) -> Sink:
        """Return the topic. Raises ConfigError where no broker is named."""
        source = config.source
        brokers = source if isinstance(source, Brokers) else Brokers()
        bootstrap = self.bootstrap or brokers.bootstrap
        if bootstrap is None:
            raise config.error("sink", "bootstrap: missing; expected host:port of Kafka")
        from onlinesrl.stream.kafka.client import Broker
        from onlinesrl.stream.kafka.sink import KafkaSink

        security, patience = self.security or brokers.security, config.source.patience_seconds
        broker = Broker(bootstrap, security.settings(), stopping, patience)
        return KafkaSink(broker, self.topic, patience, self.max_bytes, say)
