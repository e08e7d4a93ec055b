"""What source and sink share of Kafka: how clients are made, and what their errors mean to a person.

kafka-python is imported here and by those two alone, when a run needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import AuthorizationError, KafkaError, SaslAuthenticationFailedError

from onlinesrl.errors import UnavailableError

Client = TypeVar("Client")

ANSWER_MS = 10_000
"""How long the brokers may take to answer before they count as away."""

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the run speaks of outages itself


@dataclass(frozen=True)
class Broker:
    """Where the brokers are, and how to be let in: ``security`` has kafka-python's own keys."""

    bootstrap: str
    security: Mapping[str, Any] = field(default_factory=dict)

    def client(self, kind: Callable[..., Client], **settings: Any) -> Client:
        """Return a client. Raises UnavailableError where nobody answers or lets it in."""
        with self.explained():
            return kind(
                bootstrap_servers=self.bootstrap.split(","),
                client_id="onlinesrl",
                bootstrap_timeout_ms=ANSWER_MS,
                reconnect_backoff_max_ms=1000,
                request_timeout_ms=ANSWER_MS,
                **self.security,
                **settings,
            )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say in our own words what is wrong. Raises UnavailableError."""
        try:
            yield
        except (SaslAuthenticationFailedError, AuthorizationError) as error:
            raise UnavailableError(f"Kafka at {self.bootstrap} refuses: {error}") from error
        except (KafkaError, ValueError) as error:
            raise UnavailableError(
                f"Kafka at {self.bootstrap} cannot be reached: {error}"
            ) from error

    def topics(self, names: Sequence[str]) -> dict[str, tuple[str, list[int]]]:
        """Return the identity and the partitions of topics. Raises UnavailableError."""
        admin = self.client(KafkaAdminClient)
        try:
            with self.explained():
                found = admin.describe_topics(list(names))
        finally:
            admin.close()
        for topic in found:
            if not topic["partitions"]:
                raise UnavailableError(f"Kafka at {self.bootstrap} has no topic {topic['name']}")
        return {
            topic["name"]: (
                str(topic["topic_id"]),
                sorted(part["partition_index"] for part in topic["partitions"]),
            )
            for topic in found
        }


def name_of(place: TopicPartition) -> str:
    """Return what a partition is called in positions, dead letters and metrics."""
    return f"{place.topic}[{place.partition}]"


def place_of(name: str) -> TopicPartition:
    """Return the partition of a name."""
    topic, _, number = name.removesuffix("]").rpartition("[")
    return TopicPartition(topic, int(number))
