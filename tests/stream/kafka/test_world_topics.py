"""A world that follows a topic of keyed records, and writes what changed to another one, exactly once."""

import json
import random
import time

import pytest
from conftest import tiers

from tests.support import world_changes
from tests.support.kafka_streams import UNTIL_END, keys, predicted


@tiers("kills", 3, 100)
@pytest.mark.parametrize("soft", [True, False])
def test_what_changed_is_written_once(broker, topic, world_run, tally, soft, kills):
    """A message of an atom that is gone is a tombstone, and a tombstone takes back what its key asserted."""
    lines = world_changes.changes(80, soft, 5)
    file = world_run(lines, soft, "file")
    assert file.run() == 0, file.said
    broker.create_topic(topic, partitions=1)
    broker.produce(topic, [message(line) for line in lines])
    run = world_run([], soft, **keys(broker, topic))
    rng, began = random.Random(0), time.monotonic()
    assert run.end(0, lambda: 0.0, *UNTIL_END) == 0
    seconds = time.monotonic() - began
    expected = [
        (f"{line['predicate']}({', '.join(line['args'])})", None if line["value"] is None else line)
        for line in file.lines("predictions.jsonl")
        if "predicate" in line
    ]
    assert written(broker, f"{topic}-out") == expected
    assert any(value is None for _, value in expected)
    attempt = killed = 0
    while killed < kills:
        attempt += 1
        again = world_run([], soft, f"again{attempt}", **keys(broker, topic, f"{topic}-{attempt}"))
        began = time.monotonic()
        deaths = again.end(kills - killed, lambda: rng.uniform(0.05, seconds), *UNTIL_END)  # noqa: B023
        if not deaths:  # the first run had more to load
            seconds = time.monotonic() - began
        killed += deaths
        assert written(broker, f"{topic}-{attempt}-out") == expected
        for name in ("metrics.jsonl", "weights.psl" if soft else "weights.mln"):
            assert (again.output / name).read_bytes() == (run.output / name).read_bytes()
    tally["kills"] += killed


def message(line):
    """The record of a change: its key is that of the facts, and what takes them back has no value."""
    key = line.get("id")
    if key is None or "add" in line:
        return None, json.dumps(line).encode(), 0
    value = {name: part for name, part in line.items() if name != "id"}
    return key.encode(), json.dumps(value).encode() if value else None, 0


def written(broker, topic):
    """The keys and values of a topic, each once, in order."""
    predicted(broker, topic)
    return [
        (record.key.decode(), None if record.value is None else json.loads(record.value))
        for record in broker.read_all(topic)
    ]
