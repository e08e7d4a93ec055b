"""Latency of one example at a time: bytes in, prediction, update, bytes out.

Each example is a micro-batch of its own, on a learner that has seen the stream before: citations of 25 tokens
(within two), and queries of ten products by two engines of PSL. Wall time beside CPU time: the first has the
waits for a processor, on a machine that is busy.
"""

import time

import numpy as np
import pytest

from onlinesrl.core.example import decode
from onlinesrl.core.learner import Learner
from onlinesrl.runs import run
from onlinesrl.runs.config.loading import load
from onlinesrl.stream.predictions import answer
from onlinesrl.stream.records import Record
from tests.benchmarks.measure import REPO, show

pytestmark = pytest.mark.benchmark
TOKENS, WITHIN, EXAMPLES = 25, 2, 2000


def milliseconds(learner: Learner, line: bytes) -> tuple[float, float]:
    """Return the wall time and the CPU time from the bytes of an example to those of its answer."""
    wall, cpu = time.perf_counter(), time.thread_time()
    example = decode(line)
    (outcome,), _ = learner.step([example])
    answer(Record(line, "", 1, 0, 0), example, outcome)
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.thread_time() - cpu)


@pytest.mark.parametrize(
    ("config", "stream"),
    [
        ("citations.yaml", "citations/citations.jsonl"),
        ("engines/psl-tron.yaml", "search/search.jsonl"),
        ("engines/psl-admm.yaml", "search/search.jsonl"),
    ],
)
def test_latency_of_one_example(config: str, stream: str) -> None:
    lines = (REPO / "streams" / stream).read_bytes().splitlines()
    learner = run.make_learner(load(REPO / "configs" / config))
    learner.compile()
    learner.step([decode(line) for line in lines])
    if stream.startswith("citations"):
        lines = [x for x in lines if abs(len(decode(x).evidence["Token"]) - TOKENS) <= WITHIN]
    updates = learner.weights.updates
    times = np.array([milliseconds(learner, lines[k % len(lines)]) for k in range(EXAMPLES)])
    quantiles = np.percentile(times, [50, 99, 100], axis=0).T.tolist()
    rows = [(name, *q) for name, q in zip(("wall", "CPU"), quantiles, strict=True)]
    show(
        f"Latency of {config}, {EXAMPLES:,} examples, milliseconds",
        ("", "p50", "p99", "most"),
        rows,
    )
    assert learner.weights.updates == updates + EXAMPLES
