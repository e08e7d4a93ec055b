"""What rounds over workers cost: seconds and bytes measured with one and two, and the model fitted to them.

A round of P workers takes W / P + M + L seconds: the work W of all parts, shared evenly, the merge M, which
is the driver's own, and what each round costs besides, L. W and L are fitted on P = 1 and P = 2, M is
measured. All beyond P = 2 is the model's, not measured. Needs two cores that are idle.

CPU seconds are of all processes below this one, so a round's can be compared with learning in series.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

import onlinesrl as srl
from onlinesrl.stream.distributed.coordinator import Rounds
from tests.benchmarks.measure import REPO, show

pytestmark = pytest.mark.benchmark
CONFIG = REPO / "configs" / "citations.yaml"
SHARDS, ROUND, ROUNDS = 8, 1_000, 5
LONG_ROUND, LONG_ROUNDS = 2_000, 3
ENGINES = ("local", "ray")


class Cost(NamedTuple):
    """Seconds before the first round, of a round, and of its merge; bytes to one worker and from all."""

    start: float
    round: float
    merge: float
    out: int
    back: int


def sent(value: Any) -> int:
    return len(ForkingPickler.dumps(value))


def cpu_seconds() -> float:
    """The CPU seconds of this process and all below it, those that have ended and were waited for too."""
    ticks, children = dict[int, int](), dict[int, list[int]]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks[int(folder.name)] = sum(map(int, stat[11:15]))
            children.setdefault(int(stat[1]), []).append(int(folder.name))
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += children.get(process, ())
    return total / os.sysconf("SC_CLK_TCK")


def in_series(lines: Path, folder: Path) -> float:
    """The CPU seconds of a run without shards."""
    began = time.process_time()
    srl.run(CONFIG, settings={"source.path": lines, "output": folder / str(began)})
    return time.process_time() - began


def in_rounds(
    engine: str, workers: int, lines: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> float:
    """The CPU seconds of a round with its checkpoint; the first, which imports, does not count."""
    at, round_ = list[float](), Rounds.round

    def timed(run: Rounds, pool: Any) -> bool:
        at.append(cpu_seconds())
        return round_(run, pool)

    keys = {"engine": engine, "workers": workers, "shards": SHARDS, "round": LONG_ROUND}
    with monkeypatch.context() as patched:
        patched.setattr(Rounds, "round", timed)
        settings = {f"distribute.{key}": value for key, value in keys.items()}
        output = folder / str(time.time())
        srl.run(CONFIG, settings={"source.path": lines, "output": output, **settings})
    assert len(at) == LONG_ROUNDS + 1  # the last for the few that are left
    return (at[-1] - at[1]) / (LONG_ROUNDS - 1)


def learning(
    engine: str, workers: int, data: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> Cost:
    """Learn citations in rounds; the first round, which compiles and imports, does not count."""
    took, merged, sizes = [], [], [(0, 0)]
    round_ = Rounds.round
    began = time.perf_counter()

    def timed(run: Rounds, pool: Any) -> bool:
        merge = run.learner.merge

        def merging(gains: Any, by_dual: bool) -> float:
            sizes.append((sent(state), sent(gains)))
            at = time.perf_counter()
            share = merge(gains, by_dual)
            merged.append(time.perf_counter() - at)
            return share

        state = run.learner.save()
        monkeypatch.setattr(run.learner, "merge", merging)
        at = time.perf_counter()
        more = round_(run, pool)
        took.append((at, time.perf_counter() - at))
        monkeypatch.undo()
        monkeypatch.setattr(Rounds, "round", timed)
        return more

    monkeypatch.setattr(Rounds, "round", timed)
    keys = {"engine": engine, "workers": workers, "shards": SHARDS, "round": ROUND}
    distribute = {f"distribute.{key}": value for key, value in keys.items()}
    srl.run(CONFIG, settings={"source.path": data, "output": output, **distribute})
    monkeypatch.undo()
    whole = [seconds for _, seconds in took[1:-1]]
    merge = min(merged[1:])
    return Cost(took[0][0] - began, min(whole), merge, *sizes[-1])


def tell(title: str, measured: Callable[[int], Cost]) -> None:
    """Print what was measured with one and two workers, and the model."""
    measured(1)  # compiles, and reads what is read
    one, two = measured(1), measured(2)
    work = max(2 * (one.round - two.round), 0.0)
    latency = max(one.round - one.merge - work, 0.0)
    rows = [
        ("measured", str(p), of.start, of.round, of.merge, of.out, of.back)
        for p, of in ((1, one), (2, two))
    ]
    for p in (2, 4, 8, 16):
        modelled = work / p + one.merge + latency
        rows.append(("model", str(p), one.start, modelled, one.merge, one.out, one.back))
    head = ("", "workers", "start s", "round s", "merge s", "bytes out", "bytes back")
    show(f"{title}: T(P) = start + rounds (W / P + merge + L)", head, rows)
    print(f"fitted on P = 1, 2: W = {work:.4f} s, L = {latency:.4f} s, merge = {one.merge:.4f} s")


@pytest.mark.parametrize("engine", ENGINES)
def test_learning_in_rounds(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "citations.jsonl"
    citations = (REPO / "streams" / "citations" / "citations.jsonl").read_bytes()
    data.write_bytes(citations * (SHARDS * ROUND * ROUNDS // citations.count(b"\n") + 1))
    tell(
        f"{SHARDS} shards of {ROUND} citations, {engine}",
        lambda workers: learning(engine, workers, data, tmp_path / str(time.time()), monkeypatch),
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("workers", [1, 2])
def test_cpu_of_a_round_beside_learning_in_series(
    tmp_path: Path, engine: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    citations = (REPO / "streams" / "citations" / "citations.jsonl").read_bytes().splitlines(True)
    copies = SHARDS * LONG_ROUND * LONG_ROUNDS // len(citations) + 1
    few.write_bytes(b"".join(citations * (copies // LONG_ROUNDS)))
    many.write_bytes(b"".join(citations * copies))
    in_series(few, tmp_path)  # compiles
    first = median(in_series(few, tmp_path) for _ in range(3))
    rows = []
    for _ in range(3):
        series = (in_series(many, tmp_path) - first) / (LONG_ROUNDS - 1)
        rounds = in_rounds(engine, workers, many, tmp_path, monkeypatch)
        rows.append((series, rounds, rounds / series))
    show(
        f"CPU s of {SHARDS} shards of {LONG_ROUND:,} citations, {engine}, {workers} workers",
        ("", "in series", "a round", "ratio"),
        [*(("", *row) for row in rows), ("median", *map(median, zip(*rows, strict=True)))],
    )
