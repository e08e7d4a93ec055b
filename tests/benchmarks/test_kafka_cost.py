"""Citations through Kafka, in and out, beside the same from a file: rate, CPU, memory, open files."""

import json
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.measure import ONLINESRL, show, sizes
from tests.support.kafka_broker import Cluster
from tests.support.paths import REPO

STREAM = REPO / "streams" / "citations"


class Load(NamedTuple):
    """Seconds of learning, CPU seconds, and samples of resident MB and of open files, in order."""

    seconds: float
    cpu: float
    memory: list[float]
    files: list[int]


def run(folder: Path, count: int, **keys: Any) -> Load:
    """Run to the end in a process of its own, and watch it."""
    folder.mkdir()
    model = str(STREAM / "segmentation.mln")
    values = {"model": model, "query": "InField", "output": str(folder / "out"), **keys}
    config = folder / "run.yaml"
    config.write_text(json.dumps(values | {"checkpoint": {"every": "5s"}}))
    command = [sys.executable, *ONLINESRL, "run", str(config), "--until", "end"]
    memory, files, cpu = [], [], 0.0
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=REPO, stdout=said, stderr=said)
        proc = Path("/proc") / str(process.pid)
        while process.poll() is None:
            try:
                status = (proc / "status").read_text().partition("VmRSS:")[2]
                memory.append(int(status.split()[0]) / 1024)
                files.append(len([*(proc / "fd").iterdir()]))
                times = (proc / "stat").read_text().rpartition(")")[2].split()
                cpu = (int(times[11]) + int(times[12])) / 100
            except (OSError, IndexError):  # it has ended
                continue
            time.sleep(0.25)
    assert process.returncode == 0, (folder / "said").read_text()[-2000:]
    summary = json.loads((folder / "out" / "summary.json").read_bytes())
    assert summary["updates"] == count
    return Load(summary["seconds"], cpu, memory, files)


@sizes("count, growth", (100, float("inf")), (200_000, 1.1))
def test_a_long_run_through_kafka_uses_no_more_as_it_goes(
    count: int, growth: float, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in (STREAM / "citations.jsonl").read_bytes().splitlines()]
    fresh = ({**row, "id": n} for n, row in enumerate(islice(cycle(rows), count)))
    lines, out = [json.dumps(row).encode() for row in fresh], f"{topic}-out"
    broker.create_topic(topic)
    broker.create_topic(out)
    for first in range(0, count, 20_000):
        broker.produce(topic, [(None, line) for line in lines[first : first + 20_000]])
    (tmp_path / "source.jsonl").write_bytes(b"\n".join(lines))
    source = {"kind": "kafka", "bootstrap": broker.bootstrap, "topic": topic}
    sink = {"kind": "kafka", "topic": out}
    loads = {
        "Kafka": run(tmp_path / "Kafka", count, source=source, sink=sink),
        "file": run(tmp_path / "file", count, source={"path": str(tmp_path / "source.jsonl")}),
    }
    assert sum(broker.end_offsets(out).values()) >= count
    found = []
    for name, load in loads.items():
        quarter = len(load.memory) // 4
        early, late = slice(quarter, 2 * quarter + 1), slice(2 * quarter, None)
        memory = max(load.memory[early]), max(load.memory[late])
        files = max(load.files[early]), max(load.files[late])
        found.append((name, count / load.seconds, 1e6 * load.cpu / count, *memory, files[1]))
        assert memory[1] <= memory[0] * growth + 10
        assert files[1] <= files[0] * growth
    head = ("", "a second", "us CPU", "MB, 2nd quarter", "MB, 2nd half", "open files")
    show(f"{count:,} citations", head, found)
    one, other = ((tmp_path / name / "out" / "weights.mln").read_bytes() for name in loads)
    assert one == other
