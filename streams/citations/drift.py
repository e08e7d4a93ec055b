"""The topics of CiteSeer one after another, in all orders: F1 without and with a response to drift.

usage: drift.py CITESEER.jsonl [--output FOLDER]

CITESEER.jsonl is what streams/papers/convert.py writes. Each citation is predicted before it is learned
from. Prints a Markdown table, and draws the windows of one order to FOLDER (with matplotlib).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

import onlinesrl as srl

CONFIG = Path(__file__).parents[2] / "configs" / "citeseer.yaml"
LEARNERS: dict[str, dict[str, Any]] = {
    "1-best MIRA": {"learner.update": "mira"},
    "Subgradient": {"learner.update": "subgradient", "learner.sigma": 0.01},
    "CDA1-PL": {"learner.update": "cda1", "learner.loss": "pl"},
    "CDA1-ML": {"learner.update": "cda1"},
    "CDA2-PL": {"learner.update": "cda2", "learner.loss": "pl"},
    "CDA2-ML": {"learner.update": "cda2", "learner.loss": "ml", "learner.sigma": 0.003},
    "AdaGrad-CDA-ML": {"learner.update": "adagrad"},
    "Perceptron": {"learner.update": "perceptron"},
}
RESPONSE = {"drift.response": "restart"}
DRAWN = "CDA2-ML"
WINDOW = 50


def topics(data: Path) -> dict[str, list[str]]:
    """Return the lines of each topic."""
    found: dict[str, list[str]] = {}
    for line in data.read_text(encoding="utf-8").splitlines(keepends=True):
        found.setdefault(json.loads(line)["group"], []).append(line)
    return found


def run(stream: Path, settings: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[int, float]]]:
    """Return the summary of a run, and (examples, F1) of its windows."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "run"
        common = {"source.path": stream, "output": output, "metrics.every": WINDOW}
        summary = srl.run(CONFIG, settings={**common, **settings})
        lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
        ends = [line for line in lines if line["examples"] % WINDOW == 0]
        return summary, [(line["examples"], line["window"]["f1"]) for line in ends]


def compared(streams: list[Path], settings: dict[str, Any]) -> list[str]:
    """Return the cells of a learner: F1 without and with the response, and what became of the orders."""
    without = [100.0 * run(stream, settings)[0]["f1"] for stream in streams]
    found = [run(stream, {**settings, **RESPONSE})[0] for stream in streams]
    changes = [100.0 * s["f1"] - w for s, w in zip(found, without, strict=True) if "drift" in s]
    signals = sum(s["drift"]["signals"] for s in found if "drift" in s)
    better, worse = sum(c > 0 for c in changes), sum(c < 0 for c in changes)
    quiet = len(found) - len(changes)
    f1 = fmean(100.0 * s["f1"] for s in found)
    row = [f"{fmean(without):.2f}", f"{f1:.2f}", f"{f1 - fmean(without):+.2f}"]
    return [*row, *map(str, (signals, better, worse, quiet))]


def figure(stream: Path, ends: list[int], path: Path) -> None:
    """Draw the F1 of windows without and with the response, the signals, and where topics end."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no figure: pip install matplotlib")
        return
    _, axis = plt.subplots(figsize=(8, 4))
    for label, response in (("no response", {}), ("restart", RESPONSE)):
        summary, points = run(stream, {**LEARNERS[DRAWN], **response})
        axis.plot(*zip(*points, strict=True), label=f"{label}: {summary['f1']:.1%} in all")
    for at in summary.get("drift", {"at": []})["at"]:
        axis.axvline(at, color="red", linestyle=":", label="signal")
    for end in ends:
        axis.axvline(end, color="grey", linewidth=0.8)
    axis.set_xlabel("citations; grey: the topic changes")
    axis.set_ylabel(f"F1 of the last {WINDOW}")
    axis.set_title(DRAWN)
    axis.legend()
    plt.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(path)
    print(path)


def main() -> None:
    """Print the table and draw the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", metavar="CITESEER.jsonl", type=Path)
    parser.add_argument("--output", metavar="FOLDER", type=Path, default=Path("runs/drift"))
    given = parser.parse_args()
    lines = topics(given.data)
    with tempfile.TemporaryDirectory() as folder:
        streams = []
        for order in permutations(lines):
            streams.append(Path(folder) / f"{'-'.join(order)}.jsonl")
            streams[-1].write_text("".join(line for topic in order for line in lines[topic]))
        print("| learner | no response | restart | gain | signals | better | worse | no signal |")
        print("|---|---|---|---|---|---|---|---|")
        for name, settings in LEARNERS.items():
            print(f"| {name} | {' | '.join(compared(streams, settings))} |", flush=True)
        sizes = [len(each) for each in lines.values()]
        figure(streams[0], [sum(sizes[:n]) for n in range(1, len(sizes))], given.output / "f1.svg")


if __name__ == "__main__":
    main()
