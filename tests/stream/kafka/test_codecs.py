"""Topics whose records are compressed."""

import kafka.codec
import pytest

from tests.support.kafka_streams import UNTIL_END, add, from_file, keys, predicted

pytestmark = pytest.mark.usefixtures("counting")

CODECS = {"gzip": None, "snappy": "snappy", "lz4": "lz4.frame", "zstd": "zstandard"}


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_are_read_and_written(broker, topic, job, citations, codec):
    """The broker compresses what it is sent, examples and predictions."""
    module = CODECS[codec]
    if module is not None:
        pytest.importorskip(module, reason="the extra kafka-codecs brings it")
    out, settings = f"{topic}-packed", {"compression.type": codec}
    broker.create_topic(topic, config=settings)
    broker.create_topic(out, config=settings)
    of = keys(broker, topic) | {"sink": {"kind": "kafka", "topic": out}}
    add(broker, topic, citations[:20])
    run, alone = job([], **of), job(citations[:30], "alone")
    add(broker, topic, citations[20:30])
    assert run.run(*UNTIL_END) == 0, run.said
    assert alone.run() == 0
    assert predicted(broker, out) == from_file(alone)


def test_a_package_that_is_missing_is_named(broker, topic, job, citations):
    codec = "zstd"
    broker.create_topic(topic, config={"compression.type": codec})
    add(broker, topic, citations[:20])

    def first():
        setattr(kafka.codec, f"has_{codec}", lambda: False)

    run = job([], **keys(broker, topic))
    assert run.run(*UNTIL_END, first=first) == 69, run.said
    said = run.said.splitlines()[-1]
    assert codec in said and "pip install 'onlinesrl[kafka-codecs]'" in said
