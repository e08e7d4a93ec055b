"""200,000 citations through Kafka, in and out, beside the same from a file: rate, memory, file handles."""

import json
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.benchmarks.measure import ONLINESRL, REPO, show
from tests.support.kafka_broker import Cluster

EXAMPLES = 200_000
CITATIONS = REPO / "streams" / "citations" / "citations.jsonl"
MODEL = REPO / "streams" / "citations" / "segmentation.mln"
pytestmark = pytest.mark.benchmark


class Load(NamedTuple):
    """Seconds of learning, CPU seconds, and samples of resident MB and open files, in order."""

    seconds: float
    cpu: float
    memory: list[float]
    files: list[int]


def lines() -> list[bytes]:
    """The citations over and over, each time under another id."""
    rows = [json.loads(line) for line in CITATIONS.read_bytes().splitlines()]
    copies = ({**row, "id": n} for n, row in enumerate(islice(cycle(rows), EXAMPLES)))
    return [json.dumps(row).encode() for row in copies]


def run(folder: Path, **keys: Any) -> Load:
    """Run to the end in a process of its own, and watch it."""
    values = {"model": str(MODEL), "query": "InField", "output": str(folder / "out"), **keys}
    config = folder / "run.yaml"
    config.write_text(json.dumps(values | {"checkpoint": {"every": "5s"}}))
    command = [sys.executable, *ONLINESRL, "run", str(config), "--until", "end"]
    memory, files = [], []
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=REPO, stdout=said, stderr=said)
        proc = Path("/proc") / str(process.pid)
        while process.poll() is None:
            try:
                status = dict(
                    line.split(":", 1) for line in (proc / "status").read_text().splitlines()
                )
                memory.append(int(status["VmRSS"].split()[0]) / 1024)
                files.append(len(list((proc / "fd").iterdir())))
                times = (proc / "stat").read_text().rpartition(")")[2].split()
                cpu = (int(times[11]) + int(times[12])) / 100
            except (OSError, KeyError):
                continue
            time.sleep(0.25)
    assert process.returncode == 0, (folder / "said").read_text()[-2000:]
    summary = json.loads((folder / "out" / "summary.json").read_bytes())
    assert summary["updates"] == EXAMPLES
    return Load(summary["seconds"], cpu, memory, files)


def test_a_long_run_through_kafka_uses_no_more_as_it_goes(
    broker: Cluster, topic: str, tmp_path: Path
) -> None:
    out = f"{topic}-out"
    broker.create_topic(topic)
    broker.create_topic(out)
    examples = lines()
    for first in range(0, EXAMPLES, 20_000):
        broker.produce(topic, [(None, line) for line in examples[first : first + 20_000]])
    source = tmp_path / "source.jsonl"
    source.write_bytes(b"\n".join(examples))
    kafka, files = tmp_path / "kafka", tmp_path / "file"
    kafka.mkdir()
    files.mkdir()

    live = run(
        kafka,
        source={"kind": "kafka", "bootstrap": broker.bootstrap, "topic": topic},
        sink={"kind": "kafka", "topic": out},
    )
    plain = run(files, source={"path": str(source)})

    assert sum(broker.end_offsets(out).values()) >= EXAMPLES
    rows: list[tuple[str, float, float, float, float, float]] = []
    for name, load in (("Kafka, in and out", live), ("file", plain)):
        quarter = len(load.memory) // 4
        early, late = max(load.memory[quarter : 2 * quarter]), max(load.memory[2 * quarter :])
        rows.append(
            (name, EXAMPLES / load.seconds, 1e6 * load.cpu / EXAMPLES, early, late, max(load.files))
        )
        assert max(load.files[2 * quarter :]) <= max(load.files[quarter : 2 * quarter])
        assert late <= early * 1.1 + 10
    head = ("", "a second", "us CPU", "MB, 2nd quarter", "MB, 2nd half", "open files")
    show(f"{EXAMPLES:,} citations", head, rows)
    assert (kafka / "out" / "weights.mln").read_bytes() == (
        files / "out" / "weights.mln"
    ).read_bytes()
