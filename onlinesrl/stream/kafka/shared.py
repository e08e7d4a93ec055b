"""Several runs that divide the partitions of a topic among them, each record learned by one of them.

Which run may go on from where is the consumer group's to say: with every offset that it holds for a
partition stands the number of the last checkpoint of each run that got there. A run commits after it
has written a checkpoint, and counts only those as its own that the group has taken; whenever the
partitions are divided anew it goes back to the last of them. So what a run has learned beyond it is
forgotten there, and learned by whoever has the partition next.

Two things make that sound. A commit names the generation of the group in which the run was given its
partitions, and brokers refuse it in any later one. And a run asks which checkpoint was taken only as a
member of a later generation than all it has committed in, so that no commit can come after the answer.
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
from onlinesrl.stream.aside import aside
from onlinesrl.stream.files import Record
from onlinesrl.stream.kafka.broker import ANSWER_MS, Broker, bounds, name_of, place_of, places_of
from onlinesrl.stream.kafka.source import LOOK_SECONDS, POLL_MS, KafkaSource, Reading
from onlinesrl.stream.protocols import Rebalanced, Sink

BREATH_SECONDS = 1.0
"""How long the run may work before the group hears from it again."""
SESSION_MS = 45_000
HEARTBEAT_MS = 3_000
MOST_POLL_MS = 300_000
JOIN_SECONDS = 10.0
REMEMBERED = 30
"""How many other runs an offset tells of: brokers take 4096 bytes with it."""
BORN = "partitions"
"""Under this name an offset tells how many partitions there were when the group began."""

_FOUND_AGAIN = (NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError)
"""What is wrong with a partition is found again when it is read."""

Runs = dict[str, int]
"""The number of the last checkpoint that the group has taken, by run."""


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes that partitions change hands; called on a thread of the client, while it polls or closes."""

    def __init__(self) -> None:
        self.changed, self.assigned = True, False

    def on_partitions_revoked(self, revoked: object) -> None:
        self.changed, self.assigned = True, False

    def on_partitions_assigned(self, assigned: object) -> None:
        self.changed = self.assigned = True


class SharedSource(KafkaSource):
    """The records of those partitions that the group leaves to this run.

    A position also holds ``run``, the name that the run has in the group, and ``taken``, the number of
    the last checkpoint that the group is known to have taken. ``read`` and what acknowledges raise
    Rebalanced.
    """

    def __init__(self, broker: Broker, reading: Reading, say: Callable[[str], None]) -> None:
        super().__init__(broker, reading, None, say)
        self._listener = _Listener()
        self._member: Any = None
        self._runs: dict[str, Runs] = {}
        self.taken = self._born = 0
        self._refused: float | None = None
        self._told = 0.0

    # in the group --------------------------------------------------------------------------------

    def _enter(self, position: dict[str, Any] | None) -> list[TopicPartition]:
        """Be a member of the group that knows its partitions; return those of all members."""
        found = self.broker.outlast(
            lambda: self.broker.topics(self.reading.topics), self.reading.patience, self.say
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
            with self.broker.explained():  # or else the first division knows of no partitions
                for topic in self.reading.topics:
                    self.consumer.partitions_for_topic(topic)
            self.consumer.subscribe(list(self.reading.topics), listener=self._listener)

    def _join(self) -> None:
        """Wait for partitions; what is read meanwhile is read again.

        A join that takes too long is begun anew: now and then one never comes back to the client.
        """
        started, patience = time.monotonic(), JOIN_SECONDS
        member = self.consumer.group_metadata()
        while not self._listener.assigned or member.generation_id < 0:
            waited = time.monotonic() - started
            if waited > self.reading.patience:
                raise UnavailableError(
                    f"Kafka at {self.broker.bootstrap}: the group {self.reading.group} has not divided "
                    f"its partitions within {self.reading.patience:.0f} s (source.patience)"
                )
            if waited > patience:
                patience *= 2
                self.close_consumer()
                self._connect()
            with self.broker.explained(), suppress(*_FOUND_AGAIN):
                self.consumer.poll(POLL_MS)
            if not self._listener.assigned:
                time.sleep(POLL_MS / 1000)  # a poll may come back at once, when brokers are away
            member = self.consumer.group_metadata()
        self._listener.changed, self._member = False, member

    def _committed(self, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, Runs]]:
        """Return the group's offsets, as far as it has some, when all that was begun has ended."""
        limit = time.monotonic() + self.reading.patience
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
            f"the group {self.reading.group} has offsets that are not of onlinesrl's runs"
        )

    # where to begin ------------------------------------------------------------------------------

    def accepts(self, position: dict[str, Any], number: int) -> bool:
        """Tell whether the group has taken a run's checkpoint.

        Raises DataError where what the group has taken cannot be had any more.
        """
        group, run = self.reading.group, position["run"]
        held = self._committed(self._enter(position))
        taken = max((runs.get(run, 0) for _, runs in held.values()), default=0)
        if taken < position["taken"]:
            raise DataError(
                f"the group {group} no longer knows checkpoint {position['taken']} of this run: its "
                "offsets were reset or have expired; start over with --fresh, in a group of another name"
            )
        if number < taken:
            raise DataError(
                f"the group {group} goes on behind checkpoint {taken} of this run, and the newest that "
                f"can be had is {number}: restore it from a copy, or start over with --fresh"
            )
        return number == taken or not position["offsets"]

    def open(self, position: dict[str, Any] | None) -> dict[str, Any]:
        """Begin where the group is in each partition that is this run's.

        One that nobody has read begins at its end only if it was there when the group began.
        """
        everything = self._enter(position)
        places = sorted(self.consumer.assignment())
        with self.broker.explained():
            starts = bounds(self.consumer.beginning_offsets, places)
            self._ends = bounds(self.consumer.end_offsets, places)
        self.offsets, self._runs = {}, {}
        held = self._committed(everything if self.reading.from_end else places)
        told = (runs[BORN] for _, runs in held.values() if BORN in runs)
        self._born = min(told, default=len(held) or len(everything))
        for place in places:
            at_end = self.reading.from_end and place.partition < self._born
            fresh = self._ends if at_end else starts
            offset, runs = held.get(place, (fresh[place], {}))
            self.consumer.seek(place, offset)
            self.offsets[name_of(place)], self._runs[name_of(place)] = offset, runs
        if self.reading.to_end:
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
        """Tell whether all has been read; not so without partitions, which the leader may not know yet."""
        return bool(self._targets) and super()._drained()

    def _reconnect(self) -> None:
        """Leave the group, to join it again."""
        self.close_consumer()
        raise Rebalanced

    def after(
        self, position: dict[str, Any], records: Sequence[Record], more: bool = False
    ) -> dict[str, Any]:
        """Return the position after records that stood next, whether or not more has been read."""
        return super().after(position, records, more) | {"taken": self.taken}

    def during(self, work: Callable[[], Any]) -> Any:
        """Do work on another thread, and go on telling the group that this run is there."""
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
        """Leave what the sink holds for the next commit, which the group may refuse."""

    def acknowledge(self, position: dict[str, Any], number: int, sink: Sink) -> None:
        """Have the group take a checkpoint, along with the predictions where the sink can do that.

        Where that fails, it may have been taken all the same: the run leaves the group, so that it
        can ask again as another member. Raises UnavailableError when nothing is taken for too long.
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
            reason = f"the group {self.reading.group} has not taken checkpoint {number}: {error}"
            if now - self._refused > self.reading.patience:
                raise UnavailableError(reason) from error
            self.say(reason)
            raise Rebalanced from error
        self._refused = None
        if offsets:
            self.taken = number

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.consumer.commit(dict(offsets), timeout_ms=ANSWER_MS)
