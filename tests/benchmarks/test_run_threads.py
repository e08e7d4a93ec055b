"""Wall time of a run over citations with one and with two threads; needs two cores that are idle.

Slopes between few and many repetitions of CiteSeer, or of the citation stream where that is not here. The
thread that learns is beside it: its CPU time bounds how far two threads can go.
"""

import statistics
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.loading import load
from onlinesrl.stream.trainer import Trainer
from tests.benchmarks.measure import REPO, show
from tests.benchmarks.test_citations_cpu import CITESEER, repeated

pytestmark = pytest.mark.benchmark
FEW, MANY, TIMES = 5, 40, 7
SHIPPED = REPO / "streams" / "citations" / "citations.jsonl"


class Spent(NamedTuple):
    """Seconds of a run's loop: wall time, CPU time, and CPU time of the thread that learns."""

    wall: float
    cpu: float
    learning: float


def stream(folder: Path, times: int) -> Path:
    """Write citations so many times."""
    if CITESEER.exists():
        repeated(folder / f"times{times}", times)
    else:
        (folder / f"times{times}.jsonl").write_bytes(SHIPPED.read_bytes() * times)
    return folder / f"times{times}.jsonl"


def spent(path: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Spent, bytes]:
    """Run over a file; what its loop took, and what it learned."""
    output = path.with_suffix("")
    sets = [f"source.path={path}", f"output={output}-out"]
    found, run = [], Trainer.run

    def timed(*arguments: object) -> None:
        clocks = (time.perf_counter, time.process_time, time.thread_time)
        started = [clock() for clock in clocks]
        run(*arguments)  # type: ignore[arg-type]
        found.append(Spent(*(c() - s for c, s in zip(clocks, started, strict=True))))

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "run", timed)
        config = load(REPO / "configs" / "citeseer.yaml", sets)
        run_module.run(config, run_module.Options(fresh=True, threads=threads), 0.0, lambda _: None)
    return found[0], Path(f"{output}-out", "weights.mln").read_bytes()


def test_two_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = stream(tmp_path, FEW), stream(tmp_path, MANY)
    more = many.read_bytes().count(b"\n") - few.read_bytes().count(b"\n")
    slopes: dict[int, list[Spent]] = {1: [], 2: []}
    for _ in range(TIMES):
        learned = set()
        for threads, found in slopes.items():
            short, _ = spent(few, threads, monkeypatch)
            long, weights = spent(many, threads, monkeypatch)
            learned.add(weights)
            found.append(Spent(*(1e6 * (b - a) / more for a, b in zip(short, long, strict=True))))
        assert len(learned) == 1
    rows = [
        (f"{threads}", *(statistics.median(column) for column in zip(*found, strict=True)))
        for threads, found in slopes.items()
    ]
    pairs = zip(slopes[1], slopes[2], strict=True)
    ratio = statistics.median(one.wall / two.wall for one, two in pairs)
    head = ("threads", "wall us", "CPU us", "of it the thread that learns")
    show(f"A citation on one and two threads; wall ratio {ratio:.2f}", head, rows)
