import time

import pytest
from conftest import soaked
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from tests.support.kafka_broker import Broker, Cluster


def test_what_is_written_is_read(broker: Cluster, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    records = [
        (b"k", b"first", 1, [("h", b"1"), ("h", b"2")]),
        (None, b"second", 0),
        (None, b"third", 1),
        (b"k", None, 1),
    ]
    assert broker.produce(topic, records) == [0, 0, 1, 2]
    assert broker.end_offsets(topic) == {0: 1, 1: 3}
    assert [
        (record.partition, record.offset, record.key, record.value, list(record.headers))
        for record in broker.read_all(topic)
    ] == [
        (0, 0, None, b"second", []),
        (1, 0, b"k", b"first", [("h", b"1"), ("h", b"2")]),
        (1, 1, None, b"third", []),
        (1, 2, b"k", None, []),
    ]


def test_a_topic_takes_its_settings_and_can_be_created_again(broker: Cluster, topic: str) -> None:
    broker.create_topic(topic, config={"max.message.bytes": "1000"})
    broker.produce(topic, [(None, b"kept")])
    with pytest.raises(MessageSizeTooLargeError):
        broker.produce(topic, [(None, bytes(10_000))])
    broker.delete_topic(topic)
    broker.create_topic(topic)
    assert broker.produce(topic, [(None, bytes(10_000))]) == [0]


def test_deleted_records_move_the_start_of_the_log(broker: Cluster, topic: str) -> None:
    broker.create_topic(topic)
    broker.produce(topic, [(None, str(number).encode()) for number in range(5)])
    broker.delete_records(topic, 0, 3)
    assert [record.offset for record in broker.read_all(topic)] == [3, 4]
    assert broker.end_offsets(topic) == {0: 5}


@pytest.mark.long
@pytest.mark.parametrize("end", [soaked(Broker.stop), Broker.kill])
def test_records_outlive_the_process(own_broker: Broker, topic: str, end) -> None:
    own_broker.create_topic(topic)
    own_broker.produce(topic, [(None, b"before")])
    end(own_broker)
    own_broker.restart()
    own_broker.produce(topic, [(None, b"after")])
    assert [record.value for record in own_broker.read_all(topic)] == [b"before", b"after"]


def test_a_paused_broker_does_not_answer_and_a_resumed_one_does(own_broker, topic):
    own_broker.create_topic(topic)
    with own_broker.consumer() as consumer:
        own_broker.pause()
        started = time.monotonic()
        with pytest.raises(KafkaTimeoutError):
            consumer.end_offsets([TopicPartition(topic, 0)], timeout_ms=200)
        assert time.monotonic() - started >= 0.2
        own_broker.resume()
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
