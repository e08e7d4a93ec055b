"""The order in which several partitions were taken is noted, and taken again after a kill."""

import json
import os
import signal

from conftest import Job, wait

from tests.support.kafka_broker import Cluster
from tests.support.kafka_streams import UNTIL_END, fill, source
from tests.support.waiting import until

PARTITIONS = 3


def small_polls() -> None:
    """Take few records at a time, so that the order is not that of the partitions."""
    from onlinesrl.stream.kafka import source as kafka_source

    kafka_source.MOST_RECORDS = 4


def in_order(run: Job, broker: Cluster, topic: str) -> list[bytes]:
    """The records in the order that the journal says, each once."""
    values = {(f"{topic}[{r.partition}]", r.offset): r.value for r in broker.read_all(topic)}
    order: list[tuple[str, int]] = []
    for name, first, last in run.lines("order.jsonl"):
        order += [(name, offset) for offset in range(first, last + 1)]
    assert sorted(order) == sorted(values)
    return [values[place] + b"\n" for place in order]


def test_what_followed_the_checkpoint_is_taken_again_in_its_order(
    broker, topic, job, citations, tally
):
    """However the partitions would come now: the journal of the killed run counts."""
    fill(broker, topic, citations[:60], PARTITIONS)
    run = job([], source=source(broker, topic), checkpoint={"every": 1000})

    journal = run.output / "order.jsonl"
    process = run.start(first=small_polls)
    until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 10)
    os.kill(process, signal.SIGKILL)
    assert wait(process) == -signal.SIGKILL
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) > 5
    names = [json.loads(line)[0] for line in lines]
    mixed = sorted(lines, key=lambda line: (json.loads(line)[1], json.loads(line)[0]))
    assert len(set(names)) > 1
    journal.write_bytes(b"".join(mixed) + b'["cut sh')
    assert run.run(*UNTIL_END, first=small_polls) == 0, run.said
    assert journal.read_bytes().startswith(b"".join(mixed))
    file = job(in_order(run, broker, topic), "file")
    assert file.run() == 0, file.said
    assert run.results() == file.results()
    tally["kills"] += 1
