"""Several runs that share the partitions of a topic, each record learned from by one of them.

The consumer group decides where each run resumes: every committed offset carries, as metadata, the
number of the last checkpoint of each run that contributed to it. A run commits after it has written a
checkpoint, and only checkpoints that the group has accepted count; after each rebalance the run goes
back to the last of them. What it had learned beyond is discarded, and learned by the next owner of the
partition.

Two things make this sound. A commit names the generation of the group in which the run was assigned
its partitions, and brokers reject it in any later generation. And a run asks which checkpoint was
accepted only as a member of a later generation than any that it has committed in, so that no commit
can arrive after the answer.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from onlinesrl.core.errors import DataError, UnavailableError
from onlinesrl.core.restoring import Natural
from onlinesrl.stream.aside import aside
from onlinesrl.stream.files import Record
from onlinesrl.stream.kafka.broker import (
    ANSWER_MS,
    Broker,
    ConsumerOptions,
    bounds,
    name_of,
    place_of,
    places_of,
)
from onlinesrl.stream.kafka.source import LOOK_SECONDS, POLL_MS, KafkaPosition, KafkaSource
from onlinesrl.stream.protocols import Rebalanced, Sink

BREATH_SECONDS = 1.0
"""How long the run may work before it polls again, to stay in the group."""
SESSION_MS = 45_000
HEARTBEAT_MS = 3_000
MOST_POLL_MS = 300_000
JOIN_SECONDS = 10.0
REMEMBERED = 30
"""How many other runs the metadata of an offset lists: brokers limit it to 4096 bytes."""
BORN = "partitions"
"""The metadata key for the number of partitions when the group started."""

_FOUND_AGAIN = (NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError)
"""Errors of a partition that will be raised again when it is read."""

Runs = dict[str, int]
"""The number of the last checkpoint that the group has accepted, by run."""


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes rebalances; called on a thread of the client, while it polls or closes."""

    def __init__(self) -> None:
        self.changed, self.assigned = True, False

    def on_partitions_revoked(self, revoked: object) -> None:
        self.changed, self.assigned = True, False

    def on_partitions_assigned(self, assigned: object) -> None:
        self.changed = self.assigned = True


class SharedPosition(KafkaPosition):
    """Also the name of the run in the group, and the number of the last checkpoint it has accepted."""

    run: str
    taken: Natural


class SharedSource(KafkaSource):
    """The records of the partitions that the group assigns to this run.

    A position also holds ``run``, the name of the run in the group, and ``taken``, the number of the
    last checkpoint that the group is known to have accepted. ``read`` and ``acknowledge`` raise
    Rebalanced.
    """

    Position = SharedPosition

    def __init__(
        self, broker: Broker, options: ConsumerOptions, say: Callable[[str], None]
    ) -> None:
        super().__init__(broker, options, None, say)
        self._listener = _Listener()
        self._member: Any = None
        self._runs: dict[str, Runs] = {}
        self.taken = self._born = 0
        self._refused: float | None = None
        self._told = 0.0

    # in the group --------------------------------------------------------------------------------

    def _enter(self, position: dict[str, Any] | None) -> list[TopicPartition]:
        """Join the group if need be; return the partitions of all members."""
        found = self.broker.outlast(
            lambda: self.broker.topics(self.options.topics), self.options.patience, self.say
        )
        self.identities = {topic: identity for topic, (identity, _) in found.items()}
        if position is not None:
            self._compare(position["topics"], self.identities)
        self._connect()
        if self._listener.changed:
            self._join()
        return places_of(found)

    def _connect(self) -> None:
        if self.consumer is None:
            self._listener = _Listener()
            self.consumer = self._client(
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=MOST_POLL_MS,
                metadata_max_age_ms=int(LOOK_SECONDS * 1000),
            )
            with self.broker.explained():  # else the first assignment would have no partitions
                for topic in self.options.topics:
                    self.consumer.partitions_for_topic(topic)
            self.consumer.subscribe(list(self.options.topics), listener=self._listener)

    def _join(self) -> None:
        """Wait for an assignment; what is read meanwhile is read again.

        A join that takes too long is restarted: occasionally one never completes.
        """
        started, patience = time.monotonic(), JOIN_SECONDS
        member = self.consumer.group_metadata()
        while not self._listener.assigned or member.generation_id < 0:
            waited = time.monotonic() - started
            if waited > self.options.patience:
                raise UnavailableError(
                    f"Kafka at {self.broker.bootstrap}: the group {self.options.group} has not assigned "
                    f"its partitions within {self.options.patience:.0f} s (source.patience)"
                )
            if waited > patience:
                patience *= 2
                self.close_consumer()
                self._connect()
            with self.broker.explained(), suppress(*_FOUND_AGAIN):
                self.consumer.poll(POLL_MS)
            if not self._listener.assigned:
                time.sleep(POLL_MS / 1000)  # a poll may return at once when brokers are unavailable
            member = self.consumer.group_metadata()
        self._listener.changed, self._member = False, member

    def _committed(self, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, Runs]]:
        """Return the group's committed offsets, after all open transactions have ended."""
        limit = time.monotonic() + self.options.patience
        found = {}
        for place in places:
            with self.broker.explained():
                while True:
                    try:
                        held = self.consumer.committed(place, metadata=True, timeout_ms=ANSWER_MS)
                        break
                    except (
                        KafkaTimeoutError
                    ):  # also while a transaction is open that may yet commit
                        if time.monotonic() > limit:
                            raise
            if held is not None:
                found[place] = held.offset, self._runs_in(held.metadata)
        return found

    def _runs_in(self, metadata: str | None) -> Runs:
        with suppress(ValueError):
            runs = json.loads(metadata or "{}")
            if isinstance(runs, dict):
                return runs
        raise DataError(
            f"the group {self.options.group} has offsets that are not of onlinesrl's runs"
        )

    # where to begin ------------------------------------------------------------------------------

    def accepts(self, position: dict[str, Any], number: int) -> bool:
        """Tell whether the group has accepted a checkpoint of this run.

        Raises DataError if the accepted checkpoint is lost.
        """
        group, run = self.options.group, position["run"]
        held = self._committed(self._enter(position))
        taken = max((runs.get(run, 0) for _, runs in held.values()), default=0)
        if taken < position["taken"]:
            raise DataError(
                f"the group {group} no longer knows checkpoint {position['taken']} of this run: its "
                "offsets were reset or have expired; start over with --fresh, in a group of another name"
            )
        if number < taken:
            raise DataError(
                f"the group {group} has accepted checkpoint {taken} of this run, and the newest that "
                f"can be read is {number}: restore it from a copy, or start over with --fresh"
            )
        return number == taken or not position["offsets"]

    def open(self, position: dict[str, Any] | None) -> dict[str, Any]:
        """Start at the group's offset in each partition of this run.

        A partition without offset starts at its end only if it existed when the group started.
        """
        everything = self._enter(position)
        places = sorted(self.consumer.assignment())
        with self.broker.explained():
            starts = bounds(self.consumer.beginning_offsets, places)
            self._ends = bounds(self.consumer.end_offsets, places)
        self.offsets, self._runs = {}, {}
        held = self._committed(everything if self.options.from_end else places)
        told = (runs[BORN] for _, runs in held.values() if BORN in runs)
        self._born = min(told, default=len(held) or len(everything))
        for place in places:
            at_end = self.options.from_end and place.partition < self._born
            fresh = self._ends if at_end else starts
            offset, runs = held.get(place, (fresh[place], {}))
            self.consumer.seek(place, offset)
            self.offsets[name_of(place)], self._runs[name_of(place)] = offset, runs
        if self.options.to_end:
            self._targets = dict(self._ends)
        self._heard = self._looked = self._told = time.monotonic()
        self.taken = position["taken"] if position else 0
        return {
            "topics": self.identities,
            "offsets": dict(self.offsets),
            "run": position["run"] if position else uuid.uuid4().hex,
            "taken": self.taken,
        }

    # reading -------------------------------------------------------------------------------------

    def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        self._stay()
        polled = super()._poll()
        self._told = time.monotonic()
        self._stay()
        return polled

    def _stay(self) -> None:
        if self._listener.changed:
            raise Rebalanced

    def _taken(self, polled: dict[TopicPartition, list[ConsumerRecord]]) -> Iterator[Record]:
        for record in super()._taken(polled):
            self._stay()
            yield record

    def _look(self, now: float) -> None:
        if not self._listener.changed:
            super()._look(now)

    def _drained(self) -> bool:
        """Tell whether all has been read; False without partitions, which may not be assigned yet."""
        return bool(self._targets) and super()._drained()

    def _reconnect(self) -> None:
        """Leave the group, to rejoin it."""
        self.close_consumer()
        raise Rebalanced

    def after(
        self,
        position: dict[str, Any],
        records: Sequence[Record],
        more: bool = False,
        mark: None = None,
    ) -> dict[str, Any]:
        """Return the position after the next records, whether or not more has been read."""
        return super().after(position, records, more) | {"taken": self.taken}

    def during(self, work: Callable[[], Any]) -> Any:
        """Call ``work`` on another thread, and keep polling to stay in the group."""
        future = aside(work)
        while not wait([future], max(0.0, self._told + BREATH_SECONDS - time.monotonic())).done:
            self.consumer.pause(*self.consumer.assignment())
            with suppress(KafkaError):
                self.consumer.poll(POLL_MS)
            self.consumer.resume(*self.consumer.paused())
            self._told = time.monotonic()
        return future.result()

    # what the group takes ------------------------------------------------------------------------

    def flush(self, sink: Sink) -> None:
        """Do nothing: predictions are written with the next commit."""

    def acknowledge(self, position: dict[str, Any], number: int, sink: Sink) -> None:
        """Commit a checkpoint to the group, in one transaction with the predictions if possible.

        If that fails, it may have been accepted nevertheless: the run leaves the group, to ask again
        as another member. Raises UnavailableError when commits fail for too long.
        """
        self._stay()
        offsets, run = {}, position["run"]
        for name, offset in position["offsets"].items():
            others = [known for known in self._runs[name].items() if known[0] not in (run, BORN)]
            runs = dict([(BORN, self._born), *others[-REMEMBERED:], (run, number)])
            self._runs[name] = runs
            offsets[place_of(name)] = OffsetAndMetadata(offset, json.dumps(runs), -1)
        try:
            if not sink.commit(offsets, self._member):
                self._commit(offsets)
        except (KafkaError, UnavailableError) as error:
            self.close_consumer()
            now = time.monotonic()
            self._refused = self._refused or now
            reason = f"the group {self.options.group} has not accepted checkpoint {number}: {error}"
            if now - self._refused > self.options.patience:
                raise UnavailableError(reason) from error
            self.say(reason)
            raise Rebalanced from error
        self._refused = None
        if offsets:
            self.taken = number

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.consumer.commit(dict(offsets), timeout_ms=ANSWER_MS)
