"""A topic's history learned in shards: every record once, the same bits for any workers, kills, resumes."""

import json

import pytest
from conftest import tiers

from tests.support.kafka_streams import add, fill, source

pytestmark = pytest.mark.usefixtures("counting")

DISTRIBUTED = {"shards": 3, "round": 4, "workers": 2}


def keys(broker, topic, **distribute):
    return {"source": source(broker, topic), "distribute": DISTRIBUTED | distribute}


@tiers("kills", 0, 50)
def test_a_history_is_learned_once_whoever_dies(broker, topic, job, citations, kills):
    lines = [None, *citations[:15], None, *citations[15:30], b'{"no": "example"}']
    fill(broker, topic, lines, partitions=2)
    run = job([], **keys(broker, topic), limits={"bad_share": 1.0})
    run.survives(kills, "history")
    whole = run.results()
    assert sorted(line["id"] for line in run.predictions()) == sorted(
        json.loads(line)["id"] for line in citations[:30]
    )
    [dead] = run.lines("deadletter.jsonl")
    assert (dead["file"], dead["line"]) == (f"{topic}[0]", 16)
    assert run.lines("metrics.jsonl")[-1]["tombstones"] == 2
    assert run.run("--fresh", "--set", "distribute.workers=1") == 0, run.said
    assert run.results() == whole


def test_a_run_ends_where_the_topic_ended_when_it_began(broker, topic, job, citations):
    fill(broker, topic, citations[:24], partitions=2)
    run = job([], **keys(broker, topic, round=3, workers=1))
    group = ("--set", f"source.group={topic}-group")
    assert run.run("--until", "9", *group) == 0, run.said
    told = committed(broker, topic)
    assert 0 < sum(told.values()) <= 9
    add(broker, topic, citations[24:30], partitions=2)
    assert run.run(*group) == 0, run.said
    assert sorted(line["id"] for line in run.predictions()) == sorted(
        json.loads(line)["id"] for line in citations[:24]
    )
    assert committed(broker, topic) == {0: 12, 1: 12}


def committed(broker, topic):
    """What the run's group was told, by partition."""
    with broker.admin() as admin:
        [offsets] = admin.list_group_offsets(f"{topic}-group").values()
    return {place.partition: found.offset for place, found in offsets.items()}
