"""Several runs that divide the partitions of a topic among them, each record learned by one of them.

Which run may go on from where is the consumer group's to say: with every offset that it holds for a
partition stands the number of the last checkpoint of each run that got there. A run commits after it
has written a checkpoint, and counts only those as its own that the group has taken; whenever the
partitions are divided anew it goes back to the last of them. So what a run has learned beyond it is
forgotten there, and learned by whoever has the partition next.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError, NoOffsetForPartitionError

from onlinesrl.errors import UnavailableError
from onlinesrl.stream.broker import ANSWER_MS, Broker, name_of, place_of
from onlinesrl.stream.kafka_source import POLL_MS, KafkaSource, Reading
from onlinesrl.stream.loop import Rebalanced

BREATH_SECONDS = 1.0
"""How long the run may work before the group hears from it again."""
MOST_POLL_MS = 300_000
REMEMBERED = 30


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes that partitions change hands; called on a thread of the client."""

    def __init__(self) -> None:
        self.changed = self.assigned = False

    def on_partitions_revoked(self, revoked: object) -> None:
        self.changed, self.assigned = True, False

    def on_partitions_assigned(self, assigned: object) -> None:
        self.changed = self.assigned = True


class SharedSource(KafkaSource):
    """The records of those partitions that the group leaves to this run.

    A position also holds ``run``, the name that the run has in the group. ``read`` raises Rebalanced.
    """

    shared = True

    def __init__(self, broker: Broker, reading: Reading, say: Callable[[str], None]) -> None:
        super().__init__(broker, reading, None, say)
        self._listener = _Listener()
        self._acknowledged: dict[str, dict[str, int]] = {}
        self._worker = ThreadPoolExecutor(1, "learner")

    def _connect(self) -> None:
        """Join the group, or stay in it."""
        if self.consumer is None:
            self.consumer = self.broker.client(
                KafkaConsumer,
                group_id=self.reading.group,
                auto_offset_reset="none",
                enable_auto_commit=False,
                isolation_level="read_committed",
                allow_auto_create_topics=False,
                fetch_max_wait_ms=POLL_MS,
                max_poll_interval_ms=MOST_POLL_MS,
                max_partition_fetch_bytes=max(1 << 20, self.max_bytes + (1 << 16)),
            )

    def accepts(self, position: dict[str, Any], number: int) -> bool:
        """Tell whether the group has taken a run's checkpoint."""
        self._connect()
        with self.broker.explained():
            return all(
                known is None or known[1].get(position["run"], 0) >= number
                for known in map(self._committed, map(place_of, position["offsets"]))
            )

    def _committed(self, place: TopicPartition) -> tuple[int, dict[str, int]] | None:
        """Return the group's offset and the runs' checkpoints in it; None: it has none."""
        found = self.consumer.committed(place, metadata=True, timeout_ms=ANSWER_MS)
        return (found.offset, json.loads(found.metadata or "{}")) if found else None

    def open(self, position: dict[str, Any] | None) -> dict[str, Any]:
        """Join the group, wait for its partitions, and begin where it got to with them."""
        run = position["run"] if position else uuid.uuid4().hex
        found = self.broker.topics(self.reading.topics)
        identities = {topic: identity for topic, (identity, _) in found.items()}
        if position is not None:
            self._compare(position["topics"], identities)
        self.identities = identities
        self._connect()
        if not self.consumer.subscription():
            self._listener.assigned = False
            self.consumer.subscribe(list(self.reading.topics), listener=self._listener)
        self._take_places()
        return {"topics": identities, "offsets": dict(self.offsets), "run": run}

    def _take_places(self) -> None:
        """Seek to where the group is in each partition that is this run's."""
        while not self._listener.assigned:
            self._proceed()
        self._listener.changed = False
        places = sorted(self.consumer.assignment())
        with self.broker.explained():
            starts = self.consumer.beginning_offsets(places, timeout_ms=ANSWER_MS)
            self._ends = self.consumer.end_offsets(places, timeout_ms=ANSWER_MS)
            committed = {place: self._committed(place) for place in places}
        fresh = self._ends if self.reading.from_end else starts
        self.offsets, self._acknowledged = {}, {}
        for place in places:
            offset, runs = committed[place] or (fresh[place], {})
            if place in self.consumer.assignment():
                self.consumer.seek(place, offset)
            self.offsets[name_of(place)], self._acknowledged[name_of(place)] = offset, runs
        if self.reading.to_end:
            self._targets = dict(self._ends)

    def _proceed(self) -> None:
        """Let the group go on; what is read before the places are known is read again."""
        try:
            self.consumer.poll(POLL_MS)
        except NoOffsetForPartitionError:
            pass
        except KafkaError as error:
            raise UnavailableError(f"Kafka at {self.broker.bootstrap}: {error}") from error

    def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records that are there, by partition. Raises Rebalanced."""
        if not self._listener.changed:
            polled = super()._poll()
            if not self._listener.changed:
                return polled
        raise Rebalanced

    def _reconnect(self) -> None:
        """Leave the group, to join it again. Raises Rebalanced."""
        self.close_consumer()
        raise Rebalanced

    def offsets_of(
        self, position: dict[str, Any], number: int
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], Any]:
        """Return what the group is to hold of a checkpoint, and as which of its members to say so."""
        offsets = {}
        for name, offset in position["offsets"].items():
            others = [x for x in self._acknowledged[name].items() if x[0] != position["run"]]
            runs = dict([*others[-REMEMBERED:], (position["run"], number)])
            self._acknowledged[name] = runs
            offsets[place_of(name)] = OffsetAndMetadata(offset, json.dumps(runs), -1)
        return offsets, self.consumer.group_metadata()

    def acknowledge(self, position: dict[str, Any], number: int) -> None:
        """Have the group take a checkpoint. Raises Rebalanced where it does not."""
        try:
            offsets, _ = self.offsets_of(position, number)
            self.consumer.commit(offsets, timeout_ms=ANSWER_MS)
        except KafkaError as error:
            self.say(f"the group does not take checkpoint {number}: {error}")
            raise Rebalanced from error

    def during(self, work: Callable[[], Any]) -> Any:
        """Do work on another thread, and go on telling the group that this run is there."""
        future = self._worker.submit(work)
        while not wait([future], BREATH_SECONDS).done:
            places = self.consumer.assignment()
            self.consumer.pause(*places)
            try:
                self.consumer.poll(0)
            finally:
                self.consumer.resume(*(places & self.consumer.assignment()))
        return future.result()

    def close(self) -> None:
        """Leave the group."""
        self._worker.shutdown()
        super().close()
