"""Entities of records of one topic, with labels of another, in a compacted topic, whatever was killed."""

import json
import random
import time

from conftest import tiers

from tests.entities.test_entity_world import section, world
from tests.runs.test_entity_learner import NAMES, PAIRS, drawn, people
from tests.support.kafka_streams import UNTIL_END, source
from tests.support.waiting import until

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001"}
COMPACTED |= {"segment.ms": "100", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "1"}
AFTER = b"after"
SAME = dict(zip(PAIRS, (1, 0, 0, 1, 0), strict=True))
"""Labels that agree in any order."""


def message(line):
    """The record of a line: what withdraws it has no value."""
    value = {part: x for part, x in line.items() if part != "id"}
    return line["id"].encode(), json.dumps(value).encode() if value else None, 0


def lines(count, seed):
    """Records, and labels, some of which are taken back."""
    rng, every = random.Random(seed), drawn(count, seed)
    records, labels = [x for x in every if x["id"] in NAMES], list[dict]()
    for line in records:
        line.get("evidence", {}).pop("source", None)
    for _ in range(count // 4):
        pair = rng.choice(PAIRS)
        label = {"Same": [{"args": pair, "value": SAME[pair]}]}
        labels.append({"id": f"label {PAIRS.index(pair)}"})
        labels[-1] |= {"evidence": label} if rng.random() < 0.8 else {}
    return records, labels


def expected(records, labels):
    """The entities of a new resolver with what is left."""
    rows, said = {}, {}
    for line in records:
        if evidence := line.get("evidence"):
            rows[line["id"]] = {column: args[0][1] for column, args in evidence.items()}
        else:
            rows.pop(line["id"], None)
    for line in labels:
        pair = PAIRS[int(line["id"][-1])]
        said.pop(pair, None)
        said |= {pair: SAME[pair]} if "evidence" in line else {}
    cold = world().resolver
    cold.add(rows)
    for (a, b), value in said.items():
        if {a, b} <= rows.keys():
            cold.label(a, b, value == 1)
    return {name: cold.entity(name) for name in rows}


def changes(broker, topic):
    """The keys and values that a run wrote to a topic, in order."""
    records = broker.read_all(topic)
    return [(x.key.decode(), x.value) for x in records if x.key != AFTER]


def held(broker, topic):
    """What a topic holds: the entity of each record, by the last value of each key."""
    last = dict(changes(broker, topic))
    lines = [json.loads(value) for value in last.values() if value is not None]
    assert all(line["value"] == 1.0 and 0 < line["probability"] <= 1 for line in lines)
    entity = {line["args"][0]: line["args"][1] for line in lines}
    assert len(entity) == len(lines)
    return entity


@tiers("kills", 2, 50)
def test_entities_are_held_by_a_compacted_topic(broker, topic, job, tmp_path, tally, kills):
    records, labels = lines(160, 4)
    topics = [f"{topic}-records", f"{topic}-labels"]
    for name, messages in zip(topics, (records, labels), strict=True):
        broker.create_topic(name)
        broker.produce(name, [*map(message, messages)])

    def run_to(out):
        broker.create_topic(out, config=COMPACTED)
        entities = section().model_dump(exclude_unset=True)
        keys = {"source": source(broker, topics), "sink": {"kind": "kafka", "topic": out}}
        return people(job, [], tmp_path, out, checkpoint={"every": 7}, entities=entities, **keys)

    unbroken, began = run_to(f"{topic}-out"), time.monotonic()
    assert unbroken.run(*UNTIL_END) == 0, unbroken.said
    seconds = time.monotonic() - began
    assert not unbroken.lines("deadletter.jsonl")
    answer = expected(records, labels)
    assert 1 < len({*answer.values()}) < len(answer)
    assert held(broker, f"{topic}-out") == answer
    killed = attempt = 0
    while killed < kills:
        attempt += 1
        again, began = run_to(f"{topic}-{attempt}"), time.monotonic()
        rng = random.Random(attempt)
        deaths = again.end(kills - killed, lambda: rng.uniform(0.05, seconds), *UNTIL_END)  # noqa: B023
        seconds = seconds if deaths else time.monotonic() - began
        killed += deaths
        assert held(broker, f"{topic}-{attempt}") == answer
        tables = [(run.output / "entities.csv").read_bytes() for run in (unbroken, again)]
        assert tables[0] == tables[1]
    tally["kills"] += killed

    def compacted():
        time.sleep(0.2)
        broker.produce(f"{topic}-out", [(AFTER, None, 0)])  # so that segments roll
        names = [name for name, _ in changes(broker, f"{topic}-out")]
        return len(names) == len({*names})

    until(compacted)
    changed = unbroken.lines("metrics.jsonl")[-1]["changed_atoms"]
    assert changed > len(changes(broker, f"{topic}-out")) > 0
    assert held(broker, f"{topic}-out") == answer
