"""What Kafka sources and sinks share: making clients, and turning their errors into messages.

Only the modules of this package import kafka-python, when a run needs it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedCodecError,
)

from onlinesrl.core.errors import UnavailableError
from onlinesrl.stream.daemon_calls import aside, attended
from onlinesrl.stream.kafka.login import refusal, tls
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import Stopped

Client = TypeVar("Client")
T = TypeVar("T")

ANSWER_MS = 10_000
"""How long brokers may take to answer before they count as unavailable."""
STOP_SECONDS = 3.0
"""How long to wait for each answer once the run was asked to stop."""
PAUSE_SECONDS = 0.5

CODECS = "pip install 'onlinesrl[kafka-codecs]' brings the packages for snappy, lz4 and zstd"
LOGIN_SECONDS = 1.0
"""After so long without a client it is asked whether the login is refused."""


class _Failures(logging.Handler):
    """Notes why connections fail, which kafka-python writes to its log alone; the run reports it itself."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        log = logging.getLogger("kafka")
        log.addHandler(self)
        log.propagate = False
        log.setLevel(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Note the error in a line of the log."""
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, Exception) and not isinstance(argument, KafkaTimeoutError):
                self.last = f" ({argument})"


@cache
def failures() -> _Failures:
    """Return the handler of kafka-python's log, which is installed for the first client."""
    return _Failures()


@dataclass(frozen=True)
class ConsumerOptions:
    """What to read and how.

    ``topics`` are all read alike. ``from_end``: a new run starts at the ends of the partitions;
    ``to_end``: the run stops where the partitions ended when it started. ``skip_gaps`` skips records
    that were deleted before they were read. Brokers may be unavailable for ``patience`` seconds.
    ``in_turn``: partitions are paused now and then, so all that was fetched is polled at once; of a paused
    partition kafka-python 3.0 may keep the rest of it back.
    """

    topics: Sequence[str]
    group: str | None = None
    from_end: bool = False
    to_end: bool = False
    skip_gaps: bool = False
    patience: float = 300.0
    max_bytes: int = 8_000_000
    in_turn: bool = False


class AwayError(UnavailableError):
    """The brokers do not answer now; they may later."""


def bounds(
    ask: Callable[..., dict[TopicPartition, int]],
    places: Sequence[TopicPartition],
    timeout_ms: int = ANSWER_MS,
) -> dict[TopicPartition, int]:
    """Return the offsets where partitions begin or end; ``ask`` is the consumer's method for either.

    kafka-python raises KeyError if one of several partitions has no leader yet; for a single
    partition it waits.
    """
    try:
        return ask(places, timeout_ms=timeout_ms)
    except KeyError:
        return {place: ask([place], timeout_ms=timeout_ms)[place] for place in places}


@dataclass(frozen=True)
class Broker:
    """The addresses of the brokers, and how to log in: ``security`` has kafka-python's own keys.

    ``stopping`` tells whether the run was asked to stop; ``patience`` is for how many seconds a broker may
    not answer.
    """

    bootstrap: str
    security: Mapping[str, Any] = field(default_factory=dict)
    stopping: Callable[[], bool] = lambda: False
    patience: float = 300.0

    def client(self, kind: Callable[..., Client], **settings: Any) -> Client:
        """Return a client.

        Raises UnavailableError if no broker answers, the login is refused, or a certificate cannot be read.
        """
        failures().last = ""
        try:
            tls(self.security)
        except OSError as error:  # a client would take it for an outage
            keys = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
            files = ", ".join(
                f"{key} {self.security[key]}" for key in keys if self.security.get(key)
            )
            raise UnavailableError(
                f"Kafka at {self.bootstrap}: certificates cannot be read ({files}): {error}; "
                "see source.security"
            ) from error
        with self.explained():
            future = aside(
                lambda: kind(
                    bootstrap_servers=self.bootstrap.split(","),
                    client_id="onlinesrl",
                    bootstrap_timeout_ms=min(ANSWER_MS, max(1000, int(self.patience * 1000))),
                    reconnect_backoff_max_ms=1000,
                    request_timeout_ms=ANSWER_MS,
                    **self.security,
                    **settings,
                )
            )
            if (
                not wait([future], LOGIN_SECONDS).done
                and self.security.get("sasl_mechanism")
                and (reason := refusal(self.bootstrap, self.security))
            ):  # a client would take it for an outage
                raise UnavailableError(
                    f"Kafka at {self.bootstrap} refuses the login: {reason}; see source.security"
                )
            return future.result()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate Kafka's errors to UnavailableError; AwayError if they may be temporary."""
        try:
            yield
        except (SaslAuthenticationFailedError, AuthorizationError) as error:
            raise UnavailableError(f"Kafka at {self.bootstrap} refuses: {error}") from error
        except UnsupportedCodecError as error:
            raise UnavailableError(f"Kafka at {self.bootstrap}: {error}; {CODECS}") from error
        except (KafkaError, ValueError) as error:
            kind = AwayError if isinstance(error, KafkaError) else UnavailableError
            reason = f"{error}{failures().last}"
            raise kind(f"Kafka at {self.bootstrap} cannot be reached: {reason}") from error

    def largest(self, topic: str) -> int | None:
        """Return the largest size of a record of a topic, in bytes; None if brokers do not tell."""
        admin = self.client(KafkaAdminClient)
        try:
            configs = admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
            )
            return int(configs["topic"][topic]["max.message.bytes"]["value"])
        except (KafkaError, KeyError, TypeError, ValueError):
            return None
        finally:
            admin.close()

    def attended(self, work: Callable[[], T]) -> T:
        """Call ``work``, which waits for brokers. Raises Stopped if it takes long after a request to stop."""
        try:
            return attended(work, self.stopping, STOP_SECONDS)
        except Stopped:
            raise self.stopped() from None

    def stopped(self) -> Stopped:
        """Return the exception for a run that was asked to stop while brokers are unavailable."""
        return Stopped(
            f"stopped; Kafka at {self.bootstrap} does not answer, so the next start repeats what "
            "came after the last checkpoint"
        )

    def outlast(self, work: Callable[[], T], patience: float, say: Callable[[str], None]) -> T:
        """Repeat ``work`` until brokers answer, for at most ``patience`` seconds.

        Raises UnavailableError after that, or at once if repeating is useless; Stopped.
        """
        started, announced = time.monotonic(), False
        while True:
            try:
                return self.attended(work)
            except AwayError as error:
                if self.stopping():
                    raise self.stopped() from error
                seconds_left = patience - (time.monotonic() - started)
                if seconds_left <= 0:
                    raise
                if not announced:
                    say(f"{error}; waiting for it, {seconds_left:.0f} s at most")
                announced = True
            time.sleep(PAUSE_SECONDS)

    def topics(self, names: Sequence[str]) -> dict[str, tuple[str, list[int]]]:
        """Return the identity and the partitions of topics. Raises UnavailableError."""
        admin = self.client(KafkaAdminClient)
        try:
            with self.explained():
                descriptions = admin.describe_topics(list(names))
        finally:
            admin.close()
        for topic in descriptions:
            if not topic["partitions"]:
                raise UnavailableError(f"Kafka at {self.bootstrap} has no topic {topic['name']}")
        return {
            topic["name"]: (
                str(topic["topic_id"]),
                sorted(part["partition_index"] for part in topic["partitions"]),
            )
            for topic in descriptions
        }


def name_of(place: TopicPartition) -> str:
    """Return the name of a partition in positions, dead letters and metrics."""
    return f"{place.topic}[{place.partition}]"


def place_of(name: str) -> TopicPartition:
    """Return the partition of a name."""
    topic, _, number = name.removesuffix("]").rpartition("[")
    return TopicPartition(topic, int(number))


def record_of(name: str, record: ConsumerRecord, max_bytes: int) -> Record:
    """Return a record of a partition of that name, cut to so many bytes."""
    value = b"" if record.value is None else record.value
    return Record(
        value[:max_bytes],
        name,
        record.offset,
        record.partition,
        record.offset + 1,
        "tombstone" if record.value is None else "json",
        len(value) > max_bytes,
        key=record.key,
    )


def places_of(topics: Mapping[str, tuple[str, list[int]]]) -> list[TopicPartition]:
    """Return all partitions of topics, as ``Broker.topics`` found them."""
    return [TopicPartition(topic, n) for topic, (_, numbers) in topics.items() for n in numbers]
