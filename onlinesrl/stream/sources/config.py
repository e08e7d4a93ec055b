"""What sources of all kinds are told, and what those are told that know of Kafka."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import SecretStr, field_validator, model_validator

from onlinesrl.core.errors import UsageError
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count, Files, Groups, Name, duration
from onlinesrl.stream.source import Source, SourceContext

if TYPE_CHECKING:
    from onlinesrl.stream.source import Sections


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

    bootstrap: Name | None = None
    """host:port of a broker."""
    security: Security = Security()

    @property
    def brokers(self) -> Brokers:
        """Where Kafka is."""
        return self


class SourceSection(Section):
    """Where the examples come from."""

    replaceable: ClassVar[frozenset[str]] = frozenset(
        {"max_bytes", "patience", "bootstrap", "security"}
    )
    """Keys that say how to get at the data and not which they are: they may change from one start of
    a run to the next."""
    served: ClassVar[bool] = False
    """Whether a server may take the place of such a source."""

    kind: str
    """files and standard input, a topic of Kafka, or tables."""
    background: Files | None = None
    """databases (.db) of facts that every example has, as if it brought a copy of them."""
    only: Groups | None = None
    """the groups to read, all others are left out; null or []: all."""
    without: Groups | None = None
    """the groups to leave out; null or []: none."""
    max_bytes: Count = 8_000_000
    """the longest example, in bytes; a longer one is bad."""
    patience: str = "5m"
    """for how long brokers may be away."""

    @field_validator("patience")
    @classmethod
    def _time(cls, patience: str) -> str:
        if duration(patience) is None:
            raise ValueError("expected a time such as 30s or 5m")
        return patience

    @property
    def patience_seconds(self) -> float:
        """For how long brokers may be away."""
        return duration(self.patience) or 0.0

    @property
    def brokers(self) -> Brokers:
        """Where Kafka is, as far as the source knows."""
        return Brokers()

    def topics(self, bootstrap: str | None) -> Collection[str]:
        """Return the topics of these brokers that are read, the labels' not counted."""
        return ()

    def check(self, config: Sections) -> None:
        """Raise ValueError, with the key, where another section does not go with this source."""
        if config.labels is not None and config.labels.topic is not None:
            raise ValueError("labels.topic: labels of a topic belong to a source of kind kafka")

    def make(self, setting: SourceContext) -> Source:
        """Return the source."""
        raise NotImplementedError

    @property
    def uncut(self) -> str | None:
        """Why the source cannot be cut into shards; None where it can."""
        return "distribute: such a source cannot be cut into shards; or leave it out"

    def by_file(self) -> Sequence[SourceSection]:
        """Return a source for each file. Raises UsageError where it is not made of files."""
        raise UsageError(f"--distribute: a source of kind {self.kind} is not made of files")

    def cut(self, shards: int) -> Source:
        """Return the source cut into shards."""
        raise NotImplementedError

    def pieces(self, pieces: Sequence[Any]) -> Source:
        """Return the records of a shard's pieces, where they are learned from."""
        raise NotImplementedError
