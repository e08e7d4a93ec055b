"""Latency of one example at a time: bytes in, prediction, update, bytes out.

Citations of 25 tokens (within two), each a micro-batch of its own, on a learner that has seen the stream
before. Wall time beside CPU time: the first has the waits for a processor, on a machine that is busy.
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
TOKENS, WITHIN, ROUNDS = 25, 2, 40


def learner_of(lines: list[bytes]) -> Learner:
    learner = run.make_learner(load(REPO / "configs" / "citations.yaml"))
    learner.compile()
    learner.step([decode(line) for line in lines])
    return learner


def milliseconds(learner: Learner, line: bytes) -> tuple[float, float]:
    """Return the wall time and the CPU time from the bytes of an example to those of its answer."""
    wall, cpu = time.perf_counter(), time.thread_time()
    example = decode(line)
    (outcome,), _ = learner.step([example])
    answer(Record(line, "", 1, 0, 0), example, outcome)
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.thread_time() - cpu)


def test_latency_of_one_citation():
    lines = (REPO / "streams" / "citations" / "citations.jsonl").read_bytes().splitlines()
    learner = learner_of(lines)
    chosen = [x for x in lines if abs(len(decode(x).evidence["Token"]) - TOKENS) <= WITHIN]
    times = np.array([milliseconds(learner, line) for _ in range(ROUNDS) for line in chosen])
    quantiles = np.percentile(times, [50, 99, 100], axis=0).T.tolist()
    rows = [(name, *q) for name, q in zip(("wall", "CPU"), quantiles, strict=True)]
    show(f"Latency of {len(times):,} citations, milliseconds", ("", "p50", "p99", "most"), rows)
    assert learner.weights.updates == len(lines) + len(times)
