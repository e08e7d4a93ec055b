"""What source and sink share of Kafka: how clients are made, and what their errors mean to a person.

kafka-python is imported here and by those two alone, when a run needs it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import AuthorizationError, KafkaError, SaslAuthenticationFailedError

from onlinesrl.core.errors import UnavailableError
from onlinesrl.stream.aside import aside
from onlinesrl.stream.stopper import Stopped

Client = TypeVar("Client")
T = TypeVar("T")

ANSWER_MS = 10_000
"""How long the brokers may take to answer before they count as away."""
STOP_SECONDS = 3.0
"""How long each of their answers is waited for once the run was asked to stop."""
PAUSE_SECONDS = 0.5

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the run speaks of outages itself


class AwayError(UnavailableError):
    """Nobody answers now; somebody may later."""


def bounds(
    ask: Callable[..., dict[TopicPartition, int]],
    places: Sequence[TopicPartition],
    timeout_ms: int = ANSWER_MS,
) -> dict[TopicPartition, int]:
    """Return where partitions begin or end; ``ask`` is a consumer's method for one of the two.

    A partition that has no leader yet is missing in kafka-python's answer about many, a KeyError
    there; asked about alone, it is waited for.
    """
    try:
        return ask(places, timeout_ms=timeout_ms)
    except KeyError:
        return {place: ask([place], timeout_ms=timeout_ms)[place] for place in places}


def never() -> bool:
    """Tell that nobody asks to stop."""
    return False


@dataclass(frozen=True)
class Broker:
    """Where the brokers are, and how to be let in: ``security`` has kafka-python's own keys.

    ``stopping`` tells whether the run was asked to stop.
    """

    bootstrap: str
    security: Mapping[str, Any] = field(default_factory=dict)
    stopping: Callable[[], bool] = never

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
        """Say in our own words what is wrong. Raises UnavailableError; AwayError where it may pass."""
        try:
            yield
        except (SaslAuthenticationFailedError, AuthorizationError) as error:
            raise UnavailableError(f"Kafka at {self.bootstrap} refuses: {error}") from error
        except (KafkaError, ValueError) as error:
            kind = AwayError if isinstance(error, KafkaError) else UnavailableError
            raise kind(f"Kafka at {self.bootstrap} cannot be reached: {error}") from error

    def largest(self, topic: str) -> int | None:
        """Return how many bytes a record of a topic may have; None where brokers do not tell."""
        admin = self.client(KafkaAdminClient)
        try:
            found = admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
            )
            return int(found["topic"][topic]["max.message.bytes"]["value"])
        except (KafkaError, KeyError, TypeError, ValueError):
            return None
        finally:
            admin.close()

    def attended(self, work: Callable[[], T]) -> T:
        """Do work that waits for brokers. Raises Stopped when the run is asked to stop and they stay away."""
        future, asked = aside(work), 0.0
        while not wait([future], 0.1).done:
            now = time.monotonic()
            asked = (asked or now) if self.stopping() else 0.0
            if asked and now - asked >= STOP_SECONDS:
                raise self.stopped()
        return future.result()

    def stopped(self) -> Stopped:
        """Return what ends a run that was asked to stop while brokers are away."""
        return Stopped(
            f"stopped; Kafka at {self.bootstrap} does not answer, so what came after the last "
            "checkpoint is for the next start"
        )

    def outlast(self, work: Callable[[], T], patience: float, say: Callable[[str], None]) -> T:
        """Do work as often as it takes until brokers answer, for as long as they may be away.

        Raises UnavailableError after ``patience`` seconds, and at once where it is of no use; Stopped.
        """
        started, said = time.monotonic(), False
        while True:
            try:
                return self.attended(work)
            except AwayError as error:
                if self.stopping():
                    raise self.stopped() from error
                left = patience - (time.monotonic() - started)
                if left <= 0:
                    raise
                if not said:
                    say(f"{error}; waiting for it, {left:.0f} s at most")
                said = True
            time.sleep(PAUSE_SECONDS)

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


def places_of(topics: Mapping[str, tuple[str, list[int]]]) -> list[TopicPartition]:
    """Return all partitions of topics, as ``Broker.topics`` found them."""
    return [TopicPartition(topic, n) for topic, (_, numbers) in topics.items() for n in numbers]
