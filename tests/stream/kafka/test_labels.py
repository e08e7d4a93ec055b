"""Truth that comes later: learned where it comes, predicted once where its example came."""

import json
import random

import pytest
from conftest import Job, tiers

from tests.support.kafka_streams import UNTIL_END, fill, from_file, keys, predicted
from tests.support.late_labels import apart

pytestmark = pytest.mark.usefixtures("counting")

DELAY = 9


def weights(job: Job) -> bytes:
    return (job.output / "weights.mln").read_bytes()


def delayed(citations: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Examples whose labels come after nine others, and the same as a file has them.

    In the file the example comes without truth first, and whole at the place of its label.
    """
    stream, file = [], []
    for n in range(len(citations) + DELAY):
        if n < len(citations):
            example, _ = apart(citations[n])
            stream.append(example)
            file.append(example)
        if n >= DELAY:
            stream.append(apart(citations[n - DELAY])[1])
            file.append(citations[n - DELAY])
    return stream, file


def once(values: list[bytes]) -> list[bytes]:
    """The first prediction of each example."""
    return list({json.loads(value)["id"]: value for value in reversed(values)}.values())[::-1]


@tiers("most", 0, 20)
def test_labels_further_down_the_stream_with_kills(broker, topic, job, citations, tally, most):
    stream, lines = delayed(citations[:50])
    file, same = job(lines, "file"), job(stream, "same", labels={})
    assert (file.run(), same.run()) == (0, 0), file.said
    fill(broker, topic, stream)
    values = keys(broker, topic)
    run = job([], **values, labels={}, batch=4)
    rng = random.Random(2)
    kills = run.end(most, lambda: rng.uniform(0.2, 1.2), *UNTIL_END)
    assert weights(run) == weights(file)
    ours = run.lines("metrics.jsonl")
    assert ours == same.lines("metrics.jsonl")
    assert (ours[-1]["examples"], ours[-1]["labelled"]) == (50, 50)
    for name in ("pending", "early_labels", "expired", "unmatched_labels"):
        assert ours[-1][name] == 0
    found = predicted(broker, values["sink"]["topic"])
    assert found == once(from_file(file))
    tally["kills"] += kills


def test_labels_on_a_topic_of_their_own(broker, topic, job, citations):
    """Whichever comes first; what is learned is what the noted order says."""
    examples, labels = zip(*map(apart, citations[:40]), strict=True)
    fill(broker, topic, examples)
    fill(broker, f"{topic}-labels", labels)
    values = keys(broker, topic)
    run = job([], **values, labels={"topic": f"{topic}-labels"})

    def small_polls():
        from onlinesrl.stream.kafka import source as kafka_source

        kafka_source.MOST_RECORDS = 7

    assert run.run(*UNTIL_END, first=small_polls) == 0, run.said
    lines, taken, seen, early = [], [], set(), set()
    for name, first, last in run.lines("order.jsonl"):
        for n in range(first, last + 1):
            late = name.startswith(f"{topic}-labels")
            taken.append(labels[n] if late else examples[n])
            if late:
                (early.add(n) if n not in seen else lines.append(citations[n]))
            else:
                seen.add(n)
                lines.append(citations[n] if n in early else examples[n])
    file, same = job(lines, "file"), job(taken, "same", labels={})
    assert (file.run(), same.run()) == (0, 0), file.said
    assert weights(run) == weights(file)
    assert run.lines("metrics.jsonl") == same.lines("metrics.jsonl")
    assert predicted(broker, values["sink"]["topic"]) == once(from_file(file))
    last = run.lines("metrics.jsonl")[-1]
    assert (last["pending"], last["early_labels"]) == (0, 0)
