"""The order in which several partitions were taken is noted, and taken again after a kill."""

import json
import os
import random
import signal

import pytest
from conftest import Job, wait

from onlinesrl.stream import checkpoints
from onlinesrl.stream.read_order import Journal
from tests.support.kafka_broker import Cluster
from tests.support.kafka_streams import UNTIL_END, fill, source
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")

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


def test_a_run_reads_the_order_from_its_checkpoint_on(broker, topic, job, citations):
    """Whatever stands before: a start costs what follows the checkpoint, however long the run was."""
    fill(broker, topic, citations[:40], PARTITIONS)
    run = job([], source=source(broker, topic), checkpoint={"every": 5})
    assert run.run("--until", "20", first=small_polls) == 0, run.said
    past = checkpoints.load(run.checkpoints()[-1]).header["position"]["journal"]
    journal = run.output / "order.jsonl"
    before = journal.read_bytes()[:past]
    assert before.count(b"\n") > 3
    journal.write_bytes(b"#" * past + journal.read_bytes()[past:])
    assert run.run(*UNTIL_END, first=small_polls) == 0, run.said
    journal.write_bytes(before + journal.read_bytes()[past:])
    file = job(in_order(run, broker, topic), "file")
    assert file.run() == 0, file.said
    assert run.results() == file.results()


def test_what_a_journal_has_after_a_position_is_the_same_from_its_byte_on(tmp_path):
    """Of random stretches, positions and cuts of the last line; and a lost journal is begun anew."""
    for seed in range(30):
        rng, path = random.Random(seed), tmp_path / f"{seed}.jsonl"
        journal, offsets = Journal(path), dict.fromkeys("abc", 0)
        positions = [(0, dict(offsets))]
        for _ in range(20):
            name, length = rng.choice("abc"), rng.randrange(1, 5)
            journal.append([(name, offsets[name], offsets[name] + length - 1)])
            for _ in range(length):
                offsets[name] += 1
                positions.append((journal.past(offsets), dict(offsets)))
        journal.close()
        with path.open("ab") as file:
            file.write(b'["c", 3'[: rng.randrange(8)])
        for start, offsets in rng.sample(positions, 9):
            resumed = Journal(path, start)
            after = [*resumed.after(offsets)]
            assert after == [*Journal(path).after(offsets)]
            assert (
                not after
                or json.dumps(after[0]).encode() == path.read_bytes()[start:].split(b"\n")[0]
            )
            resumed.append([("a", 90, 91)])
            assert resumed.past(dict.fromkeys("abc", 99)) == path.stat().st_size
            resumed.close()
            os.truncate(path, positions[-1][0])
        lost = Journal(tmp_path / f"{seed}.lost", positions[-1][0])
        lost.append([("b", 7, 8)])
        assert [*lost.after({})] == [("b", 7, 8)]
